"""``icml gdpo`` from the command line."""

from pathlib import Path

import pytest

from icml.core.cli import main
from icml.core.testing import check_help_is_light

DATA = Path(__file__).parent / "data" / "trl-completions"
ANS = [DATA, "--rewards", "ans", "--group-size", 8]


def run(capsys, *args):
    status = main(["gdpo", *map(str, args)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_help_is_light_and_names_the_commands(capsys):
    check_help_is_light("gdpo")
    status, out, _ = run(capsys, "--help")
    assert status == 0
    assert all(name in out for name in ("reproduce", "table", "audit"))


def test_table_prints_the_papers_sizes(capsys):
    status, out, _ = run(capsys, "table")
    lines = [line.split() for line in out.splitlines()]
    assert status == 0
    assert len(lines) == 11
    assert lines[3] == ["2", "4", "35", "7", "14"]


def test_table_prints_one_size(capsys):
    _, out, _ = run(capsys, "table", "--rewards", 3, "--group-size", 2)
    assert [line.split() for line in out.splitlines()][1:] == [["3", "2", "36", "2", "4"]]


@pytest.mark.parametrize(
    ("args", "message"),
    [(["--rewards", 2], "belong together"), (["--rewards", 0, "--group-size", 2], "at least 1"),
     (["--rewards", 9, "--group-size", 9], "choose smaller numbers")],
)  # fmt: skip
def test_sizes_that_cannot_be_counted_exit_with_2(capsys, args, message):
    status, out, err = run(capsys, "table", *args)
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert message in err


def test_audit_prints_the_result_and_writes_the_files(capsys, tmp_path):
    status, out, _ = run(
        capsys, "audit", DATA, "--rewards", "ans,fmt,length", "--group-size", 8, "--out", tmp_path
    )
    assert status == 0
    assert "made this log" in out
    assert out.splitlines()[-3:] == [
        str(tmp_path / name) for name in ("shares.svg", "shares.csv", "advantages.csv")
    ]


def test_audit_takes_single_files_and_weights(capsys, tmp_path):
    logs = [DATA / f"completions_0000{i}.parquet" for i in (3, 5)]
    status, out, _ = run(
        capsys, "audit", *logs, "--rewards", "ans, length", "--group-size", 8,
        "--weights", "2,1", "--out", tmp_path,
    )  # fmt: skip
    assert status == 0
    assert "2 batches found, 0 dropped" in out
    assert "neither to 1e-05" in out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([DATA, "--rewards", "ans,nope", "--group-size", 8], "no column 'nope'; there are: step"),
        ([DATA, "--rewards", "ans,,fmt", "--group-size", 8], "--rewards needs names"),
        ([DATA, "--rewards", "ans", "--group-size", 5], "not a multiple of the group size 5"),
        ([DATA, "--rewards", "ans", "--group-size", 16], "the prompt changes at completion 9"),
        (
            [DATA, "--rewards", "ans", "--group-size", 8, "--weights", "x"],
            "--weights needs numbers",
        ),
        ([DATA, "--rewards", "ans", "--group-size", 8, "--weights", "1,2"], "weights must have"),
        ([DATA, "--rewards", "prompt", "--group-size", 8], "is not a number"),
        (["--rewards", "ans", "--group-size", 8], "give at least one log"),
        (["none.parquet", "--rewards", "ans", "--group-size", 8], "none.parquet: No such file"),
    ],
)
def test_what_cannot_be_audited_exits_with_2_and_writes_nothing(capsys, tmp_path, args, message):
    status, out, err = run(capsys, "audit", *args, "--out", tmp_path / "out")
    assert (status, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_folder_that_cannot_be_made_exits_with_2(capsys, tmp_path):
    (tmp_path / "taken").write_text("a file")
    for out in (tmp_path / "taken", tmp_path / "taken" / "below"):
        status, table, err = run(capsys, "audit", *ANS, "--out", out)
        assert (status, table, len(err.splitlines())) == (2, "", 1)
        assert f"--out {out} must be a folder, but {tmp_path / 'taken'} is a file" in err
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
