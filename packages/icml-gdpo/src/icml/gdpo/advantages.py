"""The advantages of GDPO and, for comparison, of GRPO: pure functions of rewards and groups.

GRPO adds the rewards of a completion and then normalises the sum in its group. GDPO
normalises each reward on its own, adds the results and normalises over the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, overload

import torch
from torch import Tensor

from icml.core.rl.functional import group_advantage, group_stats
from icml.gdpo.inputs import (
    check_choice,
    check_eps,
    check_size,
    check_token_counts,
    prepare,
)

BatchNorm = Literal["rollout", "token", "none"]
Singleton = Literal["zero", "raw", "error"]
SingleReward = Literal["gdpo", "grpo"]

EPS = 1e-4
"""Added to every standard deviation; the value of the authors' TRL fork and of TRL 1.16."""

WHITEN_EPS = 1e-8
"""Added to the variance by the token-weighted batch norm; the value of verl."""


@dataclass(frozen=True, eq=False)
class GDPOResult:
    """The advantages with the steps that led to them; a missing reward contributes 0.

    Attributes:
        advantages: ``(completions,)``, what a trainer uses.
        per_reward: ``(completions, rewards)``, weight times group-normalised reward.
        pre_norm: ``(completions,)``, the sum of ``per_reward``, before the batch norm.
        group_std: ``(completions, rewards)``, unbiased standard deviation of the reward in the
            completion's group, in the reward's own unit; 0 where fewer than two values are there.
        missing: ``(completions, rewards)``, bool, where the reward was NaN.
    """

    advantages: Tensor
    per_reward: Tensor
    pre_norm: Tensor
    group_std: Tensor
    missing: Tensor


