import tarfile
import zipfile

import pytest
from tools import wheels

WHOLE = (
    "icml/a_b/__init__.py",
    "icml/a_b/py.typed",
    "icml_a_b-1.dist-info/METADATA",
    "icml_a_b-1.dist-info/licenses/LICENSE",
)


def write_wheel(folder, names):
    file = folder / "icml_a_b-1-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, "")
    return file


def test_a_wheel_with_its_own_package_and_nothing_else_is_fine(tmp_path) -> None:
    assert wheels.complaints(write_wheel(tmp_path, WHOLE), "icml.a_b") == []


@pytest.mark.parametrize("stray", ["icml/__init__.py", "icml/a_bc/x.py", "tests/test_x.py"])
def test_a_file_outside_the_package_is_named(tmp_path, stray) -> None:
    (complaint,) = wheels.complaints(write_wheel(tmp_path, [*WHOLE, stray]), "icml.a_b")
    assert f"holds {stray}" in complaint


@pytest.mark.parametrize("missing", ["__init__.py", "py.typed", "LICENSE"])
def test_a_file_that_must_be_there_is_missed(tmp_path, missing) -> None:
    names = [name for name in WHOLE if not name.endswith(missing)]
    (complaint,) = wheels.complaints(write_wheel(tmp_path, names), "icml.a_b")
    assert "lacks" in complaint
    assert missing in complaint


def test_a_wheel_is_found_by_its_distribution_also_beside_a_longer_name(tmp_path) -> None:
    wanted = write_wheel(tmp_path, WHOLE)
    (tmp_path / "icml_a_b_c-1-py3-none-any.whl").touch()
    assert wheels.find_wheel(tmp_path, "icml-a-b") == wanted


def test_an_sdist_without_tests_is_refused(tmp_path) -> None:
    (tmp_path / "file").touch()
    with tarfile.open(tmp_path / "icml_a-1.tar.gz", "w:gz") as archive:
        for name in ("pyproject.toml", "README.md", "LICENSE", "src/icml/a/__init__.py"):
            archive.add(tmp_path / "file", f"icml_a-1/{name}")
    found = wheels.sdist_complaints(tmp_path / "icml_a-1.tar.gz")
    assert found == ["icml_a-1.tar.gz lacks tests/test_"]


def test_the_size_of_a_folder_counts_files_but_neither_links_nor_bytecode(tmp_path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_bytes(b"x" * 1_500_000)
    (tmp_path / "deep" / "file.pyc").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "file")
    assert wheels.size_mb(tmp_path) == 1.5
