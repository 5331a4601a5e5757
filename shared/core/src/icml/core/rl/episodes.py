"""Episodes of several turns, and the two layouts in which they are trained.

*Step-wise*: every turn is a row of its own, its prompt and its response. *Concatenated*: an episode
is one row, and a mask tells the policy's tokens from the environment's (the layout of TRL and
verl). Both hold the same turns in the same order: `StepBatch` row i is `SequenceBatch` segment i.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from icml.core.envs.protocol import Observation
from icml.core.rl.batch import Rows
from icml.core.rl.masked import masked_mean
from icml.core.rl.sampling import pad_right

__all__ = [
    "Joined",
    "SequenceBatch",
    "Step",
    "StepBatch",
    "Trajectory",
    "join",
    "to_sequence_batch",
    "to_step_batch",
]


@dataclass(frozen=True, eq=False)
class Step:
    """One turn of the policy, and what the environment answered."""

    prompt_ids: list[int]
    """Token ids that the policy saw."""
    response_ids: list[int]
    """Token ids that it drew, the end token among them; at least one."""
    logps: Tensor
    """``(response,)`` log-probability, in nats, of each drawn token."""
    entropies: Tensor
    """``(response,)`` entropy, in nats, of the distribution each token was drawn from."""
    action: str
    """What the environment was told; empty where the response could not be parsed."""
    reward: float
    info: Mapping[str, Any]
    """The environment's; ``parse_error`` or ``error`` (str) where parsing or the environment
    failed."""

    @property
    def step_entropy(self) -> float:
        """Mean entropy of the response's tokens, in nats."""
        return float(self.entropies.mean())


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One episode."""

    task_id: int
    """Index of its task."""
    group_id: int
    """Episodes with equal numbers had the same task, environment and seed."""
    steps: list[Step]
    total_reward: float
    """Sum of the steps' rewards."""
    done: bool
    """Whether the environment ended it."""
    truncated: bool
    """Whether a limit on the number of steps ended it, the environment's or the caller's."""
    success: bool
    """Whether the environment called it a success."""
    error: str | None = None
    """What the environment raised: in a step, which ended the episode, or when it was closed."""
    observations: tuple[Observation, ...] = ()
    """What the environment said: before each step, and after the last where it answered."""


@dataclass(frozen=True, eq=False)
class StepBatch(Rows):
    """Step-wise layout: N turns of M episodes, those of an episode contiguous and in order."""

    traj: Tensor
    """``(N,)`` int64: the turn's episode, 0 to M - 1."""
    group: Tensor
    """``(N,)`` int64: the group of the turn's episode."""
    turn: Tensor
    """``(N,)`` int64: index of the turn in its episode."""
    next: Tensor
    """``(N,)`` int64: row of the episode's following turn, -1 at its end."""
    step_entropy: Tensor
    """``(N,)`` mean entropy of the turn's tokens, in nats."""
    step_reward: Tensor
    """``(N,)`` float32: what the environment gave for the turn."""
    returns: Tensor
    """``(M,)`` float32: total reward of each episode."""
    traj_group: Tensor
    """``(M,)`` int64: group of each episode."""
    trajectories: tuple[Trajectory, ...]
    """The M episodes themselves."""

    def metrics(self) -> dict[str, float]:
        """Return what a training loop logs about these rows."""
        episodes = len(self.trajectories)
        return super().metrics() | {
            "train/return": self.returns.mean().item(),
            "train/success": sum(t.success for t in self.trajectories) / episodes,
            "train/turns": len(self.traj) / episodes,
            "train/errors": float(sum(t.error is not None for t in self.trajectories)),
        }

    def describe(self, row: int) -> str:
        """Say which row this is, for an error message."""
        episode, turn = int(self.traj[row]), int(self.turn[row])
        return f"row {row}, turn {turn} of episode {episode}, return {self.returns[episode]}"


@dataclass(frozen=True, eq=False)
class SequenceBatch(Rows):
    """Concatenated layout: one row an episode that has a turn.

    A row's prompt is the first turn's; its completion holds the responses and, between them,
    what the environment added to the prompt, which the mask leaves out.
    """

    traj: Tensor
    """``(rows,)`` int64: the row's episode, 0 to M - 1."""
    segments: Tensor
    """``(N, 3)`` int64: row, first and one past the last column of each turn's tokens."""
    returns: Tensor
    """``(M,)`` float32: total reward of each episode."""
    traj_group: Tensor
    """``(M,)`` int64: group of each episode."""