@overload
def gdpo_advantages(
    rewards: Tensor,
    groups: Tensor | int,
    *,
    weights: Sequence[float] | Tensor | None = ...,
    eps: float = ...,
    batch_norm: BatchNorm = ...,
    token_counts: Tensor | None = ...,
    whiten_eps: float = ...,
    singleton: Singleton = ...,
    single_reward: SingleReward = ...,
    return_parts: Literal[False] = ...,
) -> Tensor: ...
@overload
def gdpo_advantages(
    rewards: Tensor,
    groups: Tensor | int,
    *,
    weights: Sequence[float] | Tensor | None = ...,
    eps: float = ...,
    batch_norm: BatchNorm = ...,
    token_counts: Tensor | None = ...,
    whiten_eps: float = ...,
    singleton: Singleton = ...,
    single_reward: SingleReward = ...,
    return_parts: Literal[True],
) -> GDPOResult: ...
def gdpo_advantages(
    rewards: Tensor,
    groups: Tensor | int,
    *,
    weights: Sequence[float] | Tensor | None = None,
    eps: float = EPS,
    batch_norm: BatchNorm = "rollout",
    token_counts: Tensor | None = None,
    whiten_eps: float = WHITEN_EPS,
    singleton: Singleton = "zero",
    single_reward: SingleReward = "gdpo",
    return_parts: bool = False,
) -> Tensor | GDPOResult:
    """Normalise each reward in its group, add them up, normalise over the batch (GDPO).

    With ``r`` the rewards, ``w`` the weights, ``g`` the group of completion ``i`` and unbiased
    standard deviations::

        z[i,k] = (r[i,k] - mean_g r[:,k]) / (std_g r[:,k] + eps)
        a[i]   = sum_k w[k] z[i,k]
        A[i]   = (a[i] - mean a) / (std a + eps)            # over all completions

    A missing reward is left out of its group's mean and standard deviation and of the sum. A
    completion without any reward gets advantage 0 and is left out of the batch statistics. A
    reward that is constant in a group adds exactly 0 there, also with ``eps=0``.

    float64 rewards are computed in float64, all others (bfloat16, float16, float32, integers,
    bool) in float32; the result has the dtype of the computation and is on the rewards' device.
    No gradient flows through it. Where the rewards of a whole batch nearly cancel, the batch norm
    divides by about eps, rounding errors included: 1e-7 in float32 can become 1e-3.

    **Differs from the paper:** missing rewards are left out (the authors' TRL fork counts them as
    0, which biases the group mean); the numbers are those of TRL 1.16's
    ``multi_objective_aggregation="normalize_then_sum"``. With one reward the authors' forks fall
    back to GRPO, TRL does not: ``single_reward`` chooses.

    Args:
        rewards: ``(completions, rewards)``, any finite values; NaN means missing.
        groups: The group size in completions, when groups are consecutive runs of that many rows;
            or ``(completions,)`` integer ids: any values, any sizes, any order.
        weights: One finite number >= 0 for each reward, not all 0; 1 each when None. They act on
            the normalised rewards.
        eps: Added to each standard deviation, >= 0.
        batch_norm: ``"rollout"``: as above, each completion counts once. ``"token"``: verl's, each
            completion counts as many times as it has tokens:
            ``(a - mean) / sqrt(var + whiten_eps)``. ``"none"``: return the weighted sum.
        token_counts: ``(completions,)`` numbers of trained tokens, >= 0; needed by ``"token"`` and
            refused otherwise. A completion without tokens gets advantage 0.
        whiten_eps: Added to the variance by ``"token"``, >= 0.
        singleton: What a group of one completion gives: ``"zero"``: z = 0. ``"raw"``: verl's,
            mean 0 and standard deviation 1, so z = r / (1 + eps). ``"error"``: refuse it.
        single_reward: With one reward only: ``"gdpo"`` keeps the batch norm (TRL 1.16), ``"grpo"``
            returns the group-normalised reward alone (the authors' forks).
        return_parts: Return the intermediate results as well.

    Returns:
        Advantages ``(completions,)``, or a :class:`GDPOResult`.

    Raises:
        TypeError: If ``rewards`` or ``groups`` has a wrong type.
        ValueError: If an argument has a wrong shape or a value outside its range.

    Example:
        >>> rewards = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
        >>> gdpo_advantages(rewards, 2, batch_norm="none").round(decimals=3)
        tensor([-0.7070,  0.7070, -1.4140,  1.4140])
    """
    check_choice("batch_norm", batch_norm, BatchNorm)
    check_choice("singleton", singleton, Singleton)
    check_choice("single_reward", single_reward, SingleReward)
    check_eps("eps", eps)
    check_eps("whiten_eps", whiten_eps)
    rewards, groups, weight = prepare(rewards, groups, weights)
    counts = check_token_counts(token_counts, batch_norm, rewards)
    missing = rewards.isnan()
    z, std = _group_normalize(rewards, groups, eps, singleton)
    per_reward = weight * z
    pre_norm = per_reward.sum(dim=1)
    scored = ~missing.all(dim=1)
    if batch_norm == "none" or (single_reward == "grpo" and rewards.shape[1] == 1):
        advantages = pre_norm
    elif counts is not None:
        advantages = _whiten_by_tokens(pre_norm, counts * scored, whiten_eps)
    else:
        everyone = len(pre_norm)
        advantages, _ = _normalize(pre_norm.masked_fill(~scored, torch.nan), everyone, eps)
    if return_parts:
        return GDPOResult(advantages, per_reward, pre_norm, std, missing)
    return advantages


def grpo_advantages(
    rewards: Tensor,
    groups: Tensor | int,
    *,
    weights: Sequence[float] | Tensor | None = None,
    eps: float = EPS,
) -> Tensor:
    """Add the weighted rewards, then normalise the sum in its group (GRPO).

    ``A[i] = (s[i] - mean_g s) / (std_g s + eps)`` with ``s[i] = sum_k w[k] r[i,k]``: the numbers
    of TRL 1.16's default ``multi_objective_aggregation="sum_then_normalize"``. Missing rewards are
    left out of the sum; a completion without any reward gets 0 and is left out of the statistics.

    Args:
        rewards: ``(completions, rewards)``, any finite values; NaN means missing.
        groups: Group size in completions, or ``(completions,)`` integer ids.
        weights: One finite number >= 0 for each reward, not all 0; 1 each when None.
        eps: Added to the standard deviation, >= 0.

    Returns:
        Advantages ``(completions,)``; dtype and device as for :func:`gdpo_advantages`.

    Raises:
        TypeError: If ``rewards`` or ``groups`` has a wrong type.
        ValueError: If an argument has a wrong shape or a value outside its range.

    Example:
        >>> rewards = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
        >>> grpo_advantages(rewards, 2).round(decimals=3)
        tensor([-0.7070,  0.7070, -0.7070,  0.7070])
    """
    check_eps("eps", eps)
    rewards, groups, weight = prepare(rewards, groups, weights)
    total = (rewards.nan_to_num(nan=0.0) * weight).sum(dim=1)
    total = total.masked_fill(rewards.isnan().all(dim=1), torch.nan)
    check_size("the weighted sum of rewards", total)
    return group_advantage(total, groups, eps=eps)


