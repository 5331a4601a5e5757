"""Agent steps as runs of tokens: found in masks, averaged over and written back to.

A step is one turn of the agent: the tokens that it wrote between two observations. Nothing here
loops over tokens in Python.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from icml.core.rl.masked import as_bool_mask, at_least_float32

LOWEST_ENTROPY = -1e-4
"""Rounding may make an entropy negative by this much, in nats (ours); more is an error."""


@dataclass(frozen=True)
class Segments:
    """Where the N steps of a padded batch of episodes are; every step has at least one token.

    Within a row, steps stand in the order of time.
    """

    row: Tensor
    """``(N,)`` int64: the episode's row."""
    start: Tensor
    """``(N,)`` int64: column of the first token."""
    end: Tensor
    """``(N,)`` int64: column after the last token."""
    next: Tensor
    """``(N,)`` int64: index of the following step of the same episode, -1 at its end."""

    def __len__(self) -> int:
        """Return N."""
        return len(self.row)

    def tokens(self, columns: int) -> tuple[Tensor, Tensor]:
        """Return for every token of a step its place in the flattened batch, and its step.

        Args:
            columns: Width of the batch.

        Returns:
            Two ``(tokens,)`` int64 tensors.
        """
        lengths = self.end - self.start
        steps = torch.repeat_interleave(lengths)
        before = lengths.cumsum(0) - lengths
        offset = self.row * columns + self.start - before
        place = torch.arange(len(steps), device=self.row.device)
        return place.add_(offset.index_select(0, steps)), steps


def steps_from_mask(mask: Tensor) -> Segments:
    """Take every run of 1s for a step: in a concatenated multi-turn episode, the agent's turns.

    Args:
        mask: ``(episodes, tokens)``, booleans or 0/1; 1 where the policy wrote the token. In TRL
            ``completion_mask * tool_mask``.

    Returns:
        The steps, row by row. Rows without a 1, such as padding rows, have none.

    Raises:
        ValueError: If the mask is not 2-D or holds other numbers than 0 and 1.

    Example:
        >>> steps = steps_from_mask(torch.tensor([[0, 1, 1, 0, 1], [1, 0, 0, 0, 0]]))
        >>> steps.row.tolist(), steps.start.tolist(), steps.end.tolist(), steps.next.tolist()
        ([0, 0, 1], [1, 4, 0], [3, 5, 1], [1, -1, -1])
    """
    if mask.ndim != 2:
        raise ValueError(f"mask must be 2-D (episodes, tokens), got shape {tuple(mask.shape)}")
    padded = torch.nn.functional.pad(as_bool_mask(mask), (1, 1))
    edges = (padded[:, 1:] != padded[:, :-1]).nonzero()
    return _chained(edges[::2, 0], edges[::2, 1], edges[1::2, 1])


def steps_from_segments(segments: Tensor) -> Segments:
    """Take steps that are known, e.g. turns that follow each other without an observation.

    Args:
        segments: ``(N, 3)`` integers: row, first column and column after the last one of each
            step, row by row and in the order of time, as ``icml.core.rl.rollout.SequenceBatch``
            has them. A step without tokens is skipped.

    Returns:
        The steps that have tokens.

    Raises:
        TypeError: If ``segments`` does not hold integers.
        ValueError: If its shape is wrong, or steps are out of order or overlap.

    Example:
        >>> steps_from_segments(torch.tensor([[0, 0, 2], [0, 2, 2], [0, 2, 4]])).next.tolist()
        [1, -1]
    """
    if segments.is_floating_point() or segments.dtype == torch.bool:
        raise TypeError(f"segments must hold integers, got {segments.dtype}")
    if segments.ndim != 2 or segments.shape[1] != 3:
        raise ValueError(
            f"segments must be (steps, 3): row, start, end; got shape {tuple(segments.shape)}"
        )
    row, start, end = segments.long().unbind(dim=1)
    wrong = (row < 0) | (start < 0) | (end < start)
    wrong[1:] |= (row[1:] < row[:-1]) | ((row[1:] == row[:-1]) & (start[1:] < end[:-1]))
    if bool(wrong.any()):
        step = int(wrong.nonzero()[0])
        raise ValueError(
            f"segments must be row by row, in order and apart, got {segments[step].tolist()} "
            f"(row, start, end) for step {step}"
        )
    kept = end > start
    return _chained(row[kept], start[kept], end[kept])


