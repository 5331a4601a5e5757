"""Recipes: what is refused, and that ours are what EMPGTrainer takes."""

from pathlib import Path

import pytest

import icml.empg
from icml.core.errors import UserError
from icml.core.rl.recipe import parse_recipe, recipe_names
from icml.empg.train.launch import training_config
from icml.empg.train.recipe import Recipe, read_recipe

LEAST = "model: random:llama\nenvironment: {babyai: GoToLocal}\n"
CPU = {"use_cpu": True, "bf16": False}  # bf16 needs a GPU; all else is built as the file has it


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- model", "here: a recipe maps model, environment and more to values"),
        ("model: a", "environment: field required"),
        (LEAST.replace("}", ", turns: 3}"), "unknown key environment.turns"),
        (LEAST.replace("}", ", max_turns: 0}"), "environment.max_turns: input should be greater"),
        (LEAST + "version: 2", "version: input should be 1"),
    ],
)
def test_what_is_no_recipe_is_refused_in_one_line(text, message):
    with pytest.raises(UserError, match=message) as caught:
        parse_recipe(Recipe, text, "here")
    assert "\n" not in str(caught.value)


def test_an_unknown_name_lists_our_recipes():
    with pytest.raises(UserError, match=r"no recipe 'nope'.*ours are babyai_qwen2.5_0.5b, babyai_"):
        read_recipe("nope")


def test_values_that_trl_or_empg_refuses_are_the_users_to_mend(tmp_path):
    recipe = parse_recipe(Recipe, LEAST + "training: {empg_zeta: 3}", "here")
    with pytest.raises(UserError, match="training: zeta must be below 1, got 3"):
        training_config(recipe, tmp_path, **CPU)


@pytest.mark.parametrize("name", recipe_names("icml.empg"))
def test_every_recipe_of_ours_makes_an_empgconfig(name, tmp_path):
    recipe = read_recipe(name)
    config = training_config(recipe, tmp_path, **CPU)
    unchanged = {key: value for key, value in recipe.training.items() if key not in CPU}
    assert {key: getattr(config, key) for key in unchanged} == unchanged


@pytest.mark.parametrize("name", recipe_names("icml.empg"))
def test_every_recipe_of_ours_says_how_to_launch_it(name):
    folder = Path(icml.empg.__file__).parent / "recipes"
    head = (folder / f"{name}.yaml").read_text().split("version:")[0]
    assert all(line.startswith("#") for line in head.splitlines())
    assert f"empg train {name}\n" in head


def test_the_paper_recipe_has_the_papers_numbers(tmp_path):
    recipe = read_recipe("babyai_qwen2.5_7b")
    config = training_config(recipe, tmp_path, **CPU)
    a_batch = 8 * config.per_device_train_batch_size * config.gradient_accumulation_steps
    assert (a_batch, config.num_generations, config.learning_rate) == (128, 8, 1e-6)
    assert (config.empg_k, config.empg_k_future, config.empg_zeta) == (1, 1, 0.1)
    assert (recipe.environment.max_turns, config.max_steps) == (50, 150)
