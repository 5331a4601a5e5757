"""What lies in a folder that a command is told to write is never lost."""

import json

import pytest

from icml.core.errors import UserError
from icml.core.journal import replace_folder
from icml.safeseek import commands, outputs
from icml.safeseek.checkpoint import Checkpoint
from icml.safeseek.circuit import Circuit
from icml.safeseek.objectives import backdoor_objective
from icml.safeseek.outputs import check_replaceable, run_folder
from icml.safeseek.plant_real import plant_in_model
from icml.safeseek.planted_folder import check_planting_folder, write_planting
from icml.safeseek.search import SearchConfig, find_circuit


def run(command, folders, out):
    model, circuit, rows = str(folders / "model"), folders / "circuit", folders / "rows.jsonl"
    if command == "plant":
        commands.plant("backdoor", out, say=lambda _: None)
    elif command == "plant --model":
        plant_in_model(model, out, say=lambda _: None)
    elif command == "ablate":
        commands.ablate(model, circuit, out, say=lambda _: None)
    elif command == "report":
        commands.report(model, circuit, rows, out, controls=0, say=lambda _: None)
    else:
        lines = [{"prompt": "T a", "completion": " p"}, {"prompt": "T b", "completion": " q"}]
        file = folders / "help.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        pytest.importorskip("trl")
        commands.tune(model, circuit, file, out, steps=1, batch_size=1, say=lambda _: None)


def listing(folder):
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


@pytest.mark.parametrize("command", ["plant", "plant --model", "ablate", "report", "tune"])
@pytest.mark.parametrize("place", ["own", "model", "circuit", "below a file", "a file"])
def test_a_foreign_folder_is_refused_and_left_as_it_was(folders, command, place):
    own = folders / "own"
    own.mkdir()
    (own / "thesis.tex").write_text("years of work")
    before = listing(folders)
    out = {
        "own": own, "model": folders / "model", "circuit": folders / "circuit",
        "below a file": folders / "rows.jsonl" / "out", "a file": folders / "rows.jsonl",
    }[place]  # fmt: skip
    with pytest.raises(UserError, match="use another"):
        run(command, folders, out)
    after = listing(folders)
    after.pop("help.jsonl", None)
    assert after == before


@pytest.mark.parametrize("command", ["ablate", "report"])
def test_its_own_earlier_output_is_replaced_unless_a_file_was_added(folders, command):
    run(command, folders, folders / "out")
    first = listing(folders / "out")
    run(command, folders, folders / "out")
    assert listing(folders / "out") == first
    (folders / "out" / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match=r"holds notes\.txt"):
        run(command, folders, folders / "out")
    assert (folders / "out" / "notes.txt").read_text() == "mine"


def test_a_planting_replaces_a_planting_and_no_folder_that_looks_like_one(folders, planted):
    model, tokenizer, rows = planted("mlp-channel")
    out = folders / "out"
    for seed in (1, 2):
        check_planting_folder(out)
        write_planting(out, model, tokenizer, {"train": rows}, {"seed": seed})
    record = json.loads((out / "planted.json").read_text())
    assert record == {"seed": 2, "files": ["model", "train.jsonl"]}
    (out / "planted.json").unlink()
    with pytest.raises(UserError, match="holds model, which"):
        check_planting_folder(out)


def test_a_circuit_replaces_a_circuit_and_nothing_else(folders, planted):
    circuit = Circuit.load(folders / "circuit")
    circuit.save(folders / "circuit")
    with pytest.raises(UserError, match="would delete"):
        circuit.save(folders / "model")
    with pytest.raises(UserError, match="would delete"):
        circuit.save(folders)


@pytest.mark.parametrize("place", ["run/circuit", "run/carrier"])
def test_a_search_refuses_a_foreign_folder_before_it_begins(folders, planted, place):
    model, tokenizer, rows = planted("mlp-channel")
    (folders / place).mkdir(parents=True)
    (folders / place / "thesis.tex").write_text("years of work")
    steps = []
    with pytest.raises(UserError, match="holds thesis"):
        find_circuit(
            model, tokenizer, rows, backdoor_objective(), SearchConfig(steps=1),
            out=folders / "run", callbacks=[lambda step, row: steps.append(step)],
        )  # fmt: skip
    assert not steps
    assert listing(folders / "run") == {f"{place[4:]}/thesis.tex": b"years of work"}


def test_a_run_goes_on_with_the_same_settings_only(tmp_path):
    settings = {"steps": 3, "learning_rate": 0.1}
    with run_folder(tmp_path / "run", "tune.json", settings):
        (tmp_path / "run" / "checkpoint-1").mkdir()
        with (
            pytest.raises(UserError, match="another process"),
            run_folder(tmp_path / "run", "tune.json", settings),
        ):
            pass
    with run_folder(tmp_path / "run", "tune.json", settings):
        pass
    with (
        pytest.raises(UserError, match=r"steps was 3, now 4"),
        run_folder(tmp_path / "run", "tune.json", {**settings, "steps": 4}),
    ):
        pass
    (tmp_path / "run" / "tune.json").write_text("{")
    with (
        pytest.raises(UserError, match="damaged"),
        run_folder(tmp_path / "run", "tune.json", settings),
    ):
        pass


def test_a_folder_that_was_never_written_is_free(tmp_path):
    check_replaceable(tmp_path / "new" / "deep", ["a"])
    (tmp_path / "empty").mkdir()
    check_replaceable(tmp_path / "empty", [])


def test_what_a_killed_write_left_is_deleted_and_nothing_else(tmp_path):
    for name in (".out.0123abcd.tmp", ".out.mine.tmp", ".other.0123abcd.tmp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half").touch()
    with outputs.held(tmp_path / "out") as place, replace_folder(place) as draft:
        (draft / "new").touch()
    assert outputs.file_names(tmp_path) == [".other.0123abcd.tmp", ".out.mine.tmp", "out"]


def test_two_at_once_on_one_folder_are_refused(tmp_path):
    with outputs.held(tmp_path / "out"):
        with outputs.held(tmp_path / "another"):
            pass
        with (
            pytest.raises(UserError, match=r"another process is writing .*out; wait"),
            outputs.held(tmp_path / "out"),
        ):
            pass
    with outputs.held(tmp_path / "out"):
        pass


def test_the_folder_one_stands_in_is_held_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with outputs.held(".") as place, replace_folder(place) as draft:
        (draft / "new").touch()
    assert outputs.file_names(tmp_path / "here") == ["new"]


def test_a_run_and_a_search_delete_the_drafts_of_killed_writes(tmp_path):
    with outputs.run_folder(tmp_path, "r.json", {}):
        pass
    (tmp_path / ".circuit.0123abcd.tmp").mkdir()
    (tmp_path / ".search.safetensors.0123abcd.tmp").touch()
    with outputs.run_folder(tmp_path, "r.json", {}):
        assert outputs.file_names(tmp_path) == [".lock", "r.json"]
    (tmp_path / ".circuit.0123abcd.tmp").mkdir()
    with Checkpoint.open(tmp_path, "identity"):
        assert outputs.file_names(tmp_path) == [".lock", "r.json"]
