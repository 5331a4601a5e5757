"""Statistics of each sample's group, and the advantages made from them.

A group is the completions of one prompt. Group ids are any integers in any order: groups may
differ in size and need not be contiguous. A NaN is a missing value.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from icml.core.rl.masked import at_least_float32, masked_var


class GroupStats(NamedTuple):
    """What each sample's group looks like; every field has the shape of the values.

    Attributes:
        mean: Mean of the group's present values, NaN where there are none.
        std: Unbiased standard deviation, exactly 0 for equal values and where ``count`` <= 1.
        count: Number of the group's present values (int64).
        deviation: Value minus group mean, without the rounding of the mean: exactly 0 in a
            constant group and accurate under large offsets. NaN where the value is missing.
    """

    mean: Tensor
    std: Tensor
    count: Tensor
    deviation: Tensor


def group_ids_from_size(n: int, group_size: int) -> Tensor:
    """Group ids of ``n`` samples that lie in runs of ``group_size``.

    Args:
        n: Number of samples, >= 0.
        group_size: Samples in a group, >= 1.

    Returns:
        ``[0] * group_size + [1] * group_size + ...``, int64, ``(n,)``.

    Raises:
        ValueError: If ``group_size`` < 1 or ``n`` is not a multiple of it.

    Example:
        >>> group_ids_from_size(4, 2)
        tensor([0, 0, 1, 1])
    """
    if group_size < 1 or n < 0 or n % group_size:
        raise ValueError(f"cannot cut {n} samples into groups of {group_size}")
    return torch.arange(n) // group_size


def _check(x: Tensor, groups: Tensor | int) -> None:
    if x.ndim not in (1, 2):
        raise ValueError(f"values must be (samples,) or (samples, rewards), got {tuple(x.shape)}")
    if isinstance(groups, int):
        if groups < 1 or len(x) % groups:
            raise ValueError(f"cannot cut {len(x)} samples into groups of {groups}")
        return
    if groups.shape != x.shape[:1]:
        raise ValueError(f"groups must hold one id a sample ({len(x)},), got {tuple(groups.shape)}")
    if groups.is_floating_point() or groups.is_complex() or groups.dtype == torch.bool:
        raise ValueError(f"groups must be integers, got {groups.dtype}")


class _Runs:
    """Groups of one size that lie next to each other: views, no index."""

    def __init__(self, group_size: int) -> None:
        self._size = group_size

    def lowest(self, x: Tensor) -> Tensor:
        return self._view(x).amin(1)

    def total(self, x: Tensor) -> Tensor:
        return self._view(x).sum(1)

    def spread(self, per_group: Tensor) -> Tensor:
        tail = per_group.shape[1:]
        # repeat_interleave does the same at several times the cost.
        return per_group.unsqueeze(1).expand(-1, self._size, *tail).reshape(-1, *tail)

    def _view(self, x: Tensor) -> Tensor:
        return x.reshape(len(x) // self._size, self._size, *x.shape[1:])


class _Ids:
    """Groups of any sizes in any order."""

    def __init__(self, groups: Tensor) -> None:
        ids, self._index = torch.unique(groups, return_inverse=True)
        self._count = len(ids)

    def lowest(self, x: Tensor) -> Tensor:
        index = self._index.view(-1, *[1] * (x.ndim - 1)).expand_as(x)
        start = x.new_full((self._count, *x.shape[1:]), torch.inf)
        return start.scatter_reduce(0, index, x, "amin")

    def total(self, x: Tensor) -> Tensor:
        return x.new_zeros((self._count, *x.shape[1:])).index_add(0, self._index, x)

    def spread(self, per_group: Tensor) -> Tensor:
        return per_group[self._index]


def _layout(groups: Tensor | int) -> _Runs | _Ids:
    return _Runs(groups) if isinstance(groups, int) else _Ids(groups)


def _missing(x: Tensor) -> Tensor | None:
    """Where ``x`` is NaN; None if nowhere: most batches miss nothing, and half the work is saved.

    A sum is NaN if one of its terms is (or if infinities cancel, which costs only time).
    """
    return x.isnan() if bool(x.detach().sum().isnan()) else None


def _fill(x: Tensor, missing: Tensor | None, value: float) -> Tensor:
    return x if missing is None else torch.where(missing, value, x)


def _lowest(x: Tensor, missing: Tensor | None, layout: _Runs | _Ids) -> Tensor:
    """Each group's minimum over the present values (0 where there are none)."""
    lowest = layout.lowest(_fill(x, missing, torch.inf))
    return lowest if missing is None else lowest.masked_fill(lowest == torch.inf, 0.0)


def _count(x: Tensor, missing: Tensor | None, layout: _Runs | _Ids) -> Tensor:
    """Each group's number of present values, of a shape that broadcasts with its statistics."""
    if missing is not None:
        return layout.total((~missing).long())
    sizes = layout.total(torch.ones(len(x), dtype=torch.int64, device=x.device))
    return sizes.view(-1, *[1] * (x.ndim - 1))


