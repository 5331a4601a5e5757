"""Rewards on text: what counts as an answer, and as the right one."""

import json

import pytest

from icml.gdpo.train import text_rewards
from icml.gdpo.train.text_rewards import extract_answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>1</answer> or <answer> 2\n</answer>", "2"),
        (r"so \boxed{3} and \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"\boxed{4} <answer>5</answer>", "5"),
        (r"\boxed{6", None),
        ("The answer is 7.", "7"),
        ("Hence the final answer is: $1,234.50", "1,234.50"),
        ("The answer is 8. No, it isn't.", None),
        ("9", None),
        ("", None),
        ("<answer></answer>", ""),
    ],
)
def test_the_answer_is_what_stands_in_tags_a_box_or_the_last_sentence(text, answer):
    assert extract_answer(text) == answer


@pytest.mark.parametrize(
    ("given", "right", "reward"),
    [("5", "5.0", 1), ("1,000", "so\n#### 1000", 1), ("$5", "5", 1), ("6", "5", 0),
     ("x + 1", "x+1", 1), ("x", "y", 0), ("nan", "nan", 1), ("", "5", 0)],
)  # fmt: skip
def test_answers_are_compared_as_numbers_or_as_text(given, right, reward):
    completion = [{"role": "assistant", "content": f"<answer>{given}</answer>"}]
    assert text_rewards.answer([completion, "none"], [right, right]) == [reward, 0.0]


def test_a_question_of_reasoning_gym_is_marked_by_its_verifier():
    entry = json.dumps({"answer": "5", "metadata": {"source_dataset": "chain_sum"}})
    texts = ["The answer is 5.", "The answer is 6.", "five"]
    rewards = text_rewards.answer(texts, ["5"] * 3, entry=[entry] * 3)
    assert rewards[0] == 1.0
    assert rewards[1] < 1.0
    assert rewards[2] == 0.0


@pytest.mark.parametrize(
    ("text", "reward"),
    [("so <answer>5</answer>\n", 1), ("<answer>5</answer>!", 0), ("<answer></answer>", 0),
     ("<answer>1</answer><answer>2</answer>", 0), ("The answer is 5", 1), ("5", 0)],
)  # fmt: skip
def test_format_wants_the_answer_once_and_at_the_end(text, reward):
    assert text_rewards.format([text]) == [reward]


@pytest.mark.parametrize(("text", "reward"), [("-12", 1), ("1.5", 0), ("two", 0), ("", 0)])
def test_integer_wants_a_whole_number(text, reward):
    assert text_rewards.integer([f"<answer>{text}</answer>"]) == [reward]


def test_length_counts_tokens():
    ids = [[1] * 3, [1] * 4, []]
    assert text_rewards.length(["a b c d e", "a", ""], ids, at_most=3) == [1.0, 0.0, 1.0]
