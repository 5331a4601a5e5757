import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tools import workspace

SCRIPT = workspace.ROOT / ".github" / "changed.py"
spec = importlib.util.spec_from_file_location("changed", SCRIPT)
assert spec is not None
assert spec.loader is not None
changed = importlib.util.module_from_spec(spec)
spec.loader.exec_module(changed)

TABLE = {"icml-core": "shared/core", "icml-a": "packages/icml-a", "icml-ab": "packages/icml-ab"}


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ([], []),
        (["README.md", "docs/releases.md"], []),
        (["packages/icml-a/src/x.py"], ["icml-a"]),
        (["packages/icml-ab/src/x.py"], ["icml-ab"]),
        (["packages/icml-a/README.md"], ["icml-a"]),
        (["packages/icml-a/x.py", "packages/icml-ab/y.py"], ["icml-a", "icml-ab"]),
        (["packages/icml-a/x.py", "docs/releases.md"], ["icml-a"]),
        (["shared/core/src/x.py"], sorted(TABLE)),
        (["packages/icml-a/x.py", "noxfile.py"], sorted(TABLE)),
        (["packages/icml-gone/x.py"], sorted(TABLE)),
    ],
)
def test_a_package_alone_is_tested_when_nothing_else_changed(paths, expected) -> None:
    assert changed.affected(paths, TABLE) == expected


def git(root: Path, *arguments: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    command = ["git", *who, *arguments]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout


def run_script(root: Path, *arguments: str) -> list[str]:
    command = [sys.executable, "-I", str(root / ".github" / "changed.py"), *arguments]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_the_script_reads_the_changes_since_a_commit_from_git(tmp_path) -> None:
    workspace.copy_tree(tmp_path)
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "base")
    base = git(tmp_path, "rev-parse", "HEAD").strip()
    (tmp_path / "packages" / "icml-gdpo" / "a new file.txt").write_text("")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "change")

    assert run_script(tmp_path, base) == ["icml-gdpo"]
    assert run_script(tmp_path) == sorted(workspace.members())


def test_an_unknown_commit_asks_for_every_package(tmp_path) -> None:
    workspace.copy_tree(tmp_path)
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "base")
    assert run_script(tmp_path, "0" * 40) == sorted(workspace.members())
