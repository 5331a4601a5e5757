"""Episodes as chains of steps: which step follows which."""

from __future__ import annotations

import torch
from torch import Tensor


def check_next(next_step: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Return ``next_step`` as int64 and each step's turn, counted from 0 in its episode.

    Args:
        next_step: ``(steps,)`` integers.
        steps: How many there are.

    Raises:
        TypeError: If it does not hold integers.
        ValueError: If the shape is wrong, an index is out of range, two steps have the same
            successor, or episodes run in a circle.
    """
    if next_step.is_floating_point() or next_step.dtype == torch.bool:
        raise TypeError(f"next_step must hold integers, got {next_step.dtype}")
    if next_step.shape != (steps,):
        raise ValueError(
            f"next_step must have one index for each of the {steps} steps, "
            f"got shape {tuple(next_step.shape)}"
        )
    next_step = next_step.long()
    here = torch.arange(steps, device=next_step.device)
    outside = (next_step < -1) | (next_step >= steps)
    _refuse(outside, next_step, f"next_step must be -1 or below {steps}")
    _refuse(next_step == here, next_step, "a step can't follow itself")
    follows = next_step >= 0
    followers = torch.zeros_like(here).index_add_(0, next_step[follows], follows[follows].long())
    twice = follows & (followers[next_step.clamp(min=0)] > 1)
    _refuse(twice, next_step, "two steps have the same successor")
    return next_step, _turns(next_step, here)


def _refuse(wrong: Tensor, next_step: Tensor, rule: str) -> None:
    if bool(wrong.any()):
        step = int(wrong.nonzero()[0])
        raise ValueError(f"{rule}, but next_step of step {step} is {int(next_step[step])}")


def _turns(next_step: Tensor, here: Tensor) -> Tensor:
    """Count the steps before each one, by jumps of doubling length along the chains."""
    follows = next_step >= 0
    back = torch.full_like(here, -1)
    back[next_step[follows]] = here[follows]
    turn = (back >= 0).long()
    while bool((back >= 0).any()):
        known = back.clamp(min=0)
        turn = turn + torch.where(back >= 0, turn[known], 0)
        back = torch.where(back >= 0, back[known], -1)
        # After k jumps a turn is at most 2^k; in a circle it grows without end.
        _refuse(turn >= len(here), next_step, "episodes must end, not run in a circle")
    return turn


def next_steps(episode: Tensor, turn: Tensor) -> Tensor:
    """Find each step's next one in a batch with a row a step, in any order.

    Args:
        episode: ``(N,)`` integers: steps of an episode share a number.
        turn: ``(N,)`` integers that increase with time within an episode.

    Returns:
        ``(N,)`` int64: row of the episode's following step, -1 at its end.

    Raises:
        ValueError: If the shapes are not ``(N,)`` both, or an episode has two steps of one turn.

    Example:
        >>> next_steps(torch.tensor([7, 4, 7, 7]), torch.tensor([2, 0, 0, 1])).tolist()
        [-1, -1, 3, 0]
    """
    if episode.ndim != 1 or episode.shape != turn.shape:
        raise ValueError(
            "episode and turn must be 1-D and of one length, "
            f"got shapes {tuple(episode.shape)} and {tuple(turn.shape)}"
        )
    order = turn.argsort(stable=True)
    order = order[episode[order].argsort(stable=True)]
    before, after = order[:-1], order[1:]
    follows = episode[before] == episode[after]
    twice = follows & (turn[before] == turn[after])
    if bool(twice.any()):
        first = int(twice.nonzero()[0])
        raise ValueError(
            f"rows {int(before[first])} and {int(after[first])} are both turn "
            f"{int(turn[before[first]])} of one episode"
        )
    following = torch.full_like(order, -1)
    following[before[follows]] = after[follows]
    return following
