import json
import subprocess
import time

import pytest
from trl import SFTConfig

from icml.agent_omit.agents import transcript_of
from icml.agent_omit.cli import (
    AnalyseOptions,
    DemonstrateOptions,
    SFTOptions,
    SynthesizeOptions,
    analyse,
    demonstrate,
    synthesize,
)
from icml.agent_omit.cli import sft as sft_command
from icml.agent_omit.demonstrations import demonstrations
from icml.agent_omit.environments import environment
from icml.agent_omit.sft_recipe import read_sft_recipe
from icml.agent_omit.vault import Vault
from icml.agent_omit.words import vault_words
from icml.core.errors import UserError
from icml.core.models.tiny import causal_lm
from icml.core.models.tokenizers import load_tokenizer
from icml.core.reproduce_all import ICML
from icml.core.rl.recipe import recipe_names
from icml.core.rl.recipe_run import training_config


@pytest.fixture
def model(tmp_path):
    """Return a folder with an untrained model of the vault's vocabulary."""
    tokenizer = vault_words(Vault()).tokenizer()
    tokenizer.save_pretrained(tmp_path / "model")
    causal_lm(len(tokenizer), d=16, ctx=512).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def recipe_of(tmp_path, model, **training):
    options = DemonstrateOptions(
        "vault", str(model), episodes=6, drop=0.5, out=tmp_path / "data.jsonl"
    )
    demonstrate(options)
    settings = {
        "max_steps": 2,
        "per_device_train_batch_size": 2,
        "max_length": None,
        "use_cpu": True,
        "bf16": False,
        "logging_steps": 1,
        "save_steps": 1,
        **training,
    }
    recipe = {"model": str(model), "data": str(tmp_path / "data.jsonl"), "training": settings}
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
    return tmp_path / "recipe.yaml"


@pytest.mark.parametrize("env", ["vault", "babyai/GoToObjS4"])
def test_demonstrations_say_what_they_leave_out_and_read_as_the_history_they_edit(env, model):
    transcript = transcript_of(load_tokenizer(str(model)))
    left_out = 0
    for episode in demonstrations(env, str(model), seeds=range(8), drop=0.5):
        assert episode.success
        context, responses = transcript.begin_context(episode.observations[0].task), []
        for seen, step in zip(episode.observations, episode.steps, strict=False):
            context.add_observation(seen.text)
            assert transcript.prompt(context, responses, context.omitted) == step.prompt_ids
            left_out += len(context.add_output(transcript.decode(step.response_ids)).omitted)
            responses.append(step.response_ids)
    assert left_out > 0


@pytest.mark.slow
def test_a_run_that_was_killed_continues_and_ends_with_the_same_weights(tmp_path, model):
    path = recipe_of(tmp_path, model, max_steps=6, learning_rate=1e-2)
    killed = [*ICML, "agent-omit", "sft", str(path), "--out", str(tmp_path / "killed")]
    child = subprocess.Popen(killed)
    while not (tmp_path / "killed" / "checkpoint-2" / "trainer_state.json").exists():
        assert child.poll() is None
        time.sleep(0.02)
    child.kill()
    child.wait()
    assert not (tmp_path / "killed" / "result.json").exists()
    assert subprocess.run(killed).returncode == 0
    assert sft_command(SFTOptions(str(path), tmp_path / "whole")) == 0
    weights = [(tmp_path / run / "model.safetensors").read_bytes() for run in ("killed", "whole")]
    assert weights[0] == weights[1]


def test_a_recipe_trains_a_model_that_can_be_analysed(tmp_path, model, capsys):
    options = SFTOptions(str(recipe_of(tmp_path, model)), tmp_path / "out")
    assert sft_command(options) == 0
    assert "2 steps in" in capsys.readouterr().out
    assert sft_command(options) == 0
    assert "finished before" in capsys.readouterr().out
    analyse(AnalyseOptions("vault", str(tmp_path / "out"), tasks=1, max_new_tokens=4))
    printed = capsys.readouterr().out
    assert "task 0: success 0.00 of 64 roll-outs" in printed
    assert "0 redundant" in printed


def test_without_any_example_nothing_is_written(tmp_path, model, capsys):
    out = tmp_path / "data.jsonl"
    options = SynthesizeOptions("vault", str(model), tasks=1, max_new_tokens=2, out=out)
    assert synthesize(options) == 1
    assert not out.exists()
    assert "nothing was written" in capsys.readouterr().out


def test_every_recipe_of_ours_is_one_that_trl_takes(tmp_path):
    names = [name for name in recipe_names("icml.agent_omit") if name.startswith("sft_")]
    assert "sft_smollm2" in names
    for name in names:
        recipe = read_sft_recipe(name)
        assert training_config(SFTConfig, recipe.training, tmp_path, use_cpu=True, bf16=False)


@pytest.mark.parametrize(
    ("training", "complaint"),
    [
        ({"lerning_rate": 1}, "SFTConfig takes no lerning_rate"),
        ({"eval_strategy": "sometimes"}, "training: "),
        ({"output_dir": "x"}, "SFTConfig takes no output_dir"),
    ],
)
def test_training_fields_that_make_no_sense_are_refused_early(tmp_path, model, training, complaint):
    path = recipe_of(tmp_path, model, **training)
    with pytest.raises(UserError, match=complaint):
        sft_command(SFTOptions(str(path), tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_recipe_without_its_data_says_so(tmp_path, model):
    path = recipe_of(tmp_path, model)
    (tmp_path / "data.jsonl").unlink()
    with pytest.raises(UserError, match=r"can't read .*data\.jsonl"):
        sft_command(SFTOptions(str(path), tmp_path / "out"))


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("maze", "there are vault, vault/TURNS"),
        ("babyai", "there are vault"),
        ("vault/5", "give TURNS-DIGITS-MODULUS"),
        ("vault/2-3-5", "turns must be 3 to 1000"),
        ("vault/999999999-2-10", "got turns=999999999"),
        ("babyai/GoToLokal", "nearest names are"),
    ],
)
def test_an_environment_that_is_none_is_refused(name, complaint):
    with pytest.raises(UserError, match=complaint):
        environment(name)


@pytest.mark.parametrize(
    "bad", [{"tasks": 0}, {"rollouts": 51}, {"max_new_tokens": 0}, {"first_seed": -1}]
)
def test_numbers_out_of_range_are_refused(bad):
    with pytest.raises(ValueError, match="must be >="):
        AnalyseOptions("vault", "model", **bad)
    for temperature in (0.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="must be above 0 and finite"):
            AnalyseOptions("vault", "model", temperature=temperature)
    with pytest.raises(ValueError, match="--max-turns must be >= 1"):
        AnalyseOptions("vault", "model", max_turns=0)
    with pytest.raises(ValueError, match="--drop must be in"):
        DemonstrateOptions("vault", "model", drop=1.5)
    with pytest.raises(ValueError, match="--episodes must be >= 1"):
        DemonstrateOptions("vault", "model", episodes=0)
    with pytest.raises(ValueError, match="--draws must be >= 1"):
        SynthesizeOptions("vault", "model", draws=0)


def test_a_folder_that_is_not_there_is_refused_before_any_work(tmp_path):
    options = SynthesizeOptions("vault", "model", out=tmp_path / "none" / "data.jsonl")
    with pytest.raises(UserError, match="there is no folder"):
        synthesize(options)


def test_an_output_as_long_as_the_models_context_is_refused(model):
    options = AnalyseOptions("vault", str(model), tasks=1, max_new_tokens=512)
    with pytest.raises(UserError, match="reads at most 512 tokens, prompt and all"):
        analyse(options)
