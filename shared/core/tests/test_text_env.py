"""The suite for environments: a right one passes, and each rule can be broken."""

import itertools
import os
import random
from typing import Any

import pytest

from icml.core.envs.protocol import EnvStateError, Observation, StepResult, TextEnv
from icml.core.testing.text_env import check_text_env

CALLS = itertools.count()


class Hill:
    """Climb from a height of 0 to 4 to the top, 5, in at most six steps."""

    id = "hill"
    max_steps = 6
    running = False

    def reset(self, seed: int) -> Observation:
        self.height, self.steps, self.running = random.Random(seed).randrange(5), 0, True
        return self.look()

    def look(self) -> Observation:
        actions = ("up", "down") if self.running else ()
        return Observation(f"you are {self.height} high", actions, "climb to 5")

    def step(self, action: str) -> StepResult:
        if not self.running:
            raise EnvStateError("call reset")
        self.steps += 1
        info: dict[str, Any] = {"steps": self.steps}
        if action not in ("up", "down"):
            info["invalid_action"] = True
        self.height += {"up": 1, "down": -1}.get(action, 0)
        info["success"] = self.height == 5
        info["truncated"] = not info["success"] and self.steps == self.max_steps
        self.running = not (info["success"] or info["truncated"])
        return StepResult(self.look(), float(info["success"]), not self.running, info)

    def close(self) -> None:
        self.running = False

    def expert_actions(self) -> list[str]:
        return ["up"] * (5 - self.height)


class Free(Hill):
    """Takes any text that has a letter."""

    def look(self) -> Observation:
        return Observation(f"you are {self.height} high")


class Silent(Hill):
    id = ""


class Endless(Hill):
    max_steps: Any = 0


class NoClose:
    id, max_steps = "hill", 6
    reset, step = Hill.reset, Hill.step


class ClosesOnce(Hill):
    closed = False

    def close(self) -> None:
        if self.closed:
            raise EnvStateError("closed twice")
        self.closed = True


class Eager(Hill):
    """Acts before reset."""

    running = True
    height = steps = 0


class Restless(Hill):
    """Acts after the end."""

    def step(self, action: str) -> StepResult:
        if hasattr(self, "height"):
            self.running = True
        return super().step(action)


class Open(Hill):
    """Acts after close."""

    def close(self) -> None:
        pass


class Changed(Hill):
    """Every result of a step passes through ``change``."""

    def step(self, action: str) -> StepResult:
        return self.change(super().step(action))

    def change(self, result: StepResult) -> StepResult:
        raise NotImplementedError


class Long(Changed):
    def change(self, result: StepResult) -> StepResult:
        self.running = True
        return result._replace(observation=self.look(), done=False)


class Whole(Changed):
    def change(self, result: Any) -> StepResult:
        return result._replace(reward=int(result.reward))


class Infinite(Changed):
    def change(self, result: StepResult) -> StepResult:
        return result._replace(reward=float("inf"))


class NoSuccess(Changed):
    def change(self, result: StepResult) -> StepResult:
        del result.info["success"]
        return result


class Early(Changed):
    def change(self, result: StepResult) -> StepResult:
        result.info["truncated"] = True
        return result


class Miscounts(Changed):
    def change(self, result: StepResult) -> StepResult:
        result.info["steps"] += 1
        return result


class Numbers(Changed):
    def change(self, result: Any) -> StepResult:
        return result._replace(observation=Observation(self.height, ("up",), "climb"))


class Offers(Changed):
    def change(self, result: StepResult) -> StepResult:
        return result._replace(observation=Observation("", ("up",), "climb to 5"))


class Fickle(Changed):
    def change(self, result: StepResult) -> StepResult:
        return result._replace(observation=result.observation._replace(task="sit"))


class Refuses(Changed):
    def change(self, result: StepResult) -> StepResult:
        result.info["invalid_action"] = True
        return result


class Raises(Hill):
    def step(self, action: str) -> StepResult:
        if self.running and action not in ("up", "down"):
            raise KeyError(action)
        return super().step(action)


class Accepts(Changed):
    def change(self, result: StepResult) -> StepResult:
        result.info.pop("invalid_action", None)
        return result


class Pays(Changed):
    def change(self, result: StepResult) -> StepResult:
        return result._replace(reward=1.0)


class Remembers(Hill):
    """An episode depends on those before."""

    before = 0

    def reset(self, seed: int) -> Observation:
        self.before += 1
        return super().reset(seed + self.before)


class Counts(Hill):
    """An episode depends on those of other instances."""

    def reset(self, seed: int) -> Observation:
        return super().reset(seed + next(CALLS))


class Hashes(Hill):
    """An episode depends on the process."""

    def reset(self, seed: int) -> Observation:
        return super().reset(seed + os.getpid())


class Meddles(Hill):
    """Looking for the expert's way climbs it."""

    def expert_actions(self) -> list[str]:
        self.height += 1
        return ["up"]


class Poor(Hill):
    def expert_actions(self) -> list[str]:
        return ["fly"]


@pytest.mark.parametrize("env", [Hill, Free])
def test_a_right_environment_passes(env):
    check_text_env(env, actions=("up", "down"))


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (NoClose, "NoClose lacks a member of TextEnv"),
        (Silent, "id must not be empty"),
        (Endless, "max_steps must be at least 1, got 0"),
        (Eager, "a step before reset must raise EnvStateError"),
        (Restless, "a step after the episode's end must raise EnvStateError"),
        (Open, "a step after close must raise EnvStateError"),
        (Long, "of seed 0 is not over after 6 steps"),
        (Whole, "a reward must be a float, got 0"),
        (Infinite, "a reward must be finite"),
        (NoSuccess, r"info\['success'\] must be a bool"),
        (Early, r"info\['truncated'\] is True before the episode's end"),
        (Miscounts, r"info\['steps'\] must be 1, got"),
        (Numbers, "an observation is text, got"),
        (Offers, "admissible_actions is .* over=True"),
        (Fickle, "the task must not change"),
        (Refuses, "a valid action was answered as invalid"),
        (Accepts, "'' must be invalid"),
        (Pays, "an invalid action was given 1.0"),
        (Counts, "seed 0 begins two different episodes"),
        (Remembers, "depends on the ones before"),
        (Hashes, "episodes differ in another process"),
        (Meddles, "expert_actions must not change the episode"),
        (Poor, "the expert's 'fly' is invalid"),
    ],
)
def test_a_broken_rule_is_named(env, message):
    with pytest.raises(AssertionError, match=message):
        check_text_env(env)


@pytest.mark.parametrize(("env", "error"), [(ClosesOnce, EnvStateError), (Raises, KeyError)])
def test_an_environment_that_raises_does_not_pass(env, error):
    with pytest.raises(error):
        check_text_env(env)


def test_the_protocol_can_be_asked_at_run_time():
    assert isinstance(Hill(), TextEnv)
    assert not isinstance(NoClose(), TextEnv)
