"""Who writes the next token: constant weights or a router, and the draw of a member."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from icml.core.errors import UserError

Router = Callable[[Tensor, str, int], Tensor]
"""``(ids, text, step) -> (members,)``: weights from the row so far (prompt and new tokens in the
first member's ids), its new text, and the number of new tokens. It must not look at what the
members would say next: that would take all their forward passes."""


Weights = Sequence[float] | Tensor | Router | None
"""One a member, a router, or None for equal ones."""


def split_weights(weights: Weights, members: int) -> tuple[Router | None, Tensor]:
    """Return the router, if there is one, and the constant weights that hold without it.

    Raises:
        UserError: As `normalise` does.
    """
    if callable(weights) and not isinstance(weights, Tensor | Sequence):
        return weights, normalise(None, members)
    constant: Any = weights
    return None, normalise(constant, members)


def normalise(weights: Sequence[float] | Tensor | None, members: int) -> Tensor:
    """Return one weight a member, in float64, with the sum 1.

    Args:
        weights: ``(members,)``, finite, >= 0, not all 0; None weighs all equally.
        members: How many there are.

    Raises:
        UserError: If there are more or fewer, or one is no weight.

    Example:
        >>> normalise([1, 3], 2).tolist()
        [0.25, 0.75]
    """
    if weights is None:
        return torch.full((members,), 1 / members, dtype=torch.float64)
    values = torch.as_tensor(weights, dtype=torch.float64).detach().cpu()
    if values.shape != (members,):
        raise UserError(f"weights must be one a member, {members}, got {tuple(values.shape)}")
    numbers = values.tolist()
    if not all(math.isfinite(number) and number >= 0 for number in numbers) or not any(numbers):
        raise UserError(f"weights must be finite, >= 0 and not all 0, got {numbers}")
    return values / values.sum()


def draw_members(weights: Tensor, uniforms: Tensor) -> Tensor:
    """Return the member that each row draws: z ~ Categorical(weights), by inversion.

    Rows with the same uniform and the same weights draw the same member. A member of weight 0 is
    never drawn.

    Args:
        weights: ``(batch, members)`` with the sum 1 in each row, float64.
        uniforms: ``(batch,)`` or ``(1,)`` in [0, 1), float64.

    Returns:
        ``(batch,)`` members, counted from 0.

    Example:
        >>> weights = torch.tensor([[0.25, 0.75]], dtype=torch.float64)
        >>> draw_members(weights, torch.tensor([0.25], dtype=torch.float64)).tolist()
        [1]
    """
    cumulative = weights.cumsum(1)
    cumulative = cumulative / cumulative[:, -1:]  # the last is exactly 1: no uniform reaches it
    points = uniforms.expand(len(weights)).unsqueeze(1).contiguous()
    return torch.searchsorted(cumulative, points, right=True).squeeze(1)
