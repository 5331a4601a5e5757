"""The rules of `icml.core.envs.protocol.TextEnv`, tried on an environment."""

from __future__ import annotations

import functools
import json
import math
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from icml.core.envs.protocol import EnvStateError, Observation, StepResult, TextEnv

__all__ = ["check_text_env"]

INVALID = ("", "\N{SNOWMAN} fly to the moon")
"""Actions that no environment knows; a response that can't be parsed is sent as the first."""

Factory = Callable[[], TextEnv]
Choose = Callable[[Observation, random.Random], str]

# Plays in an interpreter that hashes strings in another way. A test's module is on no path.
_CHILD = """
import importlib.util, json, pickle, sys
name, file = sys.argv[1:3]
try:
    known = importlib.util.find_spec(name) is not None
except ModuleNotFoundError:
    known = False
if not known:
    spec = importlib.util.spec_from_file_location(name, file)
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
from icml.core.testing.text_env import _transcript
factory, seeds, actions = pickle.load(sys.stdin.buffer)
json.dump([_transcript(factory(), seed, actions) for seed in seeds], sys.stdout)
"""


def check_text_env(
    factory: Factory, *, seeds: Sequence[int] = (0, 1, 2), actions: Sequence[str] = ()
) -> None:
    """Check that an environment keeps the protocol's rules.

    Args:
        factory: Makes a new environment; a class, a function or a `functools.partial` of one that
            another process can import.
        seeds: Seeds of the episodes to play; the last one also shows that episodes do not depend
            on the ones before.
        actions: Valid actions, for an environment whose observations name none.

    Raises:
        AssertionError: If a rule is broken, saying which.
    """
    _check_attributes(factory())
    _check_states(factory, seeds[0], actions)
    for seed in seeds:
        _check_episode(factory(), seed, actions)
        _check_invalid_actions(factory(), seed)
        _check_expert(factory, seed)
    _check_determinism(factory, seeds, actions)


def _check_attributes(env: TextEnv) -> None:
    assert isinstance(env, TextEnv), f"{type(env).__name__} lacks a member of TextEnv"
    assert isinstance(env.id, str), f"id must be text, got {env.id!r}"
    assert env.id, "id must not be empty"
    assert isinstance(env.max_steps, int), f"max_steps must be an int, got {env.max_steps!r}"
    assert env.max_steps >= 1, f"max_steps must be at least 1, got {env.max_steps}"
    env.close()
    env.close()


def _check_states(factory: Factory, seed: int, actions: Sequence[str]) -> None:
    env = factory()
    _assert_no_step(env, "before reset")
    _play(env, seed, _chooser(actions))
    _assert_no_step(env, "after the episode's end")
    env.reset(seed)
    env.close()
    _assert_no_step(env, "after close")
    env.close()


def _assert_no_step(env: TextEnv, when: str) -> None:
    try:
        env.step(INVALID[0])
    except EnvStateError:
        return
    raise AssertionError(f"a step {when} must raise EnvStateError, it was answered")


def _check_episode(env: TextEnv, seed: int, actions: Sequence[str]) -> None:
    first, results = _play(env, seed, _chooser(actions))
    for count, result in enumerate(results, 1):
        _check_result(result, count)
        assert result.observation.task == first.task, "the task must not change in an episode"
        assert not result.info.get("invalid_action"), "a valid action was answered as invalid"
    env.close()


def _check_result(result: StepResult, count: int) -> None:
    observation, reward, done, info = result
    _check_observation(observation, over=done)
    assert type(reward) is float, f"a reward must be a float, got {reward!r}"
    assert math.isfinite(reward), f"a reward must be finite, got {reward}"
    assert type(done) is bool, f"done must be a bool, got {done!r}"
    for name in ("success", "truncated"):
        assert type(info.get(name)) is bool, f"info[{name!r}] must be a bool, got {info}"
        assert done or not info[name], f"info[{name!r}] is True before the episode's end"
    assert info.get("steps") == count, f"info['steps'] must be {count}, got {info}"


def _check_observation(observation: Observation, *, over: bool) -> None:
    assert isinstance(observation, Observation), f"want an Observation, got {observation!r}"
    assert isinstance(observation.text, str), f"an observation is text, got {observation.text!r}"
    admissible = observation.admissible_actions
    if admissible is not None:
        assert isinstance(admissible, tuple), f"admissible_actions is a tuple, got {admissible!r}"
        assert bool(admissible) != over, f"admissible_actions is {admissible!r}, {over=}"


def _check_invalid_actions(env: TextEnv, seed: int) -> None:
    for action in INVALID:
        _, results = _play(env, seed, lambda *_, action=action: action)
        for count, result in enumerate(results, 1):
            _check_result(result, count)
            assert result.info.get("invalid_action") is True, f"{action!r} must be invalid"
            assert result.reward == 0, f"an invalid action was given {result.reward}"
    env.close()


def _check_expert(factory: Factory, seed: int) -> None:
    """Try ``expert_actions``, where there is one: it only looks, and what it says is valid."""
    env, untouched = factory(), factory()
    first, expert = env.reset(seed), getattr(env, "expert_actions", None)
    if expert is None:
        return
    actions = expert()
    assert expert() == actions, "expert_actions must not change the episode"
    assert untouched.reset(seed) == first, f"seed {seed} begins two different episodes"
    for action in actions:
        result = env.step(action)
        assert untouched.step(action) == result, "expert_actions must not change the episode"
        assert not result.info.get("invalid_action"), f"the expert's {action!r} is invalid"
        if result.done:
            break
    env.close()
    untouched.close()


def _check_determinism(factory: Factory, seeds: Sequence[int], actions: Sequence[str]) -> None:
    env = factory()
    found = [_transcript(factory(), seed, actions) for seed in seeds]
    for seed, transcript in [*zip(seeds, found, strict=True)][::-1]:
        again = _transcript(env, seed, actions)
        assert again == transcript, f"the episode of seed {seed} depends on the ones before"
    elsewhere = _in_another_process(factory, seeds, actions)
    # Through JSON, which turns tuples into lists.
    assert elsewhere == json.loads(json.dumps(found)), "episodes differ in another process"
    env.close()


def _in_another_process(factory: Factory, seeds: Sequence[int], actions: Sequence[str]) -> Any:
    made_by: Any = factory
    while isinstance(made_by, functools.partial):
        made_by = made_by.func
    file = getattr(sys.modules[made_by.__module__], "__file__", None) or ""
    child = subprocess.run(
        [sys.executable, "-c", _CHILD, made_by.__module__, file],
        input=pickle.dumps((factory, list(seeds), list(actions))),
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr.decode()[-2000:]
    return json.loads(child.stdout)


def _transcript(env: TextEnv, seed: int, actions: Sequence[str]) -> list[Any]:
    """Return all that an episode shows, as JSON can hold it."""
    first, results = _play(env, seed, _chooser(actions))
    return [[*first], *([[*r.observation], r.reward, r.done, repr(r.info)] for r in results)]


def _chooser(actions: Sequence[str]) -> Choose:
    return lambda seen, rng: rng.choice(seen.admissible_actions or actions)


def _play(env: TextEnv, seed: int, choose: Choose) -> tuple[Observation, list[StepResult]]:
    """Play to the end, which must come by ``max_steps``."""
    rng, results = random.Random(seed), []
    first = seen = env.reset(seed)
    _check_observation(first, over=False)
    while len(results) < env.max_steps:
        results.append(env.step(choose(seen, rng)))
        seen, done = results[-1].observation, results[-1].done
        if done:
            return first, results
    raise AssertionError(f"the episode of seed {seed} is not over after {env.max_steps} steps")
