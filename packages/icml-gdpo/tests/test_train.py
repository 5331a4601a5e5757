"""``icml gdpo train`` from end to end, on a random model."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from icml.core.cli import main

RECIPE = """
model: random:llama?layers=1&hidden=16&heads=2&vocab=64&ctx=64
dataset: {source: rows.jsonl}
rewards: [format, {reward: length, at_most: 3}, 'rewards_of_a_test:varied']
training:
  use_cpu: true
  bf16: false
  gradient_checkpointing: false
  max_steps: 4
  per_device_train_batch_size: 8
  num_generations: 4
  max_completion_length: 4
  logging_steps: 1
  log_completions: true
  save_steps: 2
  gdpo_weight_schedule: {0: [1, 1, 1], 4: [1, 0, 1]}
"""
REWARDS = """
def varied(completion_ids, **columns):
    return [sum(ids) % 7 / 7 for ids in completion_ids]
"""
COMMAND = ["gdpo", "train", "tiny.yaml", "--allow-import"]
OUT = Path("runs/gdpo/train/tiny")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(RECIPE)
    Path("rewards_of_a_test.py").write_text(REWARDS)
    Path("rows.jsonl").write_text(
        "".join(json.dumps({"prompt": f"q {i}"}) + "\n" for i in range(8))
    )
    return tmp_path


def edit(old, new):
    Path("tiny.yaml").write_text(RECIPE.replace(old, new))


def icml(capsys, *args):
    status = main(args)
    return status, *capsys.readouterr()


def test_a_recipe_trains_logs_and_is_audited_and_is_not_run_twice(folder, capsys):
    status, out, _ = icml(capsys, *COMMAND)
    assert status == 0
    assert f"nothing is downloaded\nstarts in {OUT}" in out
    assert [line.split()[0] for line in out.splitlines() if "/4 " in line] == [
        "1/4", "2/4", "3/4", "4/4",
    ]  # fmt: skip
    result = json.loads((OUT / "result.json").read_text())
    assert result["steps"] == 4
    assert 0 < result["override_cpu_seconds"] < result["seconds"]
    names = "format,length,varied"
    status, audit, _ = icml(
        capsys, "gdpo", "audit", str(OUT / "completions"), "--rewards", names, "--group-size", "4"
    )
    assert status == 0
    assert "4 kept" in audit
    status, again, _ = icml(capsys, *COMMAND)
    assert (status, again) == (0, f"finished before: {OUT}\n")


@pytest.mark.slow
def test_the_same_command_continues_after_ctrl_c(folder, capsys):
    slow = "\n    import time; time.sleep(1.5)\n    return"
    Path("rewards_of_a_test.py").write_text(REWARDS.replace("\n    return", slow))
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "icml.core.cli", *COMMAND],
        env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 300
    while not (OUT / "checkpoint-2" / "trainer_state.json").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    command = f"icml gdpo train tiny.yaml --out {OUT} --allow-import"
    assert f"this continues from {OUT}/checkpoint-2:\n  {command}\n" in errors
    Path("rewards_of_a_test.py").write_text(REWARDS)
    status, out, _ = icml(capsys, *command.split()[1:])
    assert status == 0
    assert f"continues from {OUT}/checkpoint-2" in out
    assert [line.split()[0] for line in out.splitlines() if "/4 " in line] == ["3/4", "4/4"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("model:", "modle: a\nmodel:", "tiny.yaml: unknown key modle"),
        ("max_steps", "steps", "training: GDPOConfig takes no steps here"),
        ("rows.jsonl", "none.jsonl", "can't read the dataset none.jsonl"),
        ("[format", "[answer", r"no column 'answer' (for the reward answer); there are: prompt"),
        ("random:llama", "random:lama", "knows the architecture llama"),
        ("random:llama", "pkg:nope/", "no model pkg:nope"),
        ("num_generations: 4", "num_generations: 3", "must be divisible by num_generations (3)"),
        ("[1, 0, 1]}", "[1, 0]}", "3 at 0, 2 at 4"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_no_folder(folder, capsys, old, new, message):
    edit(old, new)
    status, _, errors = icml(capsys, *COMMAND)
    assert status == 2
    assert message in errors.splitlines()[-1]
    assert not OUT.exists()


def test_imports_without_the_flag_exit_with_2(folder, capsys):
    status, _, errors = icml(capsys, *COMMAND[:-1])
    assert status == 2
    assert "imports rewards_of_a_test:varied" in errors


def test_a_folder_of_another_recipe_is_refused(folder, capsys):
    OUT.mkdir(parents=True)
    (OUT / "recipe.json").write_text(json.dumps({"model": "random:llama?layers=2"}))
    status, _, errors = icml(capsys, *COMMAND)
    assert status == 2
    assert f'{OUT} holds a run of another recipe (model was "random:llama?layers=2", now' in errors
