"""What summing rewards before normalising them hides, measured on a batch of rewards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from icml.core.rl.functional import group_stats
from icml.gdpo.advantages import EPS, gdpo_advantages, grpo_parts
from icml.gdpo.inputs import check_eps, check_names, group_ids, prepare

TOLERANCE = 1e-3
"""Advantages closer than this count as equal (ours): ten times what eps=1e-4 can pull apart."""

LOW_STD = 1e-3
"""A reward whose group standard deviation is below this, in the reward's own unit, and not 0 is
amplified more than 900 times, 1 / (1e-3 + eps) (ours)."""

DOMINANT = 0.8
"""Fraction of all |advantage| above which one reward rules (ours)."""


@dataclass(frozen=True)
class Diagnosis:
    """GRPO and GDPO side by side on the same rewards; ``str()`` is a readable table.

    Fields with one entry a reward are in the order of ``rewards``.

    Attributes:
        rewards: Names.
        completions: Number of rows.
        groups: Number of groups.
        mean: Mean of each reward over the completions that have it.
        std: Unbiased standard deviation likewise.
        missing: Fraction of completions without the reward.
        share_grpo: Fraction of the summed |contribution| to GRPO's advantages; 0 if all are 0.
        share_gdpo: The same for GDPO, before the batch norm.
        constant: Fraction of groups in which the reward takes one value (GDPO: no signal).
        low_std: Fraction of groups with a standard deviation below ``LOW_STD`` but not 0.
        distinct_grpo: Mean number of distinct advantages in a group.
        distinct_gdpo: The same for GDPO.
        silent_grpo: Fraction of groups where all of GRPO's advantages are 0 and GDPO's are not.
        correlation: ``(rewards, rewards)`` correlation of the group-normalised rewards; 0 for a
            constant one.
    """

    rewards: tuple[str, ...]
    completions: int
    groups: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    missing: tuple[float, ...]
    share_grpo: tuple[float, ...]
    share_gdpo: tuple[float, ...]
    constant: tuple[float, ...]
    low_std: tuple[float, ...]
    distinct_grpo: float
    distinct_gdpo: float
    silent_grpo: float
    correlation: tuple[tuple[float, ...], ...]

    def __str__(self) -> str:
        """Return the report as plain text, at most 100 columns wide for short names."""
        return "\n".join([*self._table(), "", *self._sentences()])

    def _table(self) -> list[str]:
        width = max(len("reward"), *map(len, self.rewards))
        heads = ("mean", "std", "missing", "constant", "low std", "share GRPO", "share GDPO")
        lines = [f"{'reward':<{width}}" + "".join(f"  {head:>10}" for head in heads)]
        for k, name in enumerate(self.rewards):
            fractions = (
                self.missing[k], self.constant[k], self.low_std[k],
                self.share_grpo[k], self.share_gdpo[k],
            )  # fmt: skip
            lines.append(
                f"{name:<{width}}  {self.mean[k]:>10.4g}  {self.std[k]:>10.4g}"
                + "".join(f"  {fraction:>10.1%}" for fraction in fractions)
            )
        return lines

    def _sentences(self) -> list[str]:
        lines = [
            f"{self.completions} completions in {self.groups} groups",
            "distinct advantages in a group (mean): "
            f"GRPO {self.distinct_grpo:.2f}, GDPO {self.distinct_gdpo:.2f}",
            f"groups where GRPO's advantages are all 0 and GDPO's are not: {self.silent_grpo:.1%}",
        ]
        for method, shares in (("GRPO", self.share_grpo), ("GDPO", self.share_gdpo)):
            for name, share in zip(self.rewards, shares, strict=True):
                if len(shares) > 1 and share > DOMINANT:
                    lines.append(f"under {method} {name!r} makes {share:.1%} of all |advantage|")
        for i, j in self._opposed():
            lines.append(
                f"{self.rewards[i]!r} and {self.rewards[j]!r} pull against each other "
                f"(correlation {self.correlation[i][j]:.2f})"
            )
        return lines

    def _opposed(self) -> list[tuple[int, int]]:
        count = len(self.rewards)
        pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
        return [(i, j) for i, j in pairs if self.correlation[i][j] < -0.5]


def distinct_advantages(
    advantages: Tensor, groups: Tensor | int, *, tolerance: float = TOLERANCE
) -> Tensor:
    """Count the distinct advantages of each group.

    Args:
        advantages: ``(completions,)``, finite.
        groups: Group size in completions, or ``(completions,)`` integer ids.
        tolerance: Neighbouring values at most this far apart count as one.

    Returns:
        ``(groups,)`` int64 counts >= 1, in the order of the sorted group ids.

    Raises:
        TypeError: If an argument has a wrong type.
        ValueError: If a shape does not fit, or an advantage or the tolerance is not finite.

    Example:
        >>> distinct_advantages(torch.tensor([1.0, -1.0, 0.0, 0.0]), 2)
        tensor([2, 1])
    """
    if not isinstance(advantages, Tensor) or advantages.ndim != 1:
        raise ValueError("advantages must be a 1-D tensor (completions,)")
    check_eps("tolerance", tolerance)
    values, groups, _ = prepare(advantages.unsqueeze(1), groups, None)
    ids = group_ids(groups, len(values), values.device)
    if values.isnan().any():
        raise ValueError("advantages must be finite, got nan")
    index = torch.unique(ids, return_inverse=True)[1]
    by_value = values.squeeze(1).argsort()
    order = by_value[index[by_value].argsort(stable=True)]
    sorted_values, sorted_index = values.squeeze(1)[order], index[order]
    new = torch.ones_like(sorted_index)
    same_group = sorted_index.diff() == 0
    new[1:] = (~same_group | (sorted_values.diff() > tolerance)).long()
    return torch.bincount(sorted_index, weights=new).long()


def reward_shares(parts: Tensor) -> Tensor:
    """Return each reward's fraction of the summed absolute advantages.

    Args:
        parts: ``(completions, rewards)`` contributions: ``GDPOResult.per_reward``, or
            :func:`icml.gdpo.advantages.grpo_parts`.

    Returns:
        ``(rewards,)`` fractions that sum to 1, or zeros where all contributions are 0.

    Raises:
        TypeError: If ``parts`` is no tensor.
        ValueError: If ``parts`` is not 2-D.

    Example:
        >>> reward_shares(torch.tensor([[1.0, 3.0], [-1.0, -3.0]]))
        tensor([0.2500, 0.7500])
    """
    if not isinstance(parts, Tensor):
        raise TypeError(f"parts must be a torch.Tensor, got {type(parts).__name__}")
    if parts.ndim != 2:
        raise ValueError(f"parts must be 2-D (completions, rewards), got {tuple(parts.shape)}")
    sums = parts.abs().sum(dim=0)
    total = sums.sum()
    return sums / torch.where(total > 0, total, torch.ones_like(total))


def diagnose(
    rewards: Tensor,
    groups: Tensor | int,
    *,
    weights: Sequence[float] | Tensor | None = None,
    names: Sequence[str] | None = None,
    eps: float = EPS,
) -> Diagnosis:
    """Say what GRPO and GDPO make of the same rewards.

    Args:
        rewards: ``(completions, rewards)``, any finite values; NaN means missing.
        groups: Group size in completions, or ``(completions,)`` integer ids.
        weights: One finite number >= 0 for each reward, not all 0; 1 each when None.
        names: One name for each reward; their numbers when None.
        eps: Added to each standard deviation, >= 0.

    Raises:
        TypeError: If ``rewards`` or ``groups`` has a wrong type.
        ValueError: If an argument has a wrong shape or a value outside its range.
    """
    parts = gdpo_advantages(
        rewards, groups, weights=weights, eps=eps, batch_norm="none", return_parts=True
    )
    summed = grpo_parts(rewards, groups, weights=weights, eps=eps)
    values, groups, _ = prepare(rewards, groups, weights)
    ids = group_ids(groups, len(values), values.device)
    if names is None:
        names = tuple(map(str, range(values.shape[1])))
    check_names(names, values.shape[1])
    whole = group_stats(values, len(values))
    first = _first_rows(ids)
    group_std = parts.group_std[first]
    silent = _silent(summed.sum(dim=1), ids) & ~_silent(parts.pre_norm, ids)
    return Diagnosis(
        rewards=tuple(names),
        completions=len(ids),
        groups=len(first),
        mean=_floats(whole.mean[0]),
        std=_floats(whole.std[0]),
        missing=_floats(parts.missing.double().mean(dim=0)),
        share_grpo=_floats(reward_shares(summed)),
        share_gdpo=_floats(reward_shares(parts.per_reward)),
        constant=_floats((group_std == 0).double().mean(dim=0)),
        low_std=_floats(((group_std > 0) & (group_std < LOW_STD)).double().mean(dim=0)),
        distinct_grpo=float(distinct_advantages(summed.sum(dim=1), ids).double().mean()),
        distinct_gdpo=float(distinct_advantages(parts.pre_norm, ids).double().mean()),
        silent_grpo=float(silent[first].double().mean()),
        correlation=tuple(_floats(row) for row in _correlation(parts.per_reward)),
    )


def _first_rows(ids: Tensor) -> Tensor:
    """Return the index of one row of each group."""
    index = torch.unique(ids, return_inverse=True)[1]
    rows = torch.arange(len(ids), device=ids.device)
    first = torch.full((int(index.max()) + 1,), len(ids), device=ids.device)
    return first.scatter_reduce(0, index, rows, "amin")


def _silent(advantages: Tensor, ids: Tensor) -> Tensor:
    """Tell for each row whether all advantages of its group are 0, within ``TOLERANCE``."""
    loud = (advantages.abs() > TOLERANCE).to(advantages.dtype)
    return group_stats(loud, ids).mean == 0


def _correlation(parts: Tensor) -> Tensor:
    spread = parts - parts.mean(dim=0)
    length = spread.square().sum(dim=0).sqrt()
    scaled = spread / torch.where(length > 0, length, torch.ones_like(length))
    return scaled.T @ scaled


def _floats(values: Tensor) -> tuple[float, ...]:
    return tuple(values.tolist())
