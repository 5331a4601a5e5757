"""Runs by a recipe: their folder, their configuration, and what an interruption says."""

import json
import subprocess
import sys
import time

import pytest
from trl import GRPOConfig, SFTConfig

from icml.core.errors import UserError
from icml.core.rl.recipe import Part
from icml.core.rl.recipe_run import (
    check_folder,
    check_model,
    is_finished,
    last_checkpoint,
    load_model,
    run_recipe,
    training_config,
)


class Recipe(Part):
    model: str
    training: dict = {"seed": 1}  # noqa: RUF012 (pydantic copies it)


RECIPE = Recipe(model="random:llama")


def run(folder, train, recipe=RECIPE):
    command = ["icml", "it", "train", "a recipe.yaml"]
    return run_recipe(recipe, folder, train, command=command, started=time.perf_counter())


def test_a_run_keeps_its_recipe_and_result_and_is_finished(tmp_path, capsys):
    assert not is_finished(tmp_path)
    assert run(tmp_path, lambda before: {"steps": 3, "resumed": before}) == 0
    assert json.loads((tmp_path / "recipe.json").read_text()) == {
        "model": "random:llama", "training": {"seed": 1},
    }  # fmt: skip
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["steps"], result["resumed"]) == (3, None)
    assert result["seconds"] >= 0
    assert is_finished(tmp_path)
    assert capsys.readouterr().out.endswith(f"finished before: {tmp_path}\n")


def test_only_the_first_of_several_processes_writes_and_prints(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    assert run(tmp_path, lambda before: {"steps": 3}) == 0
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().out == ""


def test_after_ctrl_c_the_command_that_continues_is_printed(tmp_path, capsys):
    def interrupted(before):
        raise KeyboardInterrupt

    assert run(tmp_path, interrupted) == 130
    assert "starts again, there is no checkpoint yet" in capsys.readouterr().err
    (tmp_path / "checkpoint-2").mkdir()
    (tmp_path / "checkpoint-2" / "trainer_state.json").touch()
    assert run(tmp_path, interrupted) == 130
    errors = capsys.readouterr().err
    assert errors == (
        f"interrupted; this continues from {tmp_path}/checkpoint-2:\n"
        "  icml it train 'a recipe.yaml'\n"
    )
    assert not (tmp_path / "result.json").exists()
    assert run(tmp_path, lambda before: {"steps": 3, "resumed": before.name}) == 0


def test_in_distributed_training_ctrl_c_is_told_once(tmp_path, capsys, monkeypatch):
    def interrupted(before):
        raise KeyboardInterrupt

    monkeypatch.setenv("RANK", "1")
    assert run(tmp_path, interrupted) == 130
    assert capsys.readouterr().err == ""


ANOTHER = """
import sys, time
from pathlib import Path
from icml.core.rl.recipe import Part
from icml.core.rl.recipe_run import run_recipe

def train(before):
    print("training", flush=True)
    sys.stdin.read()
    return {"steps": 1}

run_recipe(Part(), Path(sys.argv[1]), train, command=["x"], started=time.perf_counter())
"""


def test_a_folder_has_one_training_at_a_time(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", ANOTHER, tmp_path / "run"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as other:  # fmt: skip
        assert other.stdout.readline() == "training\n"
        with pytest.raises(UserError, match="another process is running in"):
            run(tmp_path / "run", lambda before: pytest.fail("two trainings in one folder"))
        assert json.loads((tmp_path / "run" / "recipe.json").read_text()) == {}
        other.communicate("")
    assert is_finished(tmp_path / "run")
    with pytest.raises(UserError, match="holds a run of another recipe"):
        run(tmp_path / "run", lambda before: {"steps": 3})


def test_a_training_that_fails_lets_go_of_its_folder(tmp_path):
    with pytest.raises(ZeroDivisionError):
        run(tmp_path, lambda before: 1 / 0)
    assert run(tmp_path, lambda before: {"steps": 3}) == 0


def test_the_last_checkpoint_is_a_whole_one_with_a_number(tmp_path):
    for name in ("checkpoint-2", "checkpoint-10", "checkpoint-best"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "trainer_state.json").touch()
    (tmp_path / "checkpoint-30").mkdir()
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-10"


@pytest.mark.parametrize("content", ["", "{", "[1]", "null"])
def test_a_damaged_recipe_in_the_folder_is_one_sentence(tmp_path, content):
    (tmp_path / "recipe.json").write_text(content)
    with pytest.raises(UserError, match=r"recipe.json is not the recipe of a run \(") as caught:
        check_folder(RECIPE, tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("before", "difference"),
    [
        ({"model": "a", "training": {"seed": 1}}, 'model was "a", now "random:llama"'),
        ({"model": "random:llama", "training": {"seed": 2}}, "training.seed was 2, now 1"),
    ],
)
def test_a_folder_of_another_recipe_is_refused_naming_what_differs(tmp_path, before, difference):
    (tmp_path / "recipe.json").write_text(json.dumps(before))
    with pytest.raises(UserError) as caught:
        check_folder(RECIPE, tmp_path)
    assert f"{tmp_path} holds a run of another recipe ({difference}): give" in str(caught.value)


def test_a_folder_of_the_same_recipe_or_of_none_is_taken(tmp_path):
    check_folder(RECIPE, tmp_path)
    run(tmp_path, lambda before: {"steps": 3})
    check_folder(RECIPE, tmp_path)


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"lr": 1, "epochs": 2, "seed": 1}, "training: GRPOConfig takes no epochs, lr here"),
        ({"output_dir": "x"}, "takes no output_dir here: give --out"),
        ({"eval_strategy": "sometimes"}, "training: .*sometimes"),
    ],
)
def test_fields_and_values_that_the_trainer_refuses_are_the_users_to_mend(
    tmp_path, training, message
):
    with pytest.raises(UserError, match=message) as caught:
        training_config(GRPOConfig, training, tmp_path, use_cpu=True, bf16=False)
    assert "\n" not in str(caught.value)


