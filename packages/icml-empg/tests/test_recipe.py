"""Recipes: what is refused, and that ours are what EMPGTrainer takes."""

from pathlib import Path

import pytest

import icml.empg
from icml.core.errors import UserError
from icml.empg.train.launch import training_config
from icml.empg.train.recipe import parse_recipe, read_recipe, recipe_names

LEAST = "model: random:llama\nenvironment: {babyai: GoToLocal}\n"
CPU = {"use_cpu": True, "bf16": False}  # bf16 needs a GPU; all else is built as the file has it


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: [", "here is not YAML: "),
        ("[" * 5000, "here is not YAML: "),
        ("model: 2026-99-99", "here is not YAML: month must be"),
        ("- model", "here: a recipe maps model, environment and training to values"),
        ("", "here: a recipe maps"),
        ("model: a", "environment: field required"),
        (LEAST + "modle: a\nlr: 1", "unknown key modle; unknown key lr"),
        (LEAST.replace("}", ", turns: 3}"), "unknown key environment.turns"),
        (LEAST.replace("}", ", max_turns: 0}"), "environment.max_turns: input should be greater"),
        (LEAST + "version: 2", "version: input should be 1"),
    ],
)
def test_what_is_no_recipe_is_refused_in_one_line(text, message):
    with pytest.raises(UserError, match=message) as caught:
        parse_recipe(text, "here")
    assert "\n" not in str(caught.value)


def test_an_unknown_name_lists_our_recipes():
    with pytest.raises(UserError, match=r"no recipe 'nope'.*ours are babyai_qwen2.5_0.5b, babyai_"):
        read_recipe("nope")


def test_unknown_fields_and_wrong_values_of_the_configuration_are_refused(tmp_path):
    recipe = parse_recipe(LEAST + "training: {lr: 1, epochs: 2, seed: 1}", "here")
    with pytest.raises(UserError, match="training: EMPGConfig takes no epochs, lr here"):
        training_config(recipe, tmp_path)
    recipe = parse_recipe(LEAST + "training: {empg_zeta: 3}", "here")
    with pytest.raises(UserError, match="training: zeta must be below 1, got 3"):
        training_config(recipe, tmp_path, **CPU)


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_of_ours_makes_an_empgconfig(name, tmp_path):
    recipe = read_recipe(name)
    config = training_config(recipe, tmp_path, **CPU)
    unchanged = {key: value for key, value in recipe.training.items() if key not in CPU}
    assert {key: getattr(config, key) for key in unchanged} == unchanged


@pytest.mark.parametrize("name", recipe_names())
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
