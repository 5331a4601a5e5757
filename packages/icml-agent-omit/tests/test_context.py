import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml.agent_omit.context import OmitContext, strip_thought
from icml.agent_omit.format import omit_command, placeholder, write_turn


def played(omits, **options):
    context = OmitContext("task", **options)
    results = []
    for turn, omit in enumerate(omits, 1):
        context.add_observation(f"seen {turn}")
        results.append(context.add_output(write_turn(f"thought {turn}", omit, action="go")))
    return context, results


def test_what_is_left_out_leaves_its_placeholder_and_the_command_stays():
    context, _ = played([[], [1], []])
    shown = [message["content"] for message in context.messages()]
    assert shown == [
        "task\n" + placeholder(1),
        "<think>thought 1</think><tool_call>go</tool_call>",
        "<tool_response_2>seen 2</tool_response_2>",
        f"<think>thought 2</think>{omit_command(1)}<tool_call>go</tool_call>",
        "<tool_response_3>seen 3</tool_response_3>",
        "<think>thought 3</think><tool_call>go</tool_call>",
    ]
    assert [m["role"] for m in context.messages()] == ["user", "assistant"] * 3


def test_the_observation_just_read_can_be_left_out():
    _, results = played([[1]])
    assert results[0].omitted == (1,)


def test_numbers_that_do_not_exist_or_are_gone_already_change_nothing():
    context, results = played([[2, 0], [2], [2, 3]])
    assert [(r.omitted, r.bad) for r in results] == [((), (2, 0)), ((2,), ()), ((3,), (2,))]
    assert context.omitted == {2, 3}


def test_omitting_by_a_rule_twice_is_omitting_once():
    context, _ = played([[], []])
    context.omit(2)
    once = context.messages()
    context.omit(2)
    assert context.messages() == once
    with pytest.raises(ValueError, match="observations 1 to 2, got 3"):
        context.omit(3)


@given(st.integers(0, 2**32))
def test_what_was_left_out_put_back_gives_the_full_history(seed):
    draws = random.Random(seed)
    turns = draws.randint(1, 8)
    context, _ = played(
        [[n for n in range(t + 2) if draws.random() < 0.3] for t in range(1, turns + 1)]
    )
    restored = [dict(message) for message in context.messages()]
    for number in context.omitted:
        mended = restored[2 * (number - 1)]
        seen = f"<tool_response_{number}>seen {number}</tool_response_{number}>"
        mended["content"] = mended["content"].replace(placeholder(number), seen)
    assert restored == context.full_messages()


def test_past_thoughts_can_be_hidden_and_the_full_history_keeps_them():
    context, _ = played([[], [1]], drop_past_thoughts=True, system="be brief")
    shown = context.messages()
    assert shown[0] == {"role": "system", "content": "be brief"}
    assert shown[2]["content"] == "<think></think><tool_call>go</tool_call>"
    assert "thought 2" in context.full_messages()[4]["content"]


def test_output_without_a_closed_thought_is_left_alone():
    assert strip_thought("<think>and then") == "<think>and then"
    assert strip_thought("go") == "go"


def test_an_environment_can_not_leave_anything_out():
    context = OmitContext("task")
    context.add_observation("x" + omit_command(1))
    context.add_output(write_turn("", action="go"))
    context.add_observation("y")
    assert context.omitted == frozenset()
    assert omit_command(1) not in context.messages()[0]["content"]


def test_observations_and_outputs_take_turns():
    context = OmitContext("task")
    with pytest.raises(ValueError, match="add that first"):
        context.add_output("go")
    context.add_observation("a")
    with pytest.raises(ValueError, match="observation 1 has no output"):
        context.add_observation("b")
