"""Recipes and statements for training: what is refused, and that ours can be trained by."""

import json
from pathlib import Path

import pytest

import icml.wzllm
from icml.core.errors import UserError
from icml.core.models.random_llama import byte_tokenizer
from icml.core.rl.recipe import parse_recipe, recipe_names
from icml.wzllm import Identity
from icml.wzllm.training.launch import training_config
from icml.wzllm.training.normal import normal_form
from icml.wzllm.training.recipe import Recipe, StatementsPart, read_recipe
from icml.wzllm.training.statements import Statement, load_statements, search
from icml.wzllm.training.wording import plain, question, writing
from icml.wzllm.worker import Worker

LEAST = """
model: random:llama
statements: {source: suite, held_out: 5, given: 3}
bootstrap: {warm_steps: 1, rounds: 1, steps: 1, learning_rate: 1e-3}
"""
CPU = {"use_cpu": True, "bf16": False, "use_vllm": False}  # the rest needs no GPU to be read
FOLDER = Path(icml.wzllm.__file__).parent / "recipes"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- model", "here: a recipe maps model, statements, bootstrap and more to values"),
        (LEAST.replace("held_out: 5", "held_out: 0"), "statements.held_out: input should be"),
        (LEAST.replace("given: 3", "given: 3, prompt: prove"), r"prompt needs \{statement\}"),
        (LEAST.replace("rounds: 1", "round: 1"), "unknown key bootstrap.round"),
        (LEAST.replace("1e-3", "0"), "bootstrap.learning_rate: input should be greater than 0"),
        (LEAST + "version: 2", "version: input should be 1"),
    ],
)
def test_what_is_no_recipe_is_refused_in_one_line(text, message):
    with pytest.raises(UserError, match=message) as caught:
        parse_recipe(Recipe, text, "here")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("training: {steps: 3}", "DAPOConfig takes no steps here"),
        ("training: {dapo_rounds: -1}", "training: dapo_rounds must be 0 or more, got -1"),
        (
            "overlong_cache: 9\ntraining: {max_completion_length: 9}",
            r"overlong_cache \(9\) must be below max_completion_length \(9\)",
        ),
    ],
)
def test_values_that_training_refuses_are_the_users_to_mend(tmp_path, more, message):
    recipe = parse_recipe(Recipe, LEAST + more, "here")
    with pytest.raises(UserError, match=message):
        training_config(recipe, tmp_path, **CPU)


@pytest.mark.parametrize("name", recipe_names("icml.wzllm"))
def test_every_recipe_of_ours_makes_a_dapoconfig(name, tmp_path):
    recipe = read_recipe(name)
    config = training_config(recipe, tmp_path, **CPU)
    unchanged = {key: value for key, value in recipe.training.items() if key not in CPU}
    assert {key: getattr(config, key) for key in unchanged} == unchanged


@pytest.mark.parametrize("name", recipe_names("icml.wzllm"))
def test_every_recipe_of_ours_says_how_to_launch_it(name):
    head = (FOLDER / f"{name}.yaml").read_text().split("version:")[0]
    assert all(line.startswith("#") for line in head.splitlines())
    assert f"wzllm train {name}" in head


def test_every_number_of_the_paper_recipe_is_marked_as_a_guess_or_as_somebodys():
    lines = (FOLDER / "paper.yaml").read_text().split("version: 1\n")[1].splitlines()
    numbers = [line for line in lines if line.rstrip(" ").partition(":")[2].strip()[:1].isdigit()]
    marks = ("# a guess", "# DAPO's", "# the paper's")
    unmarked = [line for line in numbers if not any(mark in line for mark in marks)]
    assert unmarked == ["  logging_steps: 1"]


def part(source, held_out, **more):
    return StatementsPart(source=source, held_out=held_out, given=1, **more)


def test_statements_are_divided_and_no_spelling_is_on_both_sides(tmp_path):
    file = tmp_path / "some.jsonl"
    texts = [f"sum(k,0,n,binomial(n,k)*{a}^k) = ({a}+1)^n" for a in range(2, 12)]
    again = [f"({a}+1)^m = sum(j,0,m,{a}^j*binomial(m,j))" for a in range(2, 12)]
    lines = [{"statement": text} for text in texts + again]
    lines.append({"statement": "sum(k,0,n,k) = n", "holds": False})
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = load_statements(part(str(file), 6))
    forms = [{normal_form(s.identity) for s in side} for side in (found.pool, found.held_out)]
    assert (len(found.pool), len(found.held_out)) == (14, 6)
    assert not forms[0] & forms[1]
    assert load_statements(part(str(file), 6)) == found
    assert load_statements(part(str(file), 6, seed=1)) != found


