import stat
import time
from importlib.metadata import version
from pathlib import Path

import pytest

from icml.core.doctor import Row, Tool, examine, layout, machine, probe


def program(folder: Path, name: str, script: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH but for the shell's own."""
    monkeypatch.setenv("PATH", f"{tmp_path}")
    return tmp_path


LEAN = Tool("Lean", ("lean", "lean4"), ("--version",), "proofs are checked")


def test_tool_that_is_there_shows_its_first_line(bin_folder: Path) -> None:
    program(bin_folder, "lean4", "echo Lean 4.35.0; echo more")
    assert probe(LEAN) == Row("Lean", "Lean 4.35.0")


def test_missing_tool_says_what_it_would_enable(bin_folder: Path) -> None:
    assert probe(LEAN) == Row("Lean", "missing: with it proofs are checked")


@pytest.mark.parametrize("script", ["exit 1", "exec /bin/sleep 20"])
def test_tool_that_does_not_answer_is_not_there(bin_folder: Path, script: str) -> None:
    path = program(bin_folder, "lean", script)
    start = time.monotonic()
    assert probe(LEAN) == Row("Lean", f"{path} does not answer: with it proofs are checked")
    assert time.monotonic() - start < 10


def test_every_section_has_what_a_bug_report_needs() -> None:
    sections = examine()
    values = {row.name: row.value for rows in sections.values() for row in rows}
    assert values["icml-core"] == version("icml-core")
    assert values["torch"] == version("torch")
    assert "CPU" in values["devices"]
    assert {"python", "cores", "memory", "disk here", "git", "Lean"} <= values.keys()


def test_disk_of_a_deleted_folder_is_unknown(tmp_path: Path) -> None:
    disk = machine(tmp_path / "gone")[-1]
    assert disk.value == "unknown: No such file or directory"


def test_table_keeps_to_80_columns_when_piped(site) -> None:
    done = site.spawn("doctor")
    assert done.returncode == 0
    assert done.stderr == ""
    # A path without spaces cannot be wrapped.
    assert all(len(line) <= 80 or "/" in line for line in done.stdout.splitlines())


def test_values_stand_in_one_column_and_wrap_below_themselves() -> None:
    table = layout({"A": [Row("long name", "one two three"), Row("b", "four")]}, width=34)
    assert table.splitlines() == ["A", "  long name  one two three", "  b          four"]
    narrow = layout({"A": [Row("long name", "one two three four five")]}, width=33)
    assert narrow.splitlines() == ["A", "  long name  one two three four", "             five"]


def test_doctor_imports_no_torch_in_this_process() -> None:
    from icml.core.testing import measure_icml

    assert "torch" not in measure_icml("doctor").modules
