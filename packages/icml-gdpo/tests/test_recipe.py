"""Recipes: what is refused, and that ours are what GDPOTrainer takes."""

from pathlib import Path

import pytest

from icml.core.errors import UserError
from icml.core.rl.recipe import recipe_names
from icml.gdpo.train.launch import training_config
from icml.gdpo.train.named_rewards import reward_functions
from icml.gdpo.train.recipe import parse_recipe, read_recipe

LEAST = """
model: random:llama
dataset: {source: data.jsonl}
rewards: [answer]
"""


def test_a_recipe_names_rewards_in_short_and_with_options():
    recipe = parse_recipe(
        LEAST.replace(
            "[answer]", "[answer, {reward: length, at_most: 9, on: answer, at_least: 1}]"
        ),
        "here",
    )
    assert [part.reward for part in recipe.rewards] == ["answer", "length"]
    assert (recipe.rewards[1].at_most, recipe.rewards[1].on) == (9, "answer")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- model", "here: a recipe maps model, dataset, rewards and more to values"),
        ("model: a", "dataset: field required; rewards: field required"),
        (LEAST.replace("source", "sauce"), r"dataset.source: field required; .*dataset.sauce"),
        (LEAST.replace("[answer]", "[]"), "rewards: list should have at least 1 item"),
        (LEAST.replace("[answer]", "[answers]"), "no reward named 'answers'; there are answer, fo"),
        (LEAST.replace("[answer]", "[length]"), r"rewards.0: length needs at_most \(tokens\)"),
        (LEAST.replace("[answer]", "[{reward: format, on: answer}]"), "on and at_least belong"),
        (LEAST.replace("jsonl}", "jsonl, system: hi}"), "give prompt too"),
        (LEAST + "version: 2", "version: input should be 1"),
    ],
)
def test_what_is_no_recipe_is_refused_in_one_line(text, message):
    with pytest.raises(UserError, match=message) as caught:
        parse_recipe(text, "here")
    assert "\n" not in str(caught.value)


def test_an_unknown_name_lists_our_recipes():
    with pytest.raises(UserError, match=r"no recipe 'nope'.*ours are code_r1_7b, gsm8k"):
        read_recipe("nope")


def test_values_that_trl_or_gdpo_refuses_are_the_users_to_mend(tmp_path):
    recipe = parse_recipe(LEAST + "training: {use_cpu: true, scale_rewards: none}", "here")
    with pytest.raises(UserError, match="training: GDPOConfig needs multi_objective_aggregation="):
        training_config(recipe, tmp_path, bf16=False)


# Building their configuration needs a GPU for bf16 alone: everything else, vLLM's fields
# included, is built as it stands in the file.
CPU = {"use_cpu": True, "bf16": False}


@pytest.mark.parametrize("name", recipe_names("icml.gdpo"))
def test_every_recipe_of_ours_makes_a_gdpoconfig(name, tmp_path):
    recipe = read_recipe(name)
    config = training_config(recipe, tmp_path, **CPU)
    unchanged = {key: value for key, value in recipe.training.items() if key not in CPU}
    assert {key: getattr(config, key) for key in unchanged} == unchanged
    assert config.multi_objective_aggregation == "normalize_then_sum"
    assert config.use_vllm == (name != "smollm2_chain_sum")


@pytest.mark.parametrize("name", recipe_names("icml.gdpo"))
def test_every_recipe_of_ours_says_how_to_launch_it(name):
    import icml.gdpo

    folder = Path(icml.gdpo.__file__).parent / "recipes"
    head = (folder / f"{name}.yaml").read_text().split("version:")[0]
    assert all(line.startswith("#") for line in head.splitlines())
    imports = " --allow-import" if read_recipe(name).imported else ""
    assert f"gdpo train {name}{imports}\n" in head


def test_paper_recipes_have_the_papers_numbers(tmp_path):
    gsm8k = training_config(read_recipe("gsm8k_qwen2.5_1.5b"), tmp_path, **CPU)
    assert (gsm8k.num_generations, gsm8k.learning_rate, gsm8k.max_completion_length) == (
        16, 5e-6, 1024,
    )  # fmt: skip
    tools = training_config(read_recipe("toolrl_qwen2.5_1.5b"), tmp_path, **CPU)
    assert (tools.num_generations, tools.gdpo_batch_norm, tools.gdpo_eps) == (4, "token", 1e-6)


IMPORTS = LEAST.replace(
    "[answer]", "['os.path:join', {reward: answer, on: 'os.path:join', at_least: 1}]"
)


def test_imports_need_the_flag():
    with pytest.raises(UserError, match=r"imports os.path:join, which runs .* --allow-import"):
        reward_functions(parse_recipe(IMPORTS, "here"), allow_import=False)


def test_with_the_flag_functions_are_imported_from_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "my_rewards_in_a_test.py").write_text(
        "def one(completions, **_):\n    return [1.0]\n"
    )
    monkeypatch.chdir(tmp_path)
    recipe = parse_recipe(LEAST.replace("[answer]", "['my_rewards_in_a_test:one']"), "here")
    (one,) = reward_functions(recipe, allow_import=True)
    assert one(completions=["x"]) == [1.0]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_module:f", "can't import the reward no_such_module:f: No module"),
        ("os:nothing", "can't import the reward os:nothing: module 'os' has no"),
        ("os:sep", "os:sep is not a function but a str"),
    ],
)
def test_what_cannot_be_imported_is_named(path, message):
    recipe = parse_recipe(LEAST.replace("[answer]", f"['{path}']"), "here")
    with pytest.raises(UserError, match=message):
        reward_functions(recipe, allow_import=True)


def test_two_rewards_of_one_name_are_refused():
    recipe = parse_recipe(LEAST.replace("[answer]", "[answer, answer]"), "here")
    with pytest.raises(UserError, match="two rewards of one name"):
        reward_functions(recipe, allow_import=False)


def test_a_condition_in_a_recipe_counts_only_where_the_other_reward_is_high_enough():
    rewards = "[answer, {reward: length, at_most: 2, on: answer, at_least: 1}]"
    recipe = parse_recipe(LEAST.replace("[answer]", rewards), "here")
    _, brief = reward_functions(recipe, allow_import=False)
    batch = {
        "prompts": ["1+1"] * 3,
        "completions": ["the answer is 2", "the answer is 3", "so the answer is 2"],
        "completion_ids": [[1, 2], [1, 2], [1, 2, 3]],
        "answer": ["2", "2", "2"],
    }
    assert brief(**batch) == [1.0, 0.0, 0.0]  # right and short, short, right
