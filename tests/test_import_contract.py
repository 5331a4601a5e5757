import os
import subprocess
import sys
from pathlib import Path

import pytest
from tools import workspace

ROOT = workspace.ROOT
PLANTED = {
    "a paper imports a paper": ("packages/icml-gdpo/src/icml/gdpo/cli.py", "import icml.newpaper"),
    "a paper imports a paper inside a function": (
        "packages/icml-gdpo/src/icml/gdpo/cli.py",
        "def planted() -> None:\n    from icml.newpaper import antithetic",
    ),
    "the template imports a paper": (
        "shared/newpaper/src/icml/newpaper/cli.py",
        "import icml.gdpo.cli",
    ),
    "core imports a paper": ("shared/core/src/icml/core/cli.py", "import icml.gdpo"),
    "a room looks upwards": ("shared/core/src/icml/core/lazy.py", "import icml.core.summary"),
    "a torch room looks upwards": (
        "shared/core/src/icml/core/cuda/__init__.py",
        "import icml.core.models",
    ),
    "a torch room uses the command line": (
        "shared/core/src/icml/core/rl/__init__.py",
        "from icml.core import summary",
    ),
    "a torch room uses more of the light ones than it may": (
        "shared/core/src/icml/core/rl/__init__.py",
        "from icml.core import installed",
    ),
    "a light room uses a torch room": (
        "shared/core/src/icml/core/summary.py",
        "def planted() -> None:\n    import icml.core.cuda.device",
    ),
    "a light room imports torch": ("shared/core/src/icml/core/summary.py", "import torch"),
    "a room has no place": ("shared/core/src/icml/core/misplaced.py", '"""A new room."""'),
}


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(folder / "src") for folder in workspace.members(root).values())
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-logo", "--no-cache"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    workspace.copy_tree(tmp_path)
    return tmp_path


def test_the_contract_reads_every_member_of_the_workspace() -> None:
    modules = {workspace.module_name(folder) for folder in workspace.members().values()}
    linter = workspace.project_file(ROOT)["tool"]["importlinter"]
    papers, core = linter["contracts"][0]["layers"]
    assert set(linter["root_packages"]) == modules
    assert {*papers.split(" | "), core} == modules


def test_the_tree_as_it_is_keeps_the_contract(copy) -> None:
    done = lint(copy)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_import_breaks_the_contract(copy, what) -> None:
    file, line = PLANTED[what]
    before = (copy / file).read_text() if (copy / file).is_file() else ""
    (copy / file).write_text(f"{before}\n\n{line}\n")

    done = lint(copy)
    assert done.returncode == 1, done.stdout + done.stderr
    assert " 1 broken" in done.stdout or " 2 broken" in done.stdout
