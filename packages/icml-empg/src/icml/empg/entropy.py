"""Statistics of the steps' entropies over a whole batch, in one process or in many."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from icml.core.rl.masked import at_least_float32
from icml.empg.params import EMPGParams
from icml.empg.segments import LOWEST_ENTROPY

Reduce = Callable[[Tensor, Literal["max", "sum", "concat"]], Tensor]
"""Combines a 1-D tensor of every process: element by element with ``"max"`` and ``"sum"``, where
all have the same length, or end to end, in the order of the processes, with ``"concat"``, where
lengths differ. Every process gets the same result. Only ``entropy_clip_quantile`` asks for
``"concat"``."""


@dataclass(frozen=True)
class EntropyStats:
    """What the modulation needs to know of a batch's entropies; all of it over all processes."""

    min: float
    """Lowest step entropy, in nats; infinity if there is no step."""
    max: float
    """Highest step entropy, in nats, after clipping; minus infinity if there is no step."""
    mean_g: float
    """Mean of ``exp(-k Hn)`` over the steps: the denominator of Eq. 10, without eps."""
    mean_f: float
    """Mean of ``exp(-k' Hn)`` over the steps, the clarity of Eq. 11."""
    count: int
    """Number of steps."""

    def weight_range(self, params: EMPGParams) -> tuple[float, float]:
        """Return the smallest and the largest weight ``g`` of the batch (Eq. 10)."""
        widest = torch.tensor([self.max], dtype=torch.float64)
        lowest = math.exp(-params.k * float(self.normalize(widest, params.eps)))
        return lowest / (self.mean_g + params.eps), 1 / (self.mean_g + params.eps)

    def normalize(self, step_entropy: Tensor, eps: float) -> Tensor:
        """Scale entropies to [0, 1] (Eq. 12): ``(H - min) / (max - min + eps)``.

        Args:
            step_entropy: ``(N,)`` in nats; higher ones than ``max`` count as ``max``.
            eps: Added to the range.

        Returns:
            ``(N,)``; 0 where all entropies of the batch are equal.
        """
        if self.max <= self.min:
            return torch.zeros_like(step_entropy)
        return (step_entropy.clamp(max=self.max) - self.min) / (self.max - self.min + eps)


def entropy_stats(
    step_entropy: Tensor, params: EMPGParams | None = None, *, reduce: Reduce | None = None
) -> EntropyStats:
    """Compute the statistics behind Eqs. 10 to 12.

    Args:
        step_entropy: ``(N,)`` in nats, >= 0: the steps of this process.
        params: The paper's if None.
        reduce: Combines numbers of all processes; called twice, first for minimum and maximum,
            then for sums (and once before with ``entropy_clip_quantile``). None: one process.

    Returns:
        The statistics over all steps of all processes.

    Raises:
        ValueError: If ``step_entropy`` is not 1-D, or an entropy is NaN, infinite or negative
            beyond rounding; names the step.

    Example:
        >>> entropy_stats(torch.tensor([0.0, 1.0, 2.0, 0.5])).max
        2.0
    """
    params = params or EMPGParams()
    entropy = check_step_entropy(step_entropy)
    infinity = entropy.new_full((1,), torch.inf)
    extremes = torch.stack(
        [torch.cat([-entropy, -infinity]).max(), _highest(entropy, params, reduce)]
    )
    low, high = (reduce(extremes, "max") if reduce else extremes).tolist()
    bounds = EntropyStats(-low, high, 1.0, 1.0, 0)
    h_norm = bounds.normalize(entropy, params.eps)
    g, f = torch.exp(-params.k * h_norm), torch.exp(-params.k_future * h_norm)
    sums = torch.stack([torch.ones_like(g).sum(), g.sum(), f.sum()])
    count, g_sum, f_sum = (reduce(sums, "sum") if reduce else sums).tolist()
    steps = max(count, 1)
    return EntropyStats(-low, high, g_sum / steps, f_sum / steps, round(count))


def check_step_entropy(step_entropy: Tensor) -> Tensor:
    """Return entropies in the dtype of the computation, >= 0 and without gradient.

    Args:
        step_entropy: ``(N,)`` in nats.

    Raises:
        ValueError: If it is not 1-D, or holds what is no entropy.
    """
    if step_entropy.ndim != 1:
        raise ValueError(
            f"step_entropy must be 1-D (steps,), got shape {tuple(step_entropy.shape)}"
        )
    entropy = at_least_float32(step_entropy.detach())
    wrong = ~((entropy >= LOWEST_ENTROPY) & (entropy < torch.inf))
    if bool(wrong.any()):
        step = int(wrong.nonzero()[0])
        raise ValueError(
            f"step_entropy of step {step} is {entropy[step].item()}; an entropy is finite and >= 0"
        )
    return entropy.clamp(min=0)


def _highest(entropy: Tensor, params: EMPGParams, reduce: Reduce | None) -> Tensor:
    """Return the highest entropy here, or the batch's quantile at which entropies are cut."""
    if params.entropy_clip_quantile is not None:
        entropy = reduce(entropy, "concat") if reduce else entropy
        if len(entropy):
            return entropy.quantile(params.entropy_clip_quantile)
    return torch.cat([entropy, entropy.new_full((1,), -torch.inf)]).max()
