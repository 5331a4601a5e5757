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