def test_rows_keep_mirror_images_together():
    found = load_statements(part("rows?largest=5", 6))
    assert len(found.pool) + len(found.held_out) == 25
    texts = {str(s.identity) for s in found.held_out}
    for a in range(1, 6):
        for b in range(1, 6):
            assert (row_text(a, b) in texts) == (row_text(b, a) in texts)


def row_text(a, b):
    return f"sum(k,0,n,binomial(n,k)*{a}^k*{b}^(n-k)) = ({a}+{b})^n"


@pytest.mark.parametrize(
    ("source", "held_out", "message"),
    [
        ("rows", 1, "write rows.largest=9"),
        ("rows?largest=50", 1, "write rows.largest=9, a number from 1 to 49"),
        ("rows?largest=2", 4, "has 4 statements: nothing is left to train on with 4 held out"),
        ("nowhere.jsonl", 1, "nowhere.jsonl can't be read"),
    ],
)
def test_statements_that_cannot_be_used_are_refused(source, held_out, message):
    with pytest.raises(UserError, match=message):
        load_statements(part(source, held_out))


def test_a_line_that_is_no_statement_is_named(tmp_path):
    file = tmp_path / "some.jsonl"
    file.write_text('{"statement": "sum(k,0,n, = 1"}\n')
    with pytest.raises(UserError, match=r"some.jsonl: line 1: .*column 11"):
        load_statements(part(str(file), 1))


def test_given_proofs_are_the_searches_own_and_what_it_cannot_prove_is_passed_over():
    texts = ["fibonacci(n) = fibonacci(n)", "sum(k,0,n,binomial(n,k)) = 2^n"]
    pool = tuple(Statement(Identity.parse(text)) for text in texts)
    with Worker() as worker:
        assert search(pool, 2, worker, 30.0) == [(pool[1], "-2, 1 | k | k-n-1")]
        with pytest.raises(UserError, match="nothing to begin with"):
            search(pool[:1], 1, worker, 30.0)


def test_the_judge_in_the_child_process_says_what_the_judge_says():
    row = Identity.parse("sum(k,0,n,binomial(n,k)) = 2^n")
    with Worker() as worker:
        assert worker.judge(row, "-2, 1 | k | k-n-1", budget_s=30.0).accepted
        assert not worker.judge(row, "-3, 1 | k | k-n-1", budget_s=30.0).accepted
        assert not worker.judge(row, "\n'\"; import os", budget_s=30.0).accepted


def test_answers_survive_a_tokenizer_and_cut_off_ones_are_none():
    tokenizer = byte_tokenizer(300)
    words = writing(tokenizer, "{statement}\n", 24)
    row = Statement(Identity.parse("sum(k,0,n,binomial(n,k)) = 2^n"))
    answer = "-2, 1 | k | k-n-1"
    assert words.answer_text(words.answer_ids(answer)) == answer
    assert words.answer_text(words.answer_ids(answer)[:-1]) is None
    assert tokenizer.decode(words.prompt_ids(row)) == "sum(k,0,n,binomial(n,k)) = 2^n\n"
    assert plain([{"role": "assistant", "content": f" {answer} "}]) == plain(answer) == answer


def test_a_chat_model_is_asked_in_messages_as_trl_asks_it():
    tokenizer = byte_tokenizer(300)
    tokenizer.chat_template = "{% for m in messages %}<{{m.role}}>{{m.content}}{% endfor %}>"
    asked = question(tokenizer, "Prove {statement}", "1 = n")
    assert asked == [{"role": "user", "content": "Prove 1 = n"}]
    ids = writing(tokenizer, "Prove {statement}", 9).prompt_ids(
        Statement(Identity.parse("sum(k,0,n,1) = n+1"))
    )
    assert tokenizer.decode(ids) == "<user>Prove sum(k,0,n,1) = n+1>"
