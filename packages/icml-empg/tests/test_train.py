"""``icml empg train`` from end to end: the real GRPOTrainer on real BabyAI, with a random model."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from icml.core.cli import main
from icml.core.rl.recipe_run import last_checkpoint
from icml.empg.explain import explain

# A random model wins nothing, so all advantages are 0 but for the bonus.
pytestmark = [
    pytest.mark.filterwarnings("ignore::icml.empg.ClarityBonusWarning"),
    pytest.mark.filterwarnings("ignore:You are using 'rollout_func'"),
]
RECIPE = """
model: random:llama?layers=1&hidden=16&heads=2&vocab=300&ctx=2048
environment: {babyai: GoToObjS4, tasks: 8, max_turns: 3}
training:
  use_cpu: true
  bf16: false
  gradient_checkpointing: false
  max_steps: 4
  per_device_train_batch_size: 8
  num_generations: 4
  max_completion_length: 4
  logging_steps: 1
  save_steps: 2
"""
COMMAND = ["empg", "train", "tiny.yaml"]
OUT = Path("runs/empg/train/tiny")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(RECIPE)
    return tmp_path


def icml(capsys, *args):
    status = main(args)
    return status, *capsys.readouterr()


def steps(text):
    return [line.split()[0] for line in text.splitlines() if "/4 " in line]


def test_several_turns_of_real_babyai_train_are_explained_and_not_run_twice(folder, capsys):
    status, out, _ = icml(capsys, *COMMAND)
    assert status == 0
    assert f"starts in {OUT}" in out
    assert steps(out) == ["1/4", "2/4", "3/4", "4/4"]
    assert json.loads((OUT / "result.json").read_text())["steps"] == 4
    assert (OUT / "model.safetensors").exists()
    logs = sorted((OUT / "episodes").iterdir())
    assert [log.name for log in logs] == [f"step-0000{n}.jsonl" for n in range(4)]
    found = explain(logs[0])
    assert [len(episode.steps) for episode in found.episodes] == [3] * 8
    for episode in found.episodes:
        assert all(1 <= len(step.entropies or ()) <= 4 for step in episode.steps)
    status, again, _ = icml(capsys, *COMMAND)
    assert (status, again) == (0, f"finished before: {OUT}\n")


@pytest.mark.slow
def test_the_same_command_continues_after_ctrl_c(folder, capsys):
    Path("tiny.yaml").write_text(RECIPE.replace("max_steps: 4", "max_steps: 400"))
    process = subprocess.Popen(
        [sys.executable, "-m", "icml.core.cli", *COMMAND],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 300
    while not (OUT / "checkpoint-2" / "trainer_state.json").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    checkpoint = last_checkpoint(OUT)
    assert checkpoint is not None
    assert f"this continues from {checkpoint}:\n  icml empg train tiny.yaml --out {OUT}" in errors
    done = int(checkpoint.name.removeprefix("checkpoint-"))
    text = RECIPE.replace("max_steps: 4", f"max_steps: {done + 1}")
    Path("tiny.yaml").write_text(text)
    recipe = json.loads((OUT / "recipe.json").read_text())
    recipe["training"]["max_steps"] = done + 1
    (OUT / "recipe.json").write_text(json.dumps(recipe))
    status, out, _ = icml(capsys, *COMMAND)
    assert status == 0
    assert f"continues from {checkpoint}" in out
    lines = [line.split()[0] for line in out.splitlines() if f"/{done + 1} " in line]
    assert lines == [f"{done + 1}/{done + 1}"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("model:", "modle: a\nmodel:", "tiny.yaml: unknown key modle"),
        ("max_steps", "steps", "training: EMPGConfig takes no steps here"),
        ("GoToObjS4", "GoToMoon", "GoToMoon"),
        ("random:llama", "random:lama", "knows the architecture llama"),
        ("random:llama", "pkg:nope/", "no model pkg:nope"),
        ("num_generations: 4", "num_generations: 3", "must be divisible by num_generations (3)"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_no_folder(folder, capsys, old, new, message):
    Path("tiny.yaml").write_text(RECIPE.replace(old, new))
    status, _, errors = icml(capsys, *COMMAND)
    assert status == 2
    assert message in errors.splitlines()[-1]
    assert not OUT.exists()


def test_without_minigrid_the_extra_to_install_is_named(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "minigrid", None)  # as if it were not installed
    status, _, errors = icml(capsys, *COMMAND)
    assert status == 2
    assert errors == "icml: minigrid is not installed: pip install 'icml-empg[babyai]'\n"
    assert not OUT.exists()


def test_a_folder_of_another_recipe_is_refused(folder, capsys):
    OUT.mkdir(parents=True)
    other = {"model": "random:llama?layers=2", "environment": {"babyai": "GoToLocal"}}
    (OUT / "recipe.json").write_text(json.dumps(other))
    status, _, errors = icml(capsys, *COMMAND)
    assert status == 2
    assert f'{OUT} holds a run of another recipe (model was "random:llama?layers=2", now' in errors
