"""``icml wzllm train`` from end to end: search, expert iteration and the real GRPOTrainer."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from icml.core.cli import main
from icml.core.journal import lock_folder
from icml.wzllm.training import launch
from icml.wzllm.worker import Worker

RECIPE = """
model: random:llama?layers=1&hidden=32&heads=2&vocab=300&ctx=128
statements: {source: 'rows?largest=4', held_out: 4, given: 8}
bootstrap: {warm_steps: 120, rounds: 2, steps: 10, learning_rate: 1e-2, batch: 8, samples: 2,
  longest: 24, stop_below: 0.0}
overlong_cache: 4
training:
  use_cpu: true
  bf16: false
  gradient_checkpointing: false
  max_steps: 4
  per_device_train_batch_size: 8
  num_generations: 4
  max_completion_length: 24
  logging_steps: 1
  save_steps: 2
"""
COMMAND = ["wzllm", "train", "tiny.yaml"]
OUT = Path("runs/wzllm/train/tiny")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(RECIPE)
    return tmp_path


def icml(capsys, *args):
    status = main(args)
    return status, *capsys.readouterr()


def test_a_recipe_goes_through_all_parts_and_is_not_run_twice(folder, capsys):
    status, out, _ = icml(capsys, *COMMAND)
    assert status == 0
    assert "given       8 certificates of the symbolic search" in out
    assert "round 0" in out
    assert "round 1" in out
    assert [line.split()[0] for line in out.splitlines() if "/4 " in line] == [
        "1/4", "2/4", "3/4", "4/4"
    ]  # fmt: skip
    result = json.loads((OUT / "result.json").read_text())
    assert result["steps"] == 4
    assert {"supervised", "bootstrap", "dapo", "blocked"} <= result.keys()
    assert (OUT / "model.safetensors").exists()
    status, again, _ = icml(capsys, *COMMAND)
    assert (status, again) == (0, f"finished before: {OUT}\n")


def test_bootstrap_only_stops_before_dapo_which_then_starts_from_it(folder, capsys):
    status, out, _ = icml(capsys, *COMMAND, "--bootstrap-only")
    assert status == 0
    assert "bootstrap  " in out
    assert not (OUT / "result.json").exists()
    status, out, _ = icml(capsys, *COMMAND)
    assert status == 0
    assert "symbolic search" not in out
    assert json.loads((OUT / "result.json").read_text())["steps"] == 4


def test_several_processes_are_told_to_bootstrap_first(folder, capsys, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    status, _, errors = icml(capsys, *COMMAND)
    assert status == 2
    assert f"icml wzllm train tiny.yaml --out {OUT} --bootstrap-only" in errors
    assert not OUT.exists()


def test_a_folder_that_another_process_trains_in_is_refused(folder, capsys):
    (OUT / "bootstrap").mkdir(parents=True)
    lock = lock_folder(OUT / "bootstrap")
    try:
        status, _, errors = icml(capsys, *COMMAND)
    finally:
        lock.release()
    assert status == 2
    assert f"another process is running in {OUT}" in errors


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("model:", "modle: a\nmodel:", "tiny.yaml: unknown key modle"),
        ("max_steps", "steps", "training: DAPOConfig takes no steps here"),
        ("random:llama", "random:lama", "knows the architecture llama"),
        ("held_out: 4", "held_out: 16", "nothing is left to train on with 16 held out"),
        ("1e-2", ".inf", "bootstrap.learning_rate: input should be a finite number"),
        ("given: 8", "given: 8, budget_s: 1e300", "statements.budget_s: input should be less than"),
        ("largest=4", "largest=4&smallest=2", "write rows?largest=9, a number from 1 to 49"),
        ("num_generations: 4", "num_generations: 3", "must be divisible by num_generations (3)"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_no_folder(folder, capsys, old, new, message):
    Path("tiny.yaml").write_text(RECIPE.replace(old, new))
    status, _, errors = icml(capsys, *COMMAND)
    assert status == 2
    assert message in errors.splitlines()[-1]
    assert not OUT.exists()


def test_without_trl_the_extra_to_install_is_named(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "trl", None)  # as if it were not installed
    status, _, errors = icml(capsys, *COMMAND)
    assert status == 2
    assert errors == "icml: trl is not installed: pip install 'icml-wzllm[train]'\n"


def test_training_that_diverges_is_said_to(folder, capsys):
    Path("tiny.yaml").write_text(RECIPE.replace("1e-2", "1e30"))
    status, _, errors = icml(capsys, *COMMAND)
    assert status == 2
    assert "training diverged at learning rate 1e+30" in errors.splitlines()[-1]


def test_certificates_are_searched_for_once(folder, capsys, monkeypatch):
    status, before, _ = icml(capsys, *COMMAND, "--bootstrap-only")
    assert status == 0
    shutil.rmtree(OUT / "bootstrap" / "model")  # as if it had been killed before its end
    monkeypatch.setattr(Worker, "certify", None)
    status, again, _ = icml(capsys, *COMMAND, "--bootstrap-only")
    assert (status, again) == (0, before)


def test_statements_that_changed_since_are_refused(folder, capsys):
    (OUT / "bootstrap").mkdir(parents=True)
    (OUT / "bootstrap" / "given.json").write_text('[["n = n", "1 | 1 | 1"]]')
    status, _, errors = icml(capsys, *COMMAND)
    assert status == 2
    assert "rows?largest=4 has changed since" in errors.splitlines()[-1]


def test_a_model_that_another_process_finished_meanwhile_is_kept(folder, capsys, monkeypatch):
    assert icml(capsys, *COMMAND, "--bootstrap-only")[0] == 0
    model = OUT / "bootstrap" / "model" / "bootstrap.json"
    written = model.stat().st_mtime_ns
    real = launch.whole_folder
    answers = iter([None])  # what is seen before the other process ends
    monkeypatch.setattr(launch, "whole_folder", lambda path: next(answers, real(path)))
    assert icml(capsys, *COMMAND, "--bootstrap-only")[0] == 0
    assert model.stat().st_mtime_ns == written


@pytest.mark.slow
def test_after_kill_9_the_same_command_goes_on(folder, capsys):
    process = subprocess.Popen(
        [sys.executable, "-m", "icml.core.cli", *COMMAND],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 300
    while not (OUT / "bootstrap" / "rounds" / "last").exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = (OUT / "bootstrap" / "rounds" / "rounds.jsonl").read_text()
    status, out, _ = icml(capsys, *COMMAND)
    assert status == 0
    assert "4/4" in out
    assert (OUT / "bootstrap" / "rounds" / "rounds.jsonl").read_text().startswith(before)