def group_stats(x: Tensor, groups: Tensor | int) -> GroupStats:
    """Mean, unbiased standard deviation and count of each sample's group.

    Values are taken relative to their group's minimum before they are summed, and the variance in
    a second pass, so that a constant group has exactly the standard deviation 0, also in float32
    and at values such as 0.1 or 1e6.

    Args:
        x: Finite values, ``(samples,)`` or ``(samples, rewards)``; NaN is missing.
        groups: Integer group ids, ``(samples,)``; or the size of groups that lie in runs of that
            many samples, which is several times faster than their ids.

    Returns:
        Statistics per *sample* (already scattered back), each of the shape of ``x``.

    Raises:
        ValueError: If the shapes do not fit or the ids are not integers.

    Example:
        >>> group_stats(torch.tensor([1.0, 5.0, 3.0]), torch.tensor([7, -1, 7])).mean
        tensor([2., 5., 2.])
    """
    _check(x, groups)
    x = at_least_float32(x)
    layout = _layout(groups)
    missing = _missing(x)
    # The reference is a constant to autograd: no statistic below depends on which one is chosen.
    reference = _lowest(x.detach(), missing, layout)
    above = _fill(x - layout.spread(reference), missing, 0.0)
    count = _count(x, missing, layout)
    mean_above = layout.total(above) / count.clamp(min=1)
    deviation = _fill(above - layout.spread(mean_above), missing, 0.0)
    variance = layout.total(deviation.square()) / (count - 1).clamp(min=1)
    # sqrt has an infinite slope at 0, which would turn the gradient into NaN.
    differs = variance > 0
    std = torch.where(differs, torch.where(differs, variance, 1.0).sqrt(), 0.0)
    mean = reference + mean_above
    if missing is not None:
        mean = torch.where(count > 0, mean, torch.nan)
    return GroupStats(
        layout.spread(mean),
        layout.spread(std),
        layout.spread(count).expand_as(x),
        _fill(deviation, missing, torch.nan),
    )


def group_advantage(
    rewards: Tensor,
    groups: Tensor | int,
    *,
    scale: Literal["group", "batch", "none"] = "group",
    leave_one_out: bool = False,
    eps: float = 1e-4,
    singleton: Literal["zero", "raw"] = "zero",
) -> Tensor:
    """Advantage of a completion over its group (GRPO): ``(reward - mean) / (std + eps)``.

    Args:
        rewards: One reward a sample, ``(samples,)``; NaN is missing.
        groups: Integer group ids, ``(samples,)``, or the size of groups in runs.
        scale: Whose unbiased standard deviation divides: the group's (GRPO), that of all rewards
            of the batch, or nothing's (Dr. GRPO).
        leave_one_out: The mean is that of the *other* members (RLOO); the scale stays as it is.
        eps: Added to the standard deviation, >= 0. TRL: 1e-4, verl: 1e-6.
        singleton: What a sample alone in its group gets: 0, or its reward with the mean taken as
            0 and the group's standard deviation as 1 (verl).

    Returns:
        Advantages, ``(samples,)``; 0 for a missing reward and in a group of equal rewards.

    Raises:
        ValueError: If a shape does not fit, a reward is infinite, ``eps`` < 0 or a choice is
            unknown.

    Example:
        >>> group_advantage(torch.tensor([0.0, 1.0]), torch.tensor([0, 0]), scale="none")
        tensor([-0.5000,  0.5000])
    """
    if scale not in ("group", "batch", "none"):
        raise ValueError(f"scale must be 'group', 'batch' or 'none', got {scale!r}")
    if singleton not in ("zero", "raw"):
        raise ValueError(f"singleton must be 'zero' or 'raw', got {singleton!r}")
    if eps < 0:
        raise ValueError(f"eps must be >= 0, got {eps}")
    if rewards.ndim != 1:
        raise ValueError(f"rewards must be 1-D (samples,), got {tuple(rewards.shape)}")
    if bool(rewards.isinf().any()):
        raise ValueError("rewards must be finite, or NaN where missing; got an infinite one")
    stats = group_stats(rewards, groups)
    alone = stats.count == 1
    centred, std = stats.deviation, stats.std
    if leave_one_out:
        # reward - mean of the others = (reward - mean) * n / (n - 1)
        centred = centred * stats.count / (stats.count - 1).clamp(min=1)
    if singleton == "raw":
        centred = torch.where(alone, at_least_float32(rewards), centred)
        std = torch.where(alone, 1.0, std)
    if scale == "batch":
        std = masked_var(rewards, ~rewards.isnan()).sqrt().expand_as(std)
    advantages = centred if scale == "none" else _divide(centred, std + eps)
    return torch.where(rewards.isnan(), 0.0, advantages)


def _divide(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Quotient, 0 where the denominator is 0: there the numerator is 0 as well."""
    positive = denominator > 0
    return torch.where(positive, numerator / torch.where(positive, denominator, 1.0), 0.0)


def informative_groups(rewards: Tensor, groups: Tensor | int) -> Tensor:
    """Tell which samples stand in a group that carries any learning signal (dynamic sampling).

    A group does if at least one reward takes two different values in it. Each reward is judged on
    its own: a group with rewards (1, 0) and (0, 1) has a constant sum, and still a signal for
    every method that does not merely add rewards up.

    Args:
        rewards: ``(samples, rewards)`` or ``(samples,)``; NaN is missing and not a value.
        groups: Integer group ids, ``(samples,)``, or the size of groups in runs.

    Returns:
        Booleans per sample, ``(samples,)``, equal within a group.

    Raises:
        ValueError: If the shapes do not fit or the ids are not integers.

    Example:
        >>> rewards = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
        >>> informative_groups(rewards, torch.tensor([0, 0, 1, 1]))
        tensor([ True,  True, False, False])
    """
    _check(rewards, groups)
    table = at_least_float32(rewards if rewards.ndim == 2 else rewards[:, None])
    layout = _layout(groups)
    missing = _missing(table)
    differs = table != layout.spread(_lowest(table, missing, layout))
    if missing is not None:
        differs &= ~missing
    return layout.spread(layout.total(differs.long())).sum(1) > 0