def step_entropies(entropies: Tensor, segments: Segments) -> Tensor:
    """Return the mean token entropy of each step, ``H_t``.

    Args:
        entropies: ``(episodes, tokens)`` in nats, under the policy that wrote the tokens. Values
            outside the steps are not read.
        segments: The N steps.

    Returns:
        ``(N,)`` in nats, >= 0, float32 or the float64 of ``entropies``; without gradient.

    Raises:
        ValueError: If ``entropies`` is not 2-D or too small for the steps, or if a token's entropy
            is NaN, infinite or negative beyond rounding; names the first such step.

    Example:
        >>> mask = torch.tensor([[1, 1, 0, 1]])
        >>> step_entropies(torch.tensor([[0.5, 1.0, 9.0, 0.25]]), steps_from_mask(mask))
        tensor([0.7500, 0.2500])
    """
    if entropies.ndim != 2:
        raise ValueError(
            f"entropies must be 2-D (episodes, tokens), got shape {tuple(entropies.shape)}"
        )
    _check_fits(segments, tuple(entropies.shape))
    place, steps = segments.tokens(entropies.shape[1])
    values = at_least_float32(entropies.detach().reshape(-1).index_select(0, place))
    _check_entropies(values, steps, segments)
    total = values.new_zeros(len(segments)).index_add_(0, steps, values.clamp(min=0))
    return total / (segments.end - segments.start)


def scatter_to_tokens(
    step_values: Tensor, segments: Segments, shape: tuple[int, int], mask: Tensor
) -> Tensor:
    """Give every token of a step the step's value.

    Args:
        step_values: ``(N,)``, one a step.
        segments: The N steps.
        shape: ``(episodes, tokens)`` of the result.
        mask: ``(episodes, tokens)``, booleans or 0/1.

    Returns:
        ``(episodes, tokens)`` in the dtype of ``step_values``; exactly 0 outside the mask and
        outside the steps.

    Raises:
        ValueError: If a shape does not fit.

    Example:
        >>> mask = torch.tensor([[1, 1, 0, 1]])
        >>> scatter_to_tokens(torch.tensor([2.0, 3.0]), steps_from_mask(mask), (1, 4), mask)
        tensor([[2., 2., 0., 3.]])
    """
    if step_values.shape != (len(segments),):
        raise ValueError(
            f"step_values must have one value for each of the {len(segments)} steps, "
            f"got shape {tuple(step_values.shape)}"
        )
    if tuple(mask.shape) != tuple(shape):
        raise ValueError(f"mask must have the shape {tuple(shape)}, got {tuple(mask.shape)}")
    _check_fits(segments, shape)
    place, steps = segments.tokens(shape[1])
    result = step_values.new_zeros(shape[0] * shape[1])
    result[place] = step_values.index_select(0, steps)
    return result.view(shape).masked_fill_(~as_bool_mask(mask), 0.0)


def check_inside(segments: Segments, mask: Tensor) -> None:
    """Refuse steps that reach over tokens outside a ``(episodes, tokens)`` mask of booleans."""
    _check_fits(segments, tuple(mask.shape))
    place, steps = segments.tokens(mask.shape[1])
    outside = ~mask.reshape(-1)[place]
    if bool(outside.any()):
        first = int(steps[outside][0])
        raise ValueError(
            f"{describe(segments, first)} holds tokens outside the mask: a step has only tokens "
            "that the policy wrote and that are trained on"
        )


def describe(segments: Segments, step: int) -> str:
    """Say where a step is, for a message."""
    row, start, end = (int(part[step]) for part in (segments.row, segments.start, segments.end))
    return f"step {step} (row {row}, tokens {start} to {end - 1})"


def _chained(row: Tensor, start: Tensor, end: Tensor) -> Segments:
    """Link each step to the one after it in the same row."""
    following = torch.arange(1, len(row) + 1, device=row.device)
    ends_row = torch.ones_like(row, dtype=torch.bool)
    ends_row[:-1] = row[1:] != row[:-1]
    return Segments(row, start, end, following.masked_fill(ends_row, -1))


def _check_fits(segments: Segments, shape: tuple[int, ...]) -> None:
    if not len(segments):
        return
    rows, columns = int(segments.row.max()) + 1, int(segments.end.max())
    if rows > shape[0] or columns > shape[1]:
        raise ValueError(
            f"the steps reach row {rows - 1} and column {columns - 1}, but there are "
            f"{shape[0]} rows of {shape[1]} tokens: take steps and tensors from the same batch"
        )


def _check_entropies(values: Tensor, steps: Tensor, segments: Segments) -> None:
    """Refuse a token entropy that is none; ``values`` and ``steps`` are ``(tokens,)``."""
    if not len(values):
        return
    low, high = values.aminmax()
    if low >= LOWEST_ENTROPY and high < torch.inf:  # not so if a value is NaN
        return
    wrong = ~((values >= LOWEST_ENTROPY) & (values < torch.inf))
    raise ValueError(
        f"{describe(segments, int(steps[wrong][0]))} has a token of entropy "
        f"{values[wrong][0].item()}; entropies are finite and >= 0: look at the logits there"
    )
