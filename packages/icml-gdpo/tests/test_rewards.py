"""Conditioned rewards, called as TRL 1.16 calls them."""

import asyncio
import functools
import inspect
import math
import pickle
from typing import Any

import pytest

from icml.gdpo import ConditionedReward

PROMPTS = ["2+2"] * 4
COMPLETIONS = ["4", "5", "four", "?"]


def correct(prompts, completions, **columns):
    return [{"4": 1.0, "four": 0.5, "?": None}.get(c, 0.0) for c in completions]


def brief(prompts, completions, **columns):
    return [float(len(c) == 1) for c in completions]


async def async_brief(prompts, completions, **columns):
    await asyncio.sleep(0)
    return brief(prompts, completions)


class Counted:
    """A gate that counts its evaluations."""

    def __init__(self):
        self.calls = 0

    def __call__(self, prompts, completions, **columns):
        self.calls += 1
        return correct(prompts, completions)


class CountedAsync(Counted):
    async def __call__(self, prompts, completions, **columns):
        await asyncio.sleep(0)
        return super().__call__(prompts, completions)


def call(reward, completions=COMPLETIONS, prompts=PROMPTS, **columns):
    return reward(prompts=prompts, completions=completions, **columns)


def test_reward_counts_only_where_the_gate_is_high_enough():
    reward = ConditionedReward(brief, on=correct, at_least=0.5)
    assert call(reward) == [1.0, 0.0, 0.0, None]


def test_other_value_where_the_gate_is_too_low():
    reward = ConditionedReward(brief, on=correct, at_least=1.0, otherwise=-2.0)
    assert call(reward) == [1.0, -2.0, -2.0, None]


def test_missing_reward_stays_missing_under_either_gate():
    def partial(prompts, completions, **columns):
        return [None, None, math.nan, 1.0]

    assert call(ConditionedReward(partial, on=correct, at_least=1.0)) == [None] * 4


def test_nan_gate_is_missing():
    def gate(prompts, completions, **columns):
        return [math.nan, 1.0, 1.0, 1.0]

    assert call(ConditionedReward(brief, on=gate, at_least=1.0)) == [None, 1.0, 0.0, 1.0]


def test_columns_are_passed_on_to_both():
    def first(prompts, completions, answer, **columns):
        return [float(a == c) for a, c in zip(answer, completions, strict=True)]

    reward = ConditionedReward(first, on=first, at_least=1.0)
    assert call(reward, answer=["4", "4", "four", "4"]) == [1.0, 0.0, 1.0, 0.0]


def test_name_of_the_reward_is_kept():
    assert ConditionedReward(brief, on=correct, at_least=1.0).__name__ == "brief"
    partial = functools.partial(brief)
    assert ConditionedReward(partial, on=correct, at_least=1.0).__name__ == "brief"
    assert ConditionedReward(Counted(), on=correct, at_least=1.0).__name__ == "Counted"


def test_rewards_with_one_gate_evaluate_it_once_a_batch():
    gate = Counted()
    rewards = [ConditionedReward(brief, on=gate, at_least=t) for t in (0.5, 1.0)]
    assert [call(reward)[2] for reward in rewards] == [0.0, 0.0]
    assert gate.calls == 1
    call(rewards[0], list(COMPLETIONS))
    assert gate.calls == 2


def test_bound_methods_of_one_object_are_one_gate():
    gate = Counted()
    rewards = [ConditionedReward(brief, on=gate.__call__, at_least=1.0) for _ in range(2)]
    for reward in rewards:
        call(reward)
    assert gate.calls == 1


def test_gate_sees_changed_contents_and_columns():
    def content(prompts, completions, answer):
        return [float(c["content"] == answer[0]) for c in completions]

    def one(prompts, completions, answer):
        return [1.0]

    reward = ConditionedReward(one, on=content, at_least=1.0)
    completions = [{"content": "4"}]
    assert call(reward, completions, ["?"], answer=["4"]) == [1.0]
    assert call(reward, completions, ["?"], answer=["5"]) == [0.0]
    completions[0]["content"] = "5"
    assert call(reward, completions, ["?"], answer=["5"]) == [1.0]


