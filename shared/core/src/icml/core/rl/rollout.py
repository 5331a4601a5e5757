"""Let a policy act in many text environments at once.

`collect` plays every episode side by side: one batched forward pass a turn, finished episodes
dropped. What an episode draws depends on the seed and on its own index alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from icml.core.envs.protocol import Observation, TextEnv
from icml.core.rl.episodes import (
    SequenceBatch,
    Step,
    StepBatch,
    Trajectory,
    to_sequence_batch,
    to_step_batch,
)
from icml.core.rl.samplers import HFSampler, ModelSampler, Sample, Sampler

__all__ = [
    "EnvTask",
    "HFSampler",
    "History",
    "ModelSampler",
    "RolloutError",
    "Sample",
    "Sampler",
    "SequenceBatch",
    "Step",
    "StepBatch",
    "Trajectory",
    "collect",
    "to_sequence_batch",
    "to_step_batch",
]


MAX_ERRORS = 0.2
"""Largest fraction of environments that may raise."""


class RolloutError(RuntimeError):
    """Too many environments failed for the episodes to mean anything."""


@dataclass(frozen=True)
class EnvTask:
    """One episode to play: which environment, and the seed that determines it."""

    seed: int
    env: str = ""
    """Name for the factory to choose by; one environment needs none."""

    def key(self) -> str:
        """Return the task as JSON, such as a data set's prompt column holds it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_key(cls, key: str) -> EnvTask:
        """Read what `key` wrote."""
        return cls(**json.loads(key))


@dataclass
class History:
    """An episode so far, as the policy's prompt is made from it."""

    observations: list[Observation]
    """What the environment said: one more than there are responses."""
    responses: list[list[int]] = field(default_factory=list)
    """Token ids of each response, end tokens included."""
    actions: list[str] = field(default_factory=list)
    """What each response was parsed to."""


EnvFactory = Callable[[EnvTask], TextEnv]
"""Makes the environment of a task; it is reset with the task's seed."""
Render = Callable[[History], list[int]]
"""The prompt of the next turn, as token ids."""
Parse = Callable[[str], str]
"""The text of a response to an action; ValueError where it holds none."""


def collect(
    sampler: Sampler,
    env_factory: EnvFactory,
    tasks: Sequence[EnvTask],
    *,
    group_size: int,
    max_turns: int,
    max_new_tokens: int,
    render: Render,
    parse: Parse = str.strip,
    seed: int,
) -> list[Trajectory]:
    """Play ``group_size`` episodes of every task, group after group.

    An environment that raises ends its own episode only: its last step has reward 0 and
    ``info["error"]``. One that raises when it is closed keeps the episode as it was played, with
    ``error``. A response that can't be parsed is sent as the empty action, which an
    environment answers as invalid, and its step has ``info["parse_error"]``.

    Args:
        sampler: The policy.
        env_factory: `EnvTask` to environment, called once an episode; each is closed.
        tasks: What to play.
        group_size: Episodes a task, all with its environment and seed.
        max_turns: Longest episode, in turns; one that is cut has ``truncated``.
        max_new_tokens: Longest response, in tokens.
        render: `History` to the next turn's prompt.
        parse: Response text to action.
        seed: Determines every draw.

    Returns:
        ``len(tasks) * group_size`` episodes.

    Raises:
        RolloutError: If more than a fifth of the environments raise in making, reset or step; from
            the first one's error.
        ValueError: If there is no task, a number is below 1, or a sampler returns a response
            without tokens.
    """
    if not tasks or min(group_size, max_turns, max_new_tokens) < 1:
        raise ValueError(
            "there must be a task, and group_size, max_turns and max_new_tokens must be at least "
            f"1, got {len(tasks)} tasks, {group_size=}, {max_turns=}, {max_new_tokens=}"
        )
    groups = [(number, task) for number, task in enumerate(tasks) for _ in range(group_size)]
    episodes = [_Episode(*group, _generator(seed, index)) for index, group in enumerate(groups)]
    try:
        for episode in episodes:
            episode.begin(env_factory)
        _check_errors(episodes)
        for _ in range(max_turns):
            live = [episode for episode in episodes if episode.live]
            if not live:
                break
            prompts = [render(episode.history) for episode in live]
            generators = [episode.generator for episode in live]
            samples = sampler.sample(prompts, max_new_tokens=max_new_tokens, generators=generators)
            for episode, prompt, sample in zip(live, prompts, samples, strict=True):
                episode.act(prompt, sample, parse)
            _check_errors(episodes)
    finally:
        for episode in episodes:
            episode.close()
    return [episode.trajectory() for episode in episodes]


def _generator(seed: int, index: int) -> torch.Generator:
    """Return the random numbers of one episode, independent of every other one's."""
    mixed = np.random.SeedSequence((seed, index)).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(mixed[0]))


@dataclass
class _Episode:
    """An episode while it is played."""

    number: int
    task: EnvTask
    generator: torch.Generator
    env: TextEnv | None = None
    history: History = field(default_factory=lambda: History([]))
    steps: list[Step] = field(default_factory=list)
    done: bool = False
    failed: bool = False
    error: Exception | None = None

    @property
    def live(self) -> bool:
        return not self.done and not self.failed

    def begin(self, env_factory: EnvFactory) -> None:
        try:
            self.env = env_factory(self.task)
            self.history.observations.append(self.env.reset(self.task.seed))
        except Exception as error:
            self._fail(error)

    def act(self, prompt: list[int], sample: Sample, parse: Parse) -> None:
        if not sample.ids:
            raise ValueError("a sampler must return at least one token a response, got none")
        trouble = {}
        try:
            action = parse(sample.text)
        except ValueError as error:
            action, trouble["parse_error"] = "", str(error)
        reward, info = self._step(action)
        self.history.responses.append(sample.ids)
        self.history.actions.append(action)
        self.steps.append(
            Step(
                prompt_ids=prompt,
                response_ids=sample.ids,
                logps=sample.logps,
                entropies=sample.entropies,
                action=action,
                reward=reward,
                info={**info, **trouble},
            )
        )
        if not self.live:
            self.close()

    def _step(self, action: str) -> tuple[float, dict[str, Any]]:
        assert self.env is not None
        try:
            observation, reward, self.done, info = self.env.step(action)
            if not math.isfinite(reward):
                raise ValueError(f"the environment's reward is {reward}")
        except Exception as error:
            self._fail(error)
            return 0.0, {"error": repr(error)}
        self.history.observations.append(observation)
        return float(reward), info

    def close(self) -> None:
        env, self.env = self.env, None
        try:
            if env is not None:
                env.close()
        except Exception as error:  # what was played stands
            self.error = self.error or error

    def _fail(self, error: Exception) -> None:
        self.failed, self.error = True, error

    def trajectory(self) -> Trajectory:
        last = self.steps[-1].info if self.steps else {}
        return Trajectory(
            task_id=self.number,
            group_id=self.number,
            steps=self.steps,
            total_reward=sum(step.reward for step in self.steps),
            done=self.done,
            truncated=self.live or bool(last.get("truncated")),
            success=bool(last.get("success")),
            error=None if self.error is None else repr(self.error),
            observations=tuple(self.history.observations),
        )


def _check_errors(episodes: Sequence[_Episode]) -> None:
    failed = [episode for episode in episodes if episode.failed]
    if len(failed) > MAX_ERRORS * len(episodes):
        raise RolloutError(
            f"{len(failed)} of {len(episodes)} environments raised, more than {MAX_ERRORS:.0%}; "
            f"the first one, of {failed[0].task}: {failed[0].error!r}"
        ) from failed[0].error