def to_step_batch(trajectories: Sequence[Trajectory]) -> StepBatch:
    """Lay episodes out step-wise.

    Raises:
        ValueError: If no episode has a turn.
    """
    steps = [step for trajectory in trajectories for step in trajectory.steps]
    if not steps:
        raise ValueError(f"none of the {len(trajectories)} episodes has a step")
    lengths = [len(trajectory.steps) for trajectory in trajectories]
    traj = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
    turn = torch.cat([torch.arange(length) for length in lengths])
    last = torch.cat([traj[1:] != traj[:-1], torch.tensor([True])])
    totals = _totals(trajectories)
    prompt_ids, prompt_lengths = pad_right([step.prompt_ids for step in steps])
    completion_ids, completion_lengths = pad_right([step.response_ids for step in steps])
    mask = torch.arange(completion_ids.shape[1]) < completion_lengths[:, None]
    entropy = _pad_floats([step.entropies for step in steps], mask)
    return StepBatch(
        prompt_ids=prompt_ids,
        prompt_lengths=prompt_lengths,
        completion_ids=completion_ids,
        mask=mask,
        old_logp=_pad_floats([step.logps for step in steps], mask),
        entropy=entropy,
        traj=traj,
        group=totals["traj_group"][traj],
        turn=turn,
        next=torch.where(last, -1, torch.arange(1, len(steps) + 1)),
        step_entropy=masked_mean(entropy, mask, dim=1),
        step_reward=torch.tensor([step.reward for step in steps], dtype=torch.float32),
        trajectories=tuple(trajectories),
        **totals,
    )


class Joined(NamedTuple):
    """An episode as one sequence."""

    prompt_ids: list[int]
    """The first turn's prompt."""
    completion_ids: list[int]
    """The responses and, between them, what the environment added."""
    segments: list[tuple[int, int]]
    """First and one past the last index, in the completion, of each turn's response."""

    def mask(self) -> list[int]:
        """Return 1 for each token of the completion that the policy drew, 0 for the others."""
        mask = [0] * len(self.completion_ids)
        for start, end in self.segments:
            mask[start:end] = [1] * (end - start)
        return mask


def join(steps: Sequence[Step]) -> Joined:
    """Join the turns of an episode, at least one, to the sequence that they are parts of.

    Raises:
        ValueError: If a prompt doesn't begin with the turn before it, prompt and response: what
            the policy saw is then no single sequence.
    """
    prompt_ids = steps[0].prompt_ids
    sequence, segments = prompt_ids, []
    for turn, step in enumerate(steps):
        if step.prompt_ids[: len(sequence)] != sequence:
            raise ValueError(
                f"the prompt of turn {turn} doesn't begin with turn {turn - 1}'s prompt and "
                "response: render the whole history, or train on the step-wise layout"
            )
        start = len(step.prompt_ids) - len(prompt_ids)
        segments.append((start, start + len(step.response_ids)))
        sequence = step.prompt_ids + step.response_ids
    return Joined(prompt_ids, sequence[len(prompt_ids) :], segments)


def to_sequence_batch(trajectories: Sequence[Trajectory]) -> SequenceBatch:
    """Lay episodes out as one sequence each.

    Raises:
        ValueError: If no episode has a turn, or one's turns are no single sequence (`join`).
    """
    traj = [number for number, trajectory in enumerate(trajectories) if trajectory.steps]
    if not traj:
        raise ValueError(f"none of the {len(trajectories)} episodes has a step")
    joined = [join(trajectories[number].steps) for number in traj]
    steps = [step for number in traj for step in trajectories[number].steps]
    segments = [(row, *ends) for row, episode in enumerate(joined) for ends in episode.segments]
    prompt_ids, prompt_lengths = pad_right([episode.prompt_ids for episode in joined])
    completion_ids, _ = pad_right([episode.completion_ids for episode in joined])
    mask = pad_right([episode.mask() for episode in joined])[0].bool()
    return SequenceBatch(
        prompt_ids=prompt_ids,
        prompt_lengths=prompt_lengths,
        completion_ids=completion_ids,
        mask=mask,
        old_logp=_pad_floats([step.logps for step in steps], mask),
        entropy=_pad_floats([step.entropies for step in steps], mask),
        traj=torch.tensor(traj),
        segments=torch.tensor(segments),
        **_totals(trajectories),
    )


def _totals(trajectories: Sequence[Trajectory]) -> dict[str, Tensor]:
    return {
        "returns": torch.tensor([t.total_reward for t in trajectories], dtype=torch.float32),
        "traj_group": torch.tensor([t.group_id for t in trajectories]),
    }


def _pad_floats(values: Sequence[Tensor], mask: Tensor) -> Tensor:
    """Put the values, row after row, where the mask is True; 0 elsewhere."""
    padded = torch.zeros(mask.shape)
    padded[mask] = torch.cat([row.float().cpu() for row in values])
    return padded