@pytest.mark.parametrize(
    ("reward_fn", "gate"),
    [(async_brief, Counted()), (brief, CountedAsync()), (async_brief, CountedAsync())],
)
def test_reward_is_asynchronous_if_either_function_is(reward_fn, gate):
    reward = ConditionedReward(reward_fn, on=gate, at_least=0.5)
    # TRL asks exactly this of a callable object.
    assert inspect.iscoroutinefunction(reward.__call__)
    assert asyncio.run(call(reward)) == [1.0, 0.0, 0.0, None]


def test_gathered_rewards_share_one_asynchronous_gate():
    gate = CountedAsync()
    rewards = [ConditionedReward(async_brief, on=gate, at_least=t) for t in (0.5, 1.0)]

    async def gather():
        return await asyncio.gather(*(call(reward) for reward in rewards))

    assert asyncio.run(gather()) == [[1.0, 0.0, 0.0, None], [1.0, 0.0, 0.0, None]]
    assert gate.calls == 1
    assert asyncio.run(gather())[0] == [1.0, 0.0, 0.0, None]


def test_failed_asynchronous_gate_is_tried_again():
    answers = [RuntimeError("judge is down"), [1.0] * 4]

    async def judge(prompts, completions):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    reward = ConditionedReward(brief, on=judge, at_least=1.0)
    with pytest.raises(RuntimeError, match="judge is down"):
        asyncio.run(call(reward))
    assert asyncio.run(call(reward)) == [1.0, 1.0, 0.0, 1.0]


def test_conditions_can_be_nested():
    inner = ConditionedReward(brief, on=correct, at_least=0.5)
    outer = ConditionedReward(correct, on=inner, at_least=1.0)
    assert call(outer) == [1.0, 0.0, 0.0, None]


def short(prompts, completions, **columns):
    return [1.0]


@pytest.mark.parametrize(("reward_fn", "gate"), [(short, correct), (brief, short)])
def test_wrong_number_of_rewards_names_the_function(reward_fn, gate):
    reward = ConditionedReward(reward_fn, on=gate, at_least=1.0)
    with pytest.raises(ValueError, match="'short' returned 1 rewards for 4 completions"):
        call(reward)


@pytest.mark.parametrize("returned", [None, 1.0, "ab"])
def test_rewards_that_are_no_list_name_the_function(returned):
    def broken(prompts, completions, **columns):
        return returned

    reward = ConditionedReward(broken, on=broken, at_least=1.0)
    with pytest.raises(TypeError, match="reward function 'broken' returned"):
        reward(prompts=["a"] * 2, completions=["b"] * 2)


@pytest.mark.parametrize("broken_one", ["reward", "gate"])
def test_a_reward_that_is_no_number_names_the_function(broken_one):
    def broken(prompts, completions, **columns):
        return ["high" for _ in completions]

    functions = (broken, correct) if broken_one == "reward" else (correct, broken)
    reward = ConditionedReward(functions[0], on=functions[1], at_least=1.0)
    with pytest.raises(TypeError, match="reward function 'broken' returned 'high' among"):
        call(reward)


def test_wrong_number_of_asynchronous_rewards_names_the_function():
    async def late(prompts, completions):
        return [1.0]

    with pytest.raises(ValueError, match="'late' returned 1 rewards for 4 completions"):
        asyncio.run(call(ConditionedReward(brief, on=late, at_least=1.0)))


def test_conditioned_reward_survives_pickling():
    reward = pickle.loads(pickle.dumps(ConditionedReward(brief, on=correct, at_least=0.5)))
    assert reward.__name__ == "brief"
    assert call(reward) == [1.0, 0.0, 0.0, None]


def test_arguments_that_make_no_sense_are_refused():
    text: Any = "brief"
    with pytest.raises(TypeError, match="reward_fn must be a reward function, got str"):
        ConditionedReward(text, on=correct, at_least=1.0)
    with pytest.raises(TypeError, match="on must be a reward function"):
        ConditionedReward(brief, on=text, at_least=1.0)
    with pytest.raises(ValueError, match="at_least must be a finite number, got nan"):
        ConditionedReward(brief, on=correct, at_least=math.nan)
    with pytest.raises(ValueError, match="otherwise must be a finite number, got inf"):
        ConditionedReward(brief, on=correct, at_least=1.0, otherwise=math.inf)
