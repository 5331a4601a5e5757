import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml.agent_omit.ledger import Omissions, TurnSizes, ledger_of

# Three turns: observations 10, 20, 30; thoughts 5 and actions 2 each; the task 8; placeholders 1.
HISTORY = [TurnSizes(size, 5, 2, placeholder=1) for size in (10, 20, 30)]


def test_full_prompts_of_a_history_made_by_hand():
    found = ledger_of(8, HISTORY)
    # 8+10; 18+7+20; 45+7+30
    assert [turn.prompt for turn in found.turns] == [18, 45, 82]
    assert (found.prompt, found.output, found.total) == (145, 21, 166)
    assert found.final == 82 + 7


def test_an_observation_gone_from_turn_2_on_is_a_placeholder_in_two_prompts():
    found = ledger_of(8, HISTORY, Omissions(gone={1: 2}))
    assert [turn.prompt for turn in found.turns] == [18, 36, 73]
    assert 145 - found.prompt == 18
    assert found.final == 80


def test_an_empty_thought_is_saved_where_it_was_written_and_in_each_later_prompt():
    found = ledger_of(8, HISTORY, Omissions(thoughts=frozenset({1})))
    assert [turn.prompt for turn in found.turns] == [18, 40, 77]
    assert [turn.output for turn in found.turns] == [2, 7, 7]


def test_what_leaves_after_the_last_turn_changes_the_final_context_alone():
    full, found = ledger_of(8, HISTORY), ledger_of(8, HISTORY, Omissions(gone={3: 4}))
    assert found.turns == full.turns
    assert found.final == full.final - 29


def test_private_thoughts_are_written_once_and_never_read():
    found = ledger_of(8, [TurnSizes(size, 0, 2, 1, private=5) for size in (10, 20, 30)])
    assert [turn.prompt for turn in found.turns] == [18, 40, 72]
    assert found.output == 21
    empty = ledger_of(8, [TurnSizes(10, 0, 2, private=5)], Omissions(thoughts=frozenset({1})))
    assert empty.output == 2


def test_the_split_names_every_token():
    found = ledger_of(8, HISTORY, Omissions(frozenset({2}), {1: 2}))
    # observations 10, 1+20, 1+20+30; thoughts 5 of turn 1 three times, of turn 3 once
    assert found.split() == {"task": 24, "observation": 82, "thought": 20, "action": 12}
    assert sum(found.split().values()) == found.total


def test_an_episode_without_turns_costs_nothing():
    assert (ledger_of(8, []).total, ledger_of(8, []).final) == (0, 8)


@pytest.mark.parametrize("gone", [{1: 1}, {4: 5}, {0: 1}, {2: 1}])
def test_what_is_not_there_or_not_read_yet_cannot_leave(gone):
    with pytest.raises(ValueError, match="read in its own turn"):
        ledger_of(8, HISTORY, Omissions(gone=gone))


def test_numbers_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="none is 9"):
        ledger_of(8, HISTORY, Omissions(thoughts=frozenset({9})))
    with pytest.raises(ValueError, match="can't be negative"):
        ledger_of(-1, HISTORY)


@given(st.integers(0, 2**32))
def test_every_prompt_equals_the_messages_that_it_is_made_of(seed):
    draws = random.Random(seed)
    turns = [TurnSizes(*(draw(draws) for _ in range(4))) for _ in range(draws.randint(1, 9))]
    count = len(turns)
    empty = frozenset(n for n in range(1, count + 1) if draws.random() < 0.4)
    gone = {n: draws.randint(n + 1, count + 1) for n in range(1, count + 1) if draws.random() < 0.5}
    found = ledger_of(7, turns, Omissions(empty, gone))

    def context(turn):
        """The messages' sizes, written out."""
        messages = [7]
        for k, size in enumerate(turns, 1):
            if k <= turn:
                messages += [size.placeholder if gone.get(k, 99) <= turn else size.observation]
            if k < turn:
                messages += [size.action + (0 if k in empty else size.thought)]
        return sum(messages)

    assert [turn.prompt for turn in found.turns] == [context(t) for t in range(1, count + 1)]
    assert found.final == context(count + 1)


def draw(draws):
    return draws.randint(0, 30)
