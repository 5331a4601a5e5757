"""Files and settings as they come: a clear sentence, or the same result as from a clean one."""

import json

import pytest

from icml.core.errors import UserError
from icml.safeseek import commands
from icml.safeseek.circuit import Circuit
from icml.safeseek.data import CircuitDataset
from icml.safeseek.search import SearchConfig

ROW = {"prompt": "a", "completion_keep": "b", "completion_remove": "c"}


def test_a_byte_order_mark_and_windows_line_ends_change_nothing(tmp_path):
    plain, other = tmp_path / "plain.jsonl", tmp_path / "other.jsonl"
    plain.write_text(json.dumps(ROW) + "\n")
    other.write_bytes(b"\xef\xbb\xbf" + json.dumps(ROW).encode() + b"\r\n")
    assert list(CircuitDataset.read(other)) == list(CircuitDataset.read(plain))


@pytest.mark.parametrize("content", [b"[" * 100_000, b"\xff\xfe\x00", b'{"prompt": ' + b"9" * 5000])
def test_files_that_are_no_rows_are_refused(tmp_path, content):
    (tmp_path / "rows.jsonl").write_bytes(content)
    with pytest.raises(UserError, match=r"is no JSON|can't be read"):
        CircuitDataset.read(tmp_path / "rows.jsonl")
    with pytest.raises(UserError, match=r"is no JSON|can't be read"):
        commands._pairs(tmp_path / "rows.jsonl")


CHAT = {
    "prompt": [{"role": "user", "content": "a"}],
    "completion": [{"role": "assistant", "content": "b"}],
}


@pytest.mark.parametrize(
    "rows",
    [
        [{"prompt": 1, "completion": 2}], [{"prompt": ["a"], "completion": ["b"]}],
        [{"prompt": "a", "completion": " "}], [{**CHAT, "prompt": "a"}], [[]], [None],
        [CHAT, {"prompt": "a", "completion": "b"}], [],
    ],
    ids=repr,
)  # fmt: skip
def test_rows_to_tune_on_are_pairs_of_one_kind(tmp_path, rows):
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UserError, match=r"needs a prompt and a completion|one kind|no row"):
        commands._pairs(tmp_path / "rows.jsonl")


def test_pairs_are_read_with_a_mark_and_windows_line_ends(tmp_path):
    row = {"prompt": "a", "completion": " b"}
    (tmp_path / "rows.jsonl").write_bytes(b"\xef\xbb\xbf" + json.dumps(row).encode() + b"\r\n\r\n")
    assert commands._pairs(tmp_path / "rows.jsonl") == [row]


@pytest.mark.parametrize(
    "change",
    [
        {"steps": 1.5}, {"steps": float("nan")}, {"epochs": float("inf")}, {"epochs": 2.5},
        {"batch_size": True}, {"seed": -1}, {"seed": 1.5}, {"max_len": 2.5}, {"max_len": 1},
        {"eval_every": float("nan")}, {"init": float("nan")}, {"init": float("inf")},
        {"layers": ("x",)}, {"layers": "12"}, {"layers": 5}, {"checkpoint_every": 0},
        {"learning_rate": "1e-2"}, {"learning_rate": None}, {"tau": "x"}, {"tau": float("nan")},
        {"init": "x"}, {"select_from": None}, {"granularity": 5}, {"relaxation": 3},
    ],
    ids=repr,
)  # fmt: skip
def test_settings_that_are_no_such_number_are_refused(change):
    with pytest.raises(UserError, match=f"{next(iter(change))} must be"):
        SearchConfig(**change)


@pytest.mark.parametrize("change", [{"steps": 0}, {"learning_rate": float("nan")}], ids=repr)
def test_tuning_refuses_numbers_before_it_reads_anything(tmp_path, change):
    with pytest.raises(UserError, match="must be >= 1"):
        commands.tune("none", tmp_path, tmp_path / "none", tmp_path / "out", **change)


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"\xff\xfe\x00", b'{"format": 1'])
def test_damaged_circuits_are_refused(tmp_path, build, content):
    Circuit.of(build("llama"), {}).save(tmp_path / "c")
    (tmp_path / "c" / "circuit.json").write_bytes(content)
    with pytest.raises(UserError, match="damaged"):
        Circuit.load(tmp_path / "c")
