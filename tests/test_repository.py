"""Rules that hold for the whole repository."""

import ast
import os
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tools import workspace

from icml.core.doctor import TOOLS

ROOT = workspace.ROOT
TRACKED = workspace.tracked_files()
MEMBERS = workspace.members()
LONGEST_MODULE = 400


def text_of(file: Path) -> str | None:
    try:
        return (ROOT / file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None  # binary test data


def places_of_this_machine() -> list[str]:
    """Folders and registry hosts that only this machine knows."""
    variables = re.compile(r"(PIP|UV)_(DEFAULT_|EXTRA_)?INDEX(_URL)?")
    urls = [value for name, value in os.environ.items() if variables.fullmatch(name)]
    hosts = {urlsplit(url).hostname or "pypi.org" for url in urls} - {"pypi.org"}
    return [str(ROOT), *os.environ.get("UV_FIND_LINKS", "").split(), *hosts]


def imported(source: Path) -> set[str]:
    """Top-level names of the foreign modules that the files below ``source`` import."""
    found: set[str] = set()
    for file in source.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - {"icml"}


def test_no_distribution_owns_the_namespace_package() -> None:
    assert [f for f in TRACKED if f.parts[-2:] == ("icml", "__init__.py")] == []


def test_no_tracked_file_names_a_place_of_this_machine() -> None:
    wanted = [re.escape(place) for place in places_of_this_machine()]
    pattern = re.compile("|".join([*wanted, r"/(?:home|Users)/\w+/", r"[\w.-]+/simple/"]))
    found = [f"{f}: {hit[0]}" for f in TRACKED if (hit := pattern.search(text_of(f) or ""))]
    # this file holds the patterns themselves
    assert [line for line in found if not line.startswith("tests/test_repository.py")] == []


def test_no_module_is_longer_than_the_limit() -> None:
    lines = {f: len((text_of(f) or "").splitlines()) for f in TRACKED if f.suffix == ".py"}
    assert {str(f): n for f, n in lines.items() if n > LONGEST_MODULE} == {}


def test_tests_of_packages_are_no_packages() -> None:
    assert [f for f in TRACKED if f.name == "__init__.py" and "tests" in f.parts] == []


@pytest.mark.parametrize("name", MEMBERS)
def test_every_distribution_has_the_files_that_a_reader_expects(name) -> None:
    folder = MEMBERS[name].relative_to(ROOT)
    source = folder / "src" / workspace.module_name(MEMBERS[name]).replace(".", "/")
    wanted = [folder / file for file in ("README.md", "CHANGELOG.md", "LICENSE")]
    wanted += [source / "__init__.py", source / "py.typed"]
    assert [str(file) for file in wanted if file not in TRACKED] == []
    assert any(file.match(f"{folder}/tests/test_*.py") for file in TRACKED)


@pytest.mark.parametrize("name", [n for n in MEMBERS if n != "icml-core"])
def test_every_paper_has_a_benchmark_a_command_and_an_example(name) -> None:
    folder = MEMBERS[name].relative_to(ROOT)
    commands = workspace.project_file(MEMBERS[name])["project"]["entry-points"]["icml.commands"]
    module = workspace.module_name(MEMBERS[name])
    assert any(file.is_relative_to(folder / "benchmarks") for file in TRACKED)
    assert commands == {name.removeprefix("icml-"): f"{module}.cli:app"}
    assert "```python\n" in (ROOT / folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", MEMBERS)
def test_every_distribution_lists_what_it_imports_also_where_another_brings_it(name) -> None:
    listed = workspace.requirements(MEMBERS[name])
    homes = packages_distributions()
    foreign = imported(MEMBERS[name] / "src")
    providers = {m: {d.lower().replace("_", "-") for d in homes.get(m, [])} for m in foreign}
    assert {module for module in foreign if not providers[module] & listed} == set()


@pytest.mark.parametrize("name", MEMBERS)
def test_sister_packages_are_required_by_range_and_never_pinned(name) -> None:
    project = workspace.project_file(MEMBERS[name])["project"]
    sisters = [d for d in project["dependencies"] if d.startswith("icml-")]
    assert [d for d in sisters if "==" in d or ">=" not in d] == []


def test_every_member_is_installed_with_the_workspace_and_so_is_what_its_tests_need() -> None:
    root = workspace.project_file(ROOT)
    assert root["project"]["dependencies"] == [f"{name}[test]" for name in sorted(MEMBERS)]
    assert set(root["tool"]["uv"]["sources"]) == set(MEMBERS)


def test_the_doctor_names_no_paper_that_does_not_exist() -> None:
    named = {name for tool in TOOLS for name in re.findall(r"icml-\w+", tool.enables)}
    assert named <= set(MEMBERS)
