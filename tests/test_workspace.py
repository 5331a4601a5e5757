from pathlib import Path

import pytest
from tools import workspace


def write_member(root: Path, name: str, dependencies: str, extra: str = "") -> None:
    folder = root / "packages" / name
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "{name}"\ndependencies = [{dependencies}]\n'
        f"optional-dependencies.test = [{extra}]\n"
        f'[tool.uv.build-backend]\nmodule-name = "{name.replace("icml-", "icml.")}"\n'
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[tool.uv.workspace]\nmembers = ["packages/*"]\n')
    write_member(tmp_path, "icml-base", '"numpy>=2"')
    write_member(tmp_path, "icml-core", '"icml-base==1"')
    write_member(tmp_path, "icml-a", '"icml-core[torch]>=0.1,<0.2", "torch"')
    write_member(tmp_path, "icml-b", "", "\"ICML_core [hf] ; python_version>'3'\"")
    return tmp_path


def test_members_are_found_by_the_names_in_their_pyproject_files(root) -> None:
    assert set(workspace.members(root)) == {"icml-a", "icml-b", "icml-base", "icml-core"}


def test_a_requirement_with_extras_counts_and_so_does_what_it_needs_itself(root) -> None:
    assert workspace.needed_members("icml-a", root) == ["icml-a", "icml-base", "icml-core"]


def test_requirements_of_extras_count_however_they_are_spelled(root) -> None:
    assert workspace.needed_members("icml-b", root) == ["icml-b", "icml-base", "icml-core"]


def test_a_member_without_internal_requirements_needs_itself_alone(root) -> None:
    assert workspace.needed_members("icml-base", root) == ["icml-base"]
