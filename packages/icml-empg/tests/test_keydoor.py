import functools
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml.core.envs.protocol import EnvStateError
from icml.core.testing.text_env import check_text_env
from icml.empg.keydoor import ACTIONS, WORDS, KeyDoor, Task, searching_action, task_of


def seed_of(task: Task, cells: int) -> int:
    return next(seed for seed in range(100_000) if task_of(seed, cells) == task)


def texts(env: KeyDoor, seed: int, actions: list[str]) -> list[str]:
    seen = [env.reset(seed).text]
    return [*seen, *(env.step(action).observation.text for action in actions)]


def fewest_turns(env: KeyDoor, seed: int) -> int:
    """Breadth first over the environment's own states: the length of the shortest success."""
    env.reset(seed)
    seen, queue = {env.state_key()[:4]}, deque([(0, env.snapshot())])
    while queue:
        turns, state = queue.popleft()
        for action in ACTIONS:
            env.restore(state)
            if env.step(action).info["success"]:
                return turns + 1
            if env.state_key()[:4] not in seen:
                seen.add(env.state_key()[:4])
                queue.append((turns + 1, env.snapshot()))
    raise AssertionError("no success")


@pytest.mark.parametrize("cells", [3, 5, 9])
def test_breadth_first_search_needs_as_many_turns_as_the_walk(cells):
    env = KeyDoor(cells=cells, max_steps=99)
    for seed in range(30):
        assert fewest_turns(env, seed) == task_of(seed, cells).fewest_turns


def test_the_experts_plan_is_a_shortest_one_from_anywhere():
    env = KeyDoor(max_steps=99)
    for seed in range(20):
        env.reset(seed)
        assert len(env.expert_actions()) == task_of(seed, 9).fewest_turns
        env.step("left")
        for action in env.expert_actions():
            last = env.step(action)
        assert last.info["success"]


@pytest.mark.parametrize("options", [{}, {"cells": 3, "max_steps": 1, "view": 0}])
def test_the_rules_of_text_environments_are_kept(options):
    check_text_env(functools.partial(KeyDoor, **options))


def test_an_episode_by_hand():
    env = KeyDoor()
    seed = seed_of(Task(agent=1, key=0, door=4), 9)
    assert texts(env, seed, ["left", "take", "jump", "right", "right", "right"]) == [
        "hands-empty key-left door-unseen no-wall after-nothing",
        "hands-empty key-here door-unseen wall-left after-left",
        "key-in-hand key-unseen door-unseen wall-left after-take",
        "key-in-hand key-unseen door-unseen wall-left after-nothing",
        "key-in-hand key-unseen door-unseen no-wall after-right",
        "key-in-hand key-unseen door-right no-wall after-right",
        "key-in-hand key-unseen door-right no-wall after-right",
    ]
    env.step("right")
    result = env.step(" open\n")
    assert (result.reward, result.done) == (1.0, True)
    assert result.info == {"success": True, "truncated": False, "steps": 8}
    assert result.observation.admissible_actions == ()


def test_opening_takes_the_key_and_the_right_cell():
    env = KeyDoor()
    env.reset(seed_of(Task(agent=4, key=3, door=5), 9))
    for action in ("open", "take", "right", "open", "left", "left", "take", "open"):
        assert env.step(action).reward == 0
    for action in ("right", "right", "open"):
        last = env.step(action)
    assert last.info["success"]


def test_what_is_not_understood_costs_a_turn_and_nothing_else():
    env = KeyDoor(max_steps=2)
    env.reset(3)
    before = env.state_key()[:4]
    result = env.step("dance")
    assert (result.reward, result.done) == (0.0, False)
    assert result.info == {"success": False, "truncated": False, "steps": 1, "invalid_action": True}
    assert env.state_key()[:4] == before
    assert env.step("").info["truncated"]


def test_walls_hold():
    env = KeyDoor(cells=3)
    env.reset(0)
    for action, place in (("left", "wall-left"), ("right", "wall-right")):
        for _ in range(4):
            text = env.step(action).observation.text
        assert place in text


@given(st.integers(0, 2**40), st.integers(3, 30))
def test_a_seed_gives_one_task_of_three_different_cells(seed, cells):
    task = task_of(seed, cells)
    assert task == task_of(seed, cells)
    assert len({*task}) == 3
    assert all(0 <= cell < cells for cell in task)


@given(st.integers(0, 1000), st.lists(st.sampled_from([*ACTIONS, "?"]), max_size=14))
def test_every_word_is_in_the_vocabulary(seed, actions):
    env = KeyDoor()
    words = env.reset(seed).text.split()
    for action in actions:
        result = env.step(action)
        words += result.observation.text.split()
        if result.done:
            break
    assert {*words} <= {*WORDS}
    assert len(WORDS) == len({*WORDS})


def test_searching_finds_the_door_where_time_allows():
    env = KeyDoor(max_steps=99)
    for seed in range(50):
        words = env.reset(seed).text.split()
        done = False
        while not done:
            hand, key, door, place, last = words
            sight = (door if hand == "key-in-hand" else key).partition("-")[2]
            result = env.step(searching_action(hand, sight, place, last))
            words, done = result.observation.text.split(), result.done
        assert result.info["success"]


def test_steps_out_of_turn_are_refused():
    env = KeyDoor(max_steps=1)
    with pytest.raises(EnvStateError, match="no episode"):
        env.step("left")
    env.reset(0)
    env.step("left")
    with pytest.raises(EnvStateError, match="is over"):
        env.step("left")
    env.reset(0)
    env.close()
    env.close()
    with pytest.raises(EnvStateError, match="no episode"):
        env.expert_actions()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"cells": 2}, "cells must be at least 3"), ({"max_steps": 0}, "max_steps must be at least 1"),
     ({"view": -1}, "view must be at least 0")],
)  # fmt: skip
def test_a_corridor_that_makes_no_sense_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        KeyDoor(**wrong)