def grpo_parts(
    rewards: Tensor,
    groups: Tensor | int,
    *,
    weights: Sequence[float] | Tensor | None = None,
    eps: float = EPS,
) -> Tensor:
    """Split GRPO's advantages into what each reward contributes; the rows sum to them.

    ``part[i,k] = w[k] (r[i,k] - mean_g r[:,k]) / (std_g s + eps)``, where a missing reward counts
    as 0, which is what leaving it out of the sum ``s`` amounts to.

    Args:
        rewards: As for :func:`grpo_advantages`.
        groups: Likewise.
        weights: Likewise.
        eps: Likewise.

    Returns:
        ``(completions, rewards)``; 0 for a completion without any reward.

    Raises:
        TypeError: If ``rewards`` or ``groups`` has a wrong type.
        ValueError: If an argument has a wrong shape or a value outside its range.

    Example:
        >>> rewards = torch.tensor([[0.0, 3.0], [1.0, 0.0]])
        >>> grpo_parts(rewards, 2).round(decimals=3)
        tensor([[-0.3540,  1.0610],
                [ 0.3540, -1.0610]])
    """
    check_eps("eps", eps)
    rewards, groups, weight = prepare(rewards, groups, weights)
    unscored = rewards.isnan().all(dim=1)
    weighted = rewards.nan_to_num(nan=0.0) * weight
    check_size("the weighted rewards", weighted)
    weighted = weighted.masked_fill(unscored.unsqueeze(1), torch.nan)
    std = group_stats(weighted.sum(dim=1), groups).std.unsqueeze(1)
    parts = group_stats(weighted, groups).deviation / (std + eps)
    return parts.masked_fill((std == 0) | unscored.unsqueeze(1), 0.0)


def _group_normalize(
    rewards: Tensor, groups: Tensor | int, eps: float, singleton: Singleton
) -> tuple[Tensor, Tensor]:
    """Return z and the group's standard deviation, both ``(completions, rewards)``."""
    z, std = _normalize(rewards, groups, eps)
    if singleton == "zero":
        return z, std
    alone = group_stats(torch.zeros_like(rewards[:, 0]), groups).count == 1
    if singleton == "raw":
        raw = rewards.nan_to_num(nan=0.0) / (1.0 + eps)
        return torch.where(alone.unsqueeze(1), raw, z), std
    if alone.any():
        row = int(alone.nonzero()[0])
        raise ValueError(
            f"singleton='error': row {row} of rewards is alone in its group; "
            "give each group two completions or choose singleton='zero'"
        )
    return z, std


def _normalize(values: Tensor, groups: Tensor | int, eps: float) -> tuple[Tensor, Tensor]:
    """Return ``(x - mean) / (std + eps)``, 0 where missing or without spread, and the std."""
    stats = group_stats(values, groups)
    z = stats.deviation / (stats.std + eps)
    # NaN: missing, or 0/0 with eps=0. Infinite: with eps=0, a spread too small to square.
    return z.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0), stats.std


def _whiten_by_tokens(values: Tensor, counts: Tensor, eps: float) -> Tensor:
    """Whiten with row i counted ``counts[i]`` times, without building the (N, T) copy."""
    values = values - values.min()
    total = counts.sum()
    centered = values - (counts * values).sum() / total.clamp(min=1)
    variance = (counts * centered.square()).sum() / (total - 1).clamp(min=1)
    whitened = centered * torch.rsqrt(variance + eps)
    return whitened.masked_fill((counts == 0) | (variance == 0), 0.0)
