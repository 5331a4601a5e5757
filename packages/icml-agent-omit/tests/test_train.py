"""``icml agent-omit train`` from end to end: the real GRPOTrainer in the vault, a random model."""

import json
from pathlib import Path

import pytest

import icml.agent_omit
from icml.agent_omit.train.launch import training_config
from icml.agent_omit.train.recipe import Recipe, read_recipe
from icml.core.cli import main
from icml.core.errors import UserError
from icml.core.rl.recipe import parse_recipe, recipe_names

pytestmark = pytest.mark.filterwarnings("ignore:You are using 'rollout_func'")
CPU = {"use_cpu": True, "bf16": False}  # bf16 needs a GPU; all else is built as the file has it
RECIPE = """
model: random:llama?layers=1&hidden=16&heads=2&vocab=300&ctx=2048
environment: {vault: {turns: 3}, tasks: 4, max_turns: 3}
training:
  use_cpu: true
  bf16: false
  gradient_checkpointing: false
  max_steps: 2
  per_device_train_batch_size: 4
  num_generations: 2
  max_completion_length: 8
  logging_steps: 1
  save_steps: 1
"""
OUT = Path("runs/agent-omit/train/small")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(RECIPE)
    return tmp_path


def command(capsys, *args):
    status = main(args)
    return status, *capsys.readouterr()


def test_a_recipe_trains_in_the_vault_logs_omissions_and_is_not_run_twice(folder, capsys):
    status, out, errors = command(capsys, "agent-omit", "train", "small.yaml")
    assert status == 0, errors
    assert f"starts in {OUT}" in out
    assert [line.split()[0] for line in out.splitlines() if "/2 " in line] == ["1/2", "2/2"]
    assert json.loads((OUT / "result.json").read_text())["steps"] == 2
    state = json.loads((OUT / "checkpoint-2" / "trainer_state.json").read_text())
    logged = state["log_history"][0]
    assert logged["omit/left_out"] == 0  # a random model leaves nothing out
    assert logged["omit/prompt_tokens"] > logged["omit/output_tokens"] > 0
    status, again, _ = command(capsys, "agent-omit", "train", "small.yaml")
    assert (status, again) == (0, f"finished before: {OUT}\n")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("model:", "modle: a\nmodel:", "small.yaml: unknown key modle"),
        ("max_steps", "steps", "training: GRPOConfig takes no steps here"),
        ("vault: {turns: 3}", "babyai: GoToMoon", "GoToMoon"),
        ("vault: {turns: 3}", "vault: {turns: 2}", "environment.vault.turns"),
        ("vault: {turns: 3}", "babyai: GoToLocal, vault: {turns: 3}", "give babyai or vault, one"),
        ("vault: {turns: 3}, ", "", "give babyai or vault, one of them"),
        ("training:", "reward: {weight: 2}\ntraining:", "reward.weight"),
        ("random:llama", "random:lama", "knows the architecture llama"),
        ("num_generations: 2", "num_generations: 3", "must be divisible by num_generations (3)"),
        ("num_generations: 2", "num_generations: 1", "at least 2 generations per prompt"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_no_folder(folder, capsys, old, new, message):
    Path("small.yaml").write_text(RECIPE.replace(old, new))
    status, _, errors = command(capsys, "agent-omit", "train", "small.yaml")
    assert status == 2
    assert message in errors.splitlines()[-1]
    assert not OUT.exists()


OURS = [name for name in recipe_names("icml.agent_omit") if not name.startswith("sft_")]


@pytest.mark.parametrize("name", OURS)
def test_every_recipe_of_ours_makes_a_grpoconfig_and_says_how_to_launch_it(name, tmp_path):
    recipe = read_recipe(name)
    config = training_config(recipe, tmp_path, **CPU)
    unchanged = {key: value for key, value in recipe.training.items() if key not in CPU}
    assert {key: getattr(config, key) for key in unchanged} == unchanged
    folder = Path(icml.agent_omit.__file__).parent / "recipes"
    head = (folder / f"{name}.yaml").read_text().split("version:")[0]
    assert all(line.startswith("#") for line in head.splitlines())
    assert f"agent-omit train {name}\n" in head


def test_the_paper_recipe_has_the_numbers_of_the_authors_scripts(tmp_path):
    recipe = read_recipe("paper_babyai")
    config = training_config(recipe, tmp_path, **CPU)
    a_batch = 8 * config.per_device_train_batch_size * config.gradient_accumulation_steps
    assert (a_batch, config.num_generations, config.learning_rate, config.beta) == (
        64,
        8,
        5e-7,
        1e-3,
    )
    assert (recipe.environment.max_turns, recipe.environment.tasks, recipe.reward.weight) == (
        10,
        810,
        0.2,
    )


def test_an_unknown_recipe_lists_ours():
    with pytest.raises(
        UserError, match=r"no recipe 'nope'.*ours are paper_babyai, paper_vault.*tiny"
    ):
        read_recipe("nope")


def test_a_recipe_needs_an_environment():
    with pytest.raises(UserError, match="environment: field required"):
        parse_recipe(Recipe, "model: a", "here")