def test_a_model_that_is_not_there_is_refused_before_anything_is_loaded():
    for source in ("pkg:nope", "random:lama"):
        with pytest.raises(UserError):
            check_model(source)
    check_model("someone/on-the-hub")


def test_trl_loads_what_is_on_the_hub_or_in_a_folder_and_we_the_rest(tmp_path):
    assert load_model("someone/on-the-hub", use_cpu=True) == ("someone/on-the-hub", {})
    source = "random:llama?layers=1&hidden=16&heads=2&vocab=64"
    model, options = load_model(source, use_cpu=True)
    assert model.config.num_hidden_layers == 1
    assert set(options) == {"processing_class"}


def test_a_configuration_has_the_recipes_fields_and_the_changes(tmp_path):
    config = training_config(
        GRPOConfig, {"seed": 7, "beta": 0.1}, tmp_path, use_cpu=True, bf16=False
    )
    assert (config.seed, config.beta, config.use_cpu) == (7, 0.1, True)
    assert config.output_dir == str(tmp_path)
    assert config.report_to == []


def test_supervised_training_is_configured_in_the_same_way(tmp_path):
    config = training_config(SFTConfig, {"max_length": 9}, tmp_path, use_cpu=True, bf16=False)
    assert (type(config), config.max_length, config.output_dir) == (SFTConfig, 9, str(tmp_path))
    assert (config.report_to, config.disable_tqdm) == ([], True)
    with pytest.raises(UserError, match="training: SFTConfig takes no beta, num_generations here"):
        training_config(SFTConfig, {"beta": 0.1, "num_generations": 2, "seed": 1}, tmp_path)


def test_what_is_refused_before_a_checkpoint_leaves_the_folder_to_a_corrected_recipe(tmp_path):
    def refuse(before):
        raise UserError("no step can be taken with this")

    with pytest.raises(UserError, match="no step"):
        run(tmp_path, refuse)
    other = Recipe(model="random:gpt2")
    assert run(tmp_path, lambda before: {"steps": 1}, other) == 0
    (tmp_path / "result.json").unlink()
    with pytest.raises(UserError, match="no step"):
        run(tmp_path, refuse, other)
    with pytest.raises(UserError, match="a run of another recipe"):  # it had begun before
        run(tmp_path, refuse)
