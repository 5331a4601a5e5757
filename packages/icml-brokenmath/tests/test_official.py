"""The official columns become items; what would not stay the same is refused."""

import json

import pytest

from icml.brokenmath.items import load_items
from icml.brokenmath.official import read_official
from icml.core.errors import UserError
from icml.core.testing.commands import run_icml

ROW = {
    "problem_id": "x_1",
    "problem": "Prove that 2 + 2 = 5.",
    "original_problem": "Prove that 2 + 2 = 4.",
    "solution": "Count.",
    "question_type": "proof",
    "is_adversarial": True,
    "gold_answer": None,
}


def test_rows_become_items() -> None:
    (item,) = read_official([ROW], "here")
    assert (item.id, item.statement, item.original) == (
        "x_1", ROW["problem"], ROW["original_problem"],
    )  # fmt: skip
    assert (item.solution, item.answer, item.question_type) == ("Count.", None, "proof")
    assert item.certificate is None


def test_a_number_counts_as_an_id_zero_too_and_a_gap_of_a_table_as_no_answer() -> None:
    (item,) = read_official([ROW | {"problem_id": 0, "gold_answer": float("nan")}], "here")
    assert (item.id, item.answer) == ("0", None)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([], "here holds no row"),
        ([ROW | {"problem": ""}], "row 1 of here has no problem; its columns: problem_id"),
        ([ROW, ROW], "row 2 of here: the id x_1 stands twice"),
        ([ROW | {"problem": ROW["original_problem"]}], "equals the original"),
        ([ROW | {"problem": 7}], "row 1 of here: statement"),
        ([ROW | {"problem_id": float("nan")}], "row 1 of here: problem_id is a text or a whole"),
        ([ROW | {"problem_id": True}], "row 1 of here: problem_id is a text or a whole"),
        ([ROW | {"problem_id": None}], "row 1 of here has no problem_id"),
    ],
)
def test_rows_that_are_no_items_are_refused(rows, reason) -> None:
    with pytest.raises(UserError, match=reason):
        read_official(rows, "here")


def test_a_file_of_the_official_rows_is_read(tmp_path) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROW) + "\n")
    (item,) = load_items(tmp_path / "rows.jsonl")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pytest.importorskip("pyarrow").Table.from_pylist([ROW | {"competition": "HMMT"}])
    parquet.write_table(table, tmp_path / "rows.parquet")
    (same,) = load_items(str(tmp_path / "rows.parquet"))
    assert same == item.model_copy(update={"competition": "HMMT"})
    (tmp_path / "rows.jsonl").write_text(json.dumps({"problem_id": 1, "problem": "x"}))
    with pytest.raises(UserError, match=r"^line 1 of [^:]* has no original_problem; its columns: "):
        load_items(tmp_path / "rows.jsonl")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no Parquet at all, PAR1"])
def test_a_parquet_file_that_is_none_is_refused(tmp_path, content) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "x.parquet"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"cannot read the items .*x\.parquet: "):
        load_items(path)


@pytest.mark.parametrize("revision", [None, "main", "5eda8c5"])
def test_a_data_set_needs_its_commit(revision) -> None:
    with pytest.raises(UserError, match="give the commit of a/b as revision"):
        load_items("hf:a/b", revision=revision)


@pytest.mark.parametrize("source", ["hf:", "hf: "])
def test_a_data_set_needs_a_name(source) -> None:
    with pytest.raises(UserError, match="names no data set: write hf:OWNER/NAME"):
        load_items(source)


@pytest.mark.parametrize("command", [["validate", "hf:a/b"], ["likelihood", "m", "--items=hf:a/b"]])
def test_commands_take_a_revision(command) -> None:
    for given, got in (([], "None"), (["--revision", "main"], "'main'")):
        ended = run_icml("brokenmath", *command, *given)
        assert ended.returncode == 2
        assert ended.stderr.startswith("icml: give the commit of a/b as revision ")
        assert ended.stderr.endswith(f", got {got}\n")


def test_a_copy_of_the_folder_is_read(tmp_path, monkeypatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    card = "configs:\n- config_name: default\n  data_files:\n"
    card += "  - split: benchmark\n    path: rows.jsonl\n"
    (tmp_path / "README.md").write_text(f"---\n{card}---\n")
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROW) + "\n")
    (item,) = load_items(f"hf:{tmp_path}")
    assert item.id == "x_1"
    with pytest.raises(UserError, match="a local folder has no revision"):
        load_items(f"hf:{tmp_path}", revision="0" * 40)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/rows.jsonl").write_text(json.dumps(ROW) + "\n")
    with pytest.raises(UserError, match=r'split benchmark of .*Unknown split "benchmark"'):
        load_items(f"hf:{tmp_path / 'other'}")
