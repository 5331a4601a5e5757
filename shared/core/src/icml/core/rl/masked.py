"""Sums, means and variances over the trained tokens of a padded batch.

A mask is a boolean or 0/1 tensor of the shape of the values, 1 where a token counts. What stands
outside it never reaches a result or a gradient, NaN and infinity included. Half-precision and
integer values are reduced, and returned, in float32.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

Dim = int | tuple[int, ...] | None


def as_bool_mask(mask: Tensor, like: Tensor | None = None) -> Tensor:
    """Check a mask at the public border and return it as booleans.

    Args:
        mask: Booleans, or numbers that are all 0 or 1.
        like: Values whose shape the mask must have.

    Returns:
        The mask with dtype bool.

    Raises:
        ValueError: If the mask holds another number than 0 and 1 or has another shape.
    """
    if like is not None and mask.shape != like.shape:
        raise ValueError(
            f"mask must have the shape of the values {tuple(like.shape)}, got {tuple(mask.shape)}"
        )
    if mask.dtype == torch.bool:
        return mask
    if not bool(((mask == 0) | (mask == 1)).all()):
        raise ValueError("mask must hold only 0 and 1; multiply the values to weight them")
    return mask.bool()


def at_least_float32(x: Tensor) -> Tensor:
    """Return ``x`` in float32, or unchanged if it is float32 or float64 already."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def _all_dims(x: Tensor, dim: Dim) -> tuple[int, ...]:
    if dim is None:
        return tuple(range(x.ndim))
    return (dim,) if isinstance(dim, int) else dim


def masked_sum(x: Tensor, mask: Tensor, dim: Dim = None, *, keepdim: bool = False) -> Tensor:
    """Sum of the entries under the mask.

    Args:
        x: Values of any shape.
        mask: Booleans or 0/1, shape of ``x``.
        dim: Dimensions to reduce; all of them if None.
        keepdim: Keep the reduced dimensions with size 1.

    Returns:
        The sum, 0 where the mask is empty.

    Raises:
        ValueError: If the mask is not a 0/1 tensor of the shape of ``x``.

    Example:
        >>> masked_sum(torch.tensor([1.0, 2.0, float("nan")]), torch.tensor([1, 1, 0]))
        tensor(3.)
    """
    kept = torch.where(as_bool_mask(mask, x), at_least_float32(x), 0.0)
    return kept.sum(_all_dims(x, dim), keepdim=keepdim)


def masked_mean(x: Tensor, mask: Tensor, dim: Dim = None, *, keepdim: bool = False) -> Tensor:
    """Mean of the entries under the mask.

    Args:
        x: Values of any shape.
        mask: Booleans or 0/1, shape of ``x``.
        dim: Dimensions to reduce; all of them if None.
        keepdim: Keep the reduced dimensions with size 1.

    Returns:
        The mean, 0 (not NaN) where the mask is empty.

    Raises:
        ValueError: If the mask is not a 0/1 tensor of the shape of ``x``.
    """
    mask = as_bool_mask(mask, x)
    count = mask.sum(_all_dims(x, dim), keepdim=keepdim)
    return masked_sum(x, mask, dim, keepdim=keepdim) / count.clamp(min=1)


def _centred(x: Tensor, mask: Tensor, dim: Dim) -> Tensor:
    """Values minus their masked mean, 0 outside the mask; exactly 0 where all are equal.

    The mean of n equal float32 numbers may be off by a rounding, so the minimum, a constant to
    autograd, is taken off first.
    """
    dims = _all_dims(x, dim)
    if not x.numel() or not dims:
        return torch.zeros_like(x)
    lowest = x.detach().masked_fill(~mask, torch.inf).amin(dims, keepdim=True)
    above = torch.where(mask, x - lowest, 0.0)
    return torch.where(mask, above - masked_mean(above, mask, dim, keepdim=True), 0.0)


