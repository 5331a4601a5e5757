"""Files and settings as they come: a clear sentence, or the same result as from a clean one."""

import json

import pytest
from safetensors.torch import load_file, save_file

from icml.core.errors import UserError
from icml.core.models.load import load
from icml.safeseek import commands
from icml.safeseek.circuit import Circuit
from icml.safeseek.data import CircuitDataset
from icml.safeseek.search import SearchConfig
from icml.safeseek.units import Site

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


@pytest.mark.parametrize(
    "change", [{"steps": 0}, {"batch_size": -1}, {"learning_rate": float("nan")}], ids=repr
)
def test_tuning_refuses_numbers_before_it_reads_anything(tmp_path, change):
    (told,) = (f"{name} must be .*, got {value}" for name, value in change.items())
    with pytest.raises(UserError, match=told):
        commands.tune("none", tmp_path, tmp_path / "none", tmp_path / "out", **change)


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"\xff\xfe\x00", b'{"format": 1'])
def test_damaged_circuits_are_refused(tmp_path, build, content):
    Circuit.of(build("llama"), {}).save(tmp_path / "c")
    (tmp_path / "c" / "circuit.json").write_bytes(content)
    with pytest.raises(UserError, match="damaged"):
        Circuit.load(tmp_path / "c")


def _edited(tensors, edit):
    changed = {key: value.clone() for key, value in tensors.items()}
    edit(changed)
    return changed


EDITS = {
    "a unit more": lambda t: t["0/head"].__setitem__(0, ~t["0/head"][0]),
    "another unit": lambda t: t.__setitem__("1/mlp-channel", t["1/mlp-channel"].roll(1)),
    "a site less": lambda t: t.pop("0/head"),
    "a site twice": lambda t: t.__setitem__("01/head", t["1/head"].clone()),
    "other digits": lambda t: t.__setitem__("\u0661/head", t["1/head"].clone()),
    "no such kind": lambda t: t.__setitem__("1/neuron", t["1/head"].clone()),
    "numbers": lambda t: t.__setitem__("0/head", t["0/head"].long()),
    "a table": lambda t: t.__setitem__("0/head", t["0/head"][None]),
    "nothing": lambda t: t.clear(),
}


@pytest.mark.parametrize("name", EDITS)
def test_circuits_with_edited_units_are_refused(tmp_path, build, name):
    Circuit.of(build("llama"), {Site(1, "mlp-channel"): [2]}).save(tmp_path / "c")
    file = tmp_path / "c" / "circuit.safetensors"
    save_file(_edited(load_file(file), EDITS[name]), file)
    with pytest.raises(UserError, match=r"the circuit in .* is damaged"):
        Circuit.load(tmp_path / "c")


@pytest.mark.parametrize("cut", [0, 4, 8, 100, -3])
def test_circuits_that_were_cut_off_are_refused(tmp_path, build, cut):
    Circuit.of(build("llama"), {Site(1, "mlp-channel"): [2]}).save(tmp_path / "c")
    file = tmp_path / "c" / "circuit.safetensors"
    file.write_bytes(file.read_bytes()[:cut])
    with pytest.raises(UserError, match="damaged"):
        Circuit.load(tmp_path / "c")


@pytest.mark.parametrize(
    "change",
    [
        {"format": True}, {"format": 2}, {"notes": None}, {"notes": "x"}, {"sizes": None},
        {"model_fingerprint": 5}, {"units_sha256": "0"}, {"sizes": {"head": [9, 9]}},
    ],
    ids=repr,
)  # fmt: skip
def test_circuits_with_an_edited_description_are_refused(tmp_path, build, change):
    Circuit.of(build("llama"), {Site(1, "mlp-channel"): [2]}).save(tmp_path / "c")
    file = tmp_path / "c" / "circuit.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(UserError, match=r"is damaged|known is 1"):
        Circuit.load(tmp_path / "c")


def test_circuits_from_before_the_checksum_are_read(tmp_path, build):
    circuit = Circuit.of(build("llama"), {Site(1, "mlp-channel"): [2]})
    circuit.save(tmp_path / "c")
    file = tmp_path / "c" / "circuit.json"
    about = json.loads(file.read_text())
    del about["units_sha256"]
    file.write_text(json.dumps(about))
    assert Circuit.load(tmp_path / "c").members() == circuit.members()


def test_an_empty_circuit_is_not_cut_out(folders):
    model = load(folders / "model").model
    Circuit.of(model, {}).save(folders / "circuit")
    with pytest.raises(UserError, match="the circuit is empty"):
        commands.ablate(str(folders / "model"), folders / "circuit", folders / "out")
    assert not (folders / "out").exists()
