"""Episodes of several turns, and the two layouts in which they are trained.

*Step-wise*: every turn is a row of its own, its prompt and its response. *Concatenated*: an episode
is one row, and a mask tells the policy's tokens from the environment's (the layout of TRL and
verl). Both hold the same turns in the same order: `StepBatch` row i is `SequenceBatch` segment i.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from icml.core.rl.batch import Rows
from icml.core.rl.masked import masked_mean
from icml.core.rl.sampling import pad_right

__all__ = ["SequenceBatch", "Step", "StepBatch", "Trajectory", "to_sequence_batch", "to_step_batch"]


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
    """What the environment raised, which ended the episode."""


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
    traj_group = torch.tensor([trajectory.group_id for trajectory in trajectories])
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
        group=traj_group[traj],
        turn=turn,
        next=torch.where(last, -1, torch.arange(1, len(steps) + 1)),
        step_entropy=masked_mean(entropy, mask, dim=1),
        step_reward=torch.tensor([step.reward for step in steps], dtype=torch.float32),
        returns=torch.tensor([t.total_reward for t in trajectories], dtype=torch.float32),
        traj_group=traj_group,
        trajectories=tuple(trajectories),
    )


def to_sequence_batch(trajectories: Sequence[Trajectory]) -> SequenceBatch:
    """Lay episodes out as one sequence each.

    Raises:
        ValueError: If no episode has a turn, or a prompt doesn't begin with the turn before it
            (its prompt and response): what the policy saw is then no single sequence.
    """
    joined = [(number, concatenate(t)) for number, t in enumerate(trajectories) if t.steps]
    if not joined:
        raise ValueError(f"none of the {len(trajectories)} episodes has a step")
    raise NotImplementedError


def _pad_floats(values: Sequence[Tensor], mask: Tensor) -> Tensor:
    """Put each row's values where its mask is True, 0 elsewhere."""
    padded = torch.zeros(mask.shape)
    padded[mask] = torch.cat([row.float().cpu() for row in values])
    return padded