def masked_var(x: Tensor, mask: Tensor, dim: Dim = None, *, unbiased: bool = True) -> Tensor:
    """Variance of the entries under the mask, in two passes.

    Args:
        x: Values of any shape.
        mask: Booleans or 0/1, shape of ``x``.
        dim: Dimensions to reduce; all of them if None.
        unbiased: Divide by (count - 1) in place of count.

    Returns:
        The variance, 0 where fewer than two entries (one if biased) are under the mask.

    Raises:
        ValueError: If the mask is not a 0/1 tensor of the shape of ``x``.
    """
    mask = as_bool_mask(mask, x)
    centred = _centred(at_least_float32(x), mask, dim)
    count = mask.sum(_all_dims(x, dim)) - int(unbiased)
    return masked_sum(centred.square(), mask, dim) / count.clamp(min=1)


def masked_whiten(x: Tensor, mask: Tensor, *, shift_mean: bool = True, eps: float = 1e-8) -> Tensor:
    """Scale the entries under the mask to unit variance: ``(x - mean) / sqrt(var + eps)``.

    verl's convention: mean and unbiased variance run over all masked entries together, so long
    rows weigh more.

    Args:
        x: Values of any shape.
        mask: Booleans or 0/1, shape of ``x``.
        shift_mean: Subtract the mean; otherwise it is left in, and only the scale changes:
            ``(x - mean) / sqrt(var + eps) + mean``.
        eps: Added to the variance, >= 0.

    Returns:
        Whitened values, shape of ``x``; 0 outside the mask.

    Raises:
        ValueError: If the mask is not a 0/1 tensor of the shape of ``x``, or ``eps`` < 0.
    """
    if eps < 0:
        raise ValueError(f"eps must be >= 0, got {eps}")
    mask = as_bool_mask(mask, x)
    scale = masked_var(x, mask) + eps
    # With eps = 0 and constant values the centred entries are 0, and so is the result.
    white = _centred(at_least_float32(x), mask, None) * torch.where(scale > 0, scale, 1.0).rsqrt()
    return torch.where(mask, white if shift_mean else white + masked_mean(x, mask), 0.0)


def broadcast_to_tokens(advantages: Tensor, mask: Tensor) -> Tensor:
    """Give every trained token the value of its sample.

    Args:
        advantages: One value a sample, ``(samples,)``.
        mask: Trained tokens, booleans or 0/1, ``(samples, tokens)``.

    Returns:
        ``(samples, tokens)``, 0 outside the mask, in the dtype of ``advantages``.

    Raises:
        ValueError: If the shapes do not fit or the mask is not 0/1.

    Example:
        >>> broadcast_to_tokens(torch.tensor([2.0, 3.0]), torch.tensor([[1, 0], [1, 1]]))
        tensor([[2., 0.],
                [3., 3.]])
    """
    if advantages.ndim != 1 or mask.ndim != 2 or len(advantages) != len(mask):
        raise ValueError(
            "advantages must be (samples,) and mask (samples, tokens), "
            f"got {tuple(advantages.shape)} and {tuple(mask.shape)}"
        )
    return torch.where(as_bool_mask(mask), advantages[:, None], 0.0)


def segments_from_mask(mask: Tensor) -> list[list[tuple[int, int]]]:
    """Find the runs of trained tokens of each sample: in a multi-turn episode, the agent's turns.

    Args:
        mask: Booleans or 0/1, ``(samples, tokens)``.

    Returns:
        For each sample its half-open runs ``(start, end)`` in order; an empty list where nothing
        is trained.

    Raises:
        ValueError: If the mask is not a 2-D 0/1 tensor.

    Example:
        >>> segments_from_mask(torch.tensor([[0, 1, 1, 0, 1], [0, 0, 0, 0, 0]]))
        [[(1, 3), (4, 5)], []]
    """
    if mask.ndim != 2:
        raise ValueError(f"mask must be 2-D (samples, tokens), got {tuple(mask.shape)}")
    padded = torch.nn.functional.pad(as_bool_mask(mask).int(), (1, 1))
    edges: list[list[int]] = [[] for _ in range(len(mask))]
    for row, column in padded.diff(dim=1).nonzero().tolist():
        edges[row].append(column)
    return [list(pairwise(columns))[::2] for columns in edges]
