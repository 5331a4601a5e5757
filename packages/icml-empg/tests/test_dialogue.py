"""Episodes as dialogues: what the policy sees, token for token, and how it is read."""

import pytest

from icml.core.envs.protocol import Observation
from icml.core.models.load import load
from icml.core.rl.rollout import History
from icml.empg.train.dialogue import Dialogue, parse_action

FIRST = Observation("wall ahead", ("turn left", "go forward"), "go to the ball")
TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<eos>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.fixture
def tokenizer():
    return load("random:llama?layers=1&hidden=16&heads=2&vocab=300", device="cpu").tokenizer


def history(tokenizer, *responses, eos=True):
    ids = [tokenizer(text)["input_ids"] + [tokenizer.eos_token_id] * eos for text in responses]
    later = [Observation(f"view {n}") for n in range(len(ids))]
    return History([FIRST, *later], ids, list(responses))


def test_without_a_template_turns_follow_each_other_plainly(tokenizer):
    ids = Dialogue(tokenizer, "Act.").render(history(tokenizer, "go", eos=False))
    assert tokenizer.decode(ids) == (
        "Act.\nActions: turn left, go forward.\nTask: go to the ball.\nwall ahead\n> go\nview 0\n> "
    )


@pytest.mark.parametrize("eos", [True, False])
def test_the_template_closes_a_turn_once_whether_or_not_the_policy_did(tokenizer, eos):
    tokenizer.chat_template = TEMPLATE
    ids = Dialogue(tokenizer, "Act.").render(history(tokenizer, "go", "stop", eos=eos))
    assert tokenizer.decode(ids) == (
        "<|user|>Act.\nActions: turn left, go forward.\nTask: go to the ball.\nwall ahead<eos>"
        "<|assistant|>go<eos><|user|>view 0<eos><|assistant|>stop<eos><|user|>view 1<eos>"
        "<|assistant|>"
    )


@pytest.mark.parametrize("template", [None, TEMPLATE])
def test_each_prompt_begins_with_the_one_before_and_the_response(tokenizer, template):
    tokenizer.chat_template = template
    dialogue, whole = Dialogue(tokenizer, "Act."), history(tokenizer, "go", "x", "turn left")
    for n in range(3):
        before = dialogue.render(History(whole.observations[: n + 1], whole.responses[:n]))
        after = dialogue.render(History(whole.observations[: n + 2], whole.responses[: n + 1]))
        seen = before + whole.responses[n]
        assert after[: len(seen)] == seen


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("go forward", "go forward"),
        (" Go forward.\n", "go forward"),
        ("It is ahead.\nAction: **pick up**", "pick up"),
        ("action: turn left; Action: turn right", "turn right"),
        ("first\nsecond", "second"),
    ],
)
def test_the_action_is_the_last_line_or_what_follows_the_word(text, action):
    assert parse_action(text) == action


def test_an_empty_response_is_no_action():
    with pytest.raises(ValueError, match="the response is empty"):
        parse_action(" \n")
