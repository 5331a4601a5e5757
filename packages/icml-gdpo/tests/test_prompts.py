"""Datasets of a recipe, turned into prompts."""

import json

import pytest

from icml.core.errors import UserError
from icml.gdpo.train.prompts import from_hub, load_prompts
from icml.gdpo.train.recipe import DatasetPart

GYM = "reasoning_gym:chain_sum?size=3&seed=5&min_terms=2&max_terms=2"


@pytest.fixture
def rows(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text(
        '{"q": "1+1?", "gold": 2, "answer": "x"}\n\n{"q": "2+2?", "gold": 4, "answer": "y"}\n'
    )
    return file


def test_a_template_makes_messages_and_the_answer_column_is_renamed(rows):
    part = DatasetPart(
        source=str(rows), prompt=r"{q} In \boxed{}.", system="Be brief.", answer="gold"
    )
    dataset = load_prompts(part, needs={"answer": "the reward answer"})
    assert dataset[1]["prompt"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": r"2+2? In \boxed{}."},
    ]
    assert dataset["answer"][:] == [2, 4]


def test_without_a_template_the_prompt_column_is_taken_as_it_is(tmp_path):
    file = tmp_path / "rows.json"
    file.write_text(json.dumps([{"prompt": "a"}, {"prompt": "b"}]))
    assert load_prompts(DatasetPart(source=str(file)), needs={})["prompt"][:] == ["a", "b"]


def test_questions_of_reasoning_gym_come_with_what_their_verifier_needs():
    dataset = load_prompts(DatasetPart(source=GYM, prompt="{question}"), needs={"answer": "x"})
    assert len(dataset) == 3
    row = dataset[0]
    entry = json.loads(row["entry"])
    assert row["prompt"] == [{"role": "user", "content": entry["question"]}]
    assert row["answer"] == entry["answer"]
    assert eval(entry["metadata"]["expression"]) == int(row["answer"])


def test_only_hub_datasets_are_downloaded():
    sources = ["openai/gsm8k", "rows.jsonl", "rows.json", GYM]
    assert [from_hub(DatasetPart(source=s)) for s in sources] == [True, False, False, False]


@pytest.mark.parametrize(
    ("part", "needs", "message"),
    [
        ({"prompt": "{q} {z}"}, {}, r"no column 'z' \(for the prompt\); there are: q, gold"),
        ({}, {}, "no column 'prompt'"),
        ({"prompt": "{q}", "answer": "right"}, {"answer": "the reward answer"},
         r"no column 'right' \(for the reward answer\)"),
    ],
)  # fmt: skip
def test_missing_columns_are_named_with_what_needs_them(rows, part, needs, message):
    with pytest.raises(UserError, match=message):
        load_prompts(DatasetPart(source=str(rows), **part), needs=needs)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.jsonl", "{", "is not a list of rows"),
        ("a.json", '{"a": 1}', "is not a list of rows"),
        ("a.json", "[]", "has no rows"),
        ("a.json", None, "can't read the dataset"),
    ],
)
def test_a_file_that_holds_no_rows_is_refused(tmp_path, name, text, message):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=message):
        load_prompts(DatasetPart(source=str(tmp_path / name)), needs={})


@pytest.mark.parametrize(
    "source",
    ["reasoning_gym:nope", "reasoning_gym:chain_sum?foo=1", "reasoning_gym:chain_sum?min_terms=0"],
)
def test_what_reasoning_gym_does_not_know_is_refused(source):
    with pytest.raises(UserError, match=r"reasoning_gym:.* can't be made"):
        load_prompts(DatasetPart(source=source, prompt="{question}"), needs={})
