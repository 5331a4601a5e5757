"""Let a policy act in many text environments at once.

`collect` plays every episode side by side: one batched forward pass a turn, finished episodes
dropped. What an episode draws depends on the seed and on its own index alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

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
    ``info["error"]``. A response that can't be parsed is sent as the empty action, which an
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
        RolloutError: If more than a fifth of the environments raise; from the first one's error.
        ValueError: If there is no task, a number is below 1, or a sampler returns a response
            without tokens.
    """
    raise NotImplementedError
