"""EMPG's modulation of step advantages: pure functions of tensors."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from icml.core.rl.masked import as_bool_mask, at_least_float32
from icml.empg.entropy import EntropyStats, Reduce, check_step_entropy, entropy_stats
from icml.empg.params import EMPGParams
from icml.empg.segments import (
    Segments,
    check_inside,
    scatter_to_tokens,
    step_entropies,
    steps_from_mask,
)

ZERO_ADVANTAGE = 1e-3
"""Below this an advantage is a rounding error of 0 for ``skip_zero_groups`` (ours)."""

LARGE_SHARE = 0.2
"""Share of the bonus from which it is warned about (ours: in our runs 0.3 ruined training)."""


class ClarityBonusWarning(UserWarning):
    """The clarity bonus is so large that it, and not the reward, steers the training."""


class Effect(NamedTuple):
    """What the modulation did to a batch, over all processes and all steps not skipped."""

    bonus_share: float
    """``sum |bonus| / (sum |A g| + sum |bonus|)``, a fraction."""
    scaled_std: float
    """Standard deviation of ``A g``."""
    bonus_std: float
    """Standard deviation of ``zeta f``."""
    corr_adv_entropy: float
    """Correlation of the final advantage with the step's entropy; NaN where one is constant."""
    last_step_shift: float
    """Mean bonus of last steps minus the mean bonus of all: how much last steps lose by it."""
    skipped: float
    """Fraction of the steps that ``skip_zero_groups`` left at 0."""


@dataclass(frozen=True)
class EMPGResult:
    """Modulated advantages and how they came about; N steps of this process."""

    advantages: Tensor
    """``(N,)``: the final advantages."""
    g: Tensor
    """``(N,)``: weight of each step, mean 1 over the batch (Eq. 10)."""
    f: Tensor
    """``(N,)``: clarity of each step, from ``exp(-k')`` to 1 (Eq. 11)."""
    h_norm: Tensor
    """``(N,)``: entropy scaled to [0, 1] (Eq. 12)."""
    bonus: Tensor
    """``(N,)``: what the clarity of the next step adds, zeta included."""
    shift: float
    """What was subtracted from every step at the end (Eq. 7)."""
    stats: EntropyStats
    """The batch's entropies."""
    effect: Effect
    """What it did to the batch."""


def empg_modulate(
    advantages: Tensor,
    step_entropy: Tensor,
    next_step: Tensor,
    params: EMPGParams | None = None,
    *,
    stats: EntropyStats | None = None,
    reduce: Reduce | None = None,
) -> EMPGResult:
    """Weight each step by its entropy, add the bonus for a clear future, centre (Eqs. 7 to 12).

    With ``A`` a step's advantage, ``H`` its entropy and ``next`` the step after it::

        Hn    = (H - min H) / (max H - min H + eps)
        g     = exp(-k Hn) / (mean exp(-k Hn) + eps)
        f     = exp(-k' Hn)
        A_mod = A g + zeta f[next]                  # no bonus where there is no next step
        A_new = A_mod - mean A_mod                  # over steps: a long one counts once

    The layout does not matter: rows of one step each, as step-wise trainers have them, and steps
    cut out of concatenated episodes give the same result.

    Half-precision input is computed in float32. No gradient flows through it.

    Args:
        advantages: ``(N,)`` finite: for each step the advantage of its episode.
        step_entropy: ``(N,)`` in nats: mean entropy of the step's tokens.
        next_step: ``(N,)`` integers: index of the following step, -1 where there is none, also
            where an episode was cut off.
        params: The paper's if None.
        stats: The batch's entropies where they are known; otherwise computed here.
        reduce: Combines numbers of all processes (see :data:`icml.empg.entropy.Reduce`); None:
            the batch is all here.

    Returns:
        The final advantages and what led to them. Without any step in the whole batch they are
        empty, with a warning.

    Raises:
        TypeError: If ``next_step`` does not hold integers.
        ValueError: If shapes differ; an entropy or advantage is not finite; an entropy is
            negative beyond rounding; or ``next_step`` is out of range, names a step twice or runs
            in a circle. The message names the step.

    Warns:
        ClarityBonusWarning: If the bonus is a large share of the advantages or varies as much.

    Example:
        >>> found = empg_modulate(
        ...     torch.tensor([1.0, 1.0, -1.0, -1.0]),
        ...     torch.tensor([0.0, 1.0, 2.0, 0.5]),
        ...     torch.tensor([1, -1, 3, -1]),
        ... )
        >>> found.advantages
        tensor([ 1.3118,  0.6795, -0.6582, -1.3331])
    """
    params = params or EMPGParams()
    entropy = check_step_entropy(step_entropy)
    advantages = _check_advantages(advantages.to(entropy.device), len(entropy))
    if torch.float64 in (advantages.dtype, entropy.dtype):
        advantages, entropy = advantages.double(), entropy.double()
    next_step, turn = _check_next(next_step.to(entropy.device), len(entropy))
    stats = stats or entropy_stats(entropy, params, reduce=reduce)
    if not stats.count:
        warnings.warn("EMPG found no step in the batch: is the mask all 0?", stacklevel=2)
    h_norm = stats.normalize(entropy, params.eps)
    g = torch.exp(-params.k * h_norm) / (stats.mean_g + params.eps)
    f = torch.exp(-params.k_future * h_norm)
    bonus = _bonus(f, next_step, turn, params, stats, reduce)
    kept = torch.ones_like(next_step, dtype=torch.bool)
    if params.skip_zero_groups:
        kept = advantages.abs() >= ZERO_ADVANTAGE
    scaled = advantages * g
    effect, mean = _effect(scaled, params.zeta * f, bonus, h_norm, next_step < 0, kept, reduce)
    _warn_of_bonus(effect)
    shift = mean if params.center else 0.0
    final = torch.where(kept, scaled + bonus - shift, 0.0)
    return EMPGResult(final, g, f, h_norm, bonus, shift, stats, effect)


def empg_token_advantages(
    advantages: Tensor,
    entropies: Tensor,
    mask: Tensor,
    params: EMPGParams | None = None,
    segments: Segments | None = None,
    stats: EntropyStats | None = None,
    *,
    reduce: Reduce | None = None,
) -> Tensor:
    """Turn one advantage an episode into one a token, modulated step by step.

    Args:
        advantages: ``(episodes,)``, e.g. GRPO's.
        entropies: ``(episodes, tokens)`` in nats; values outside the mask are not read.
        mask: ``(episodes, tokens)``, booleans or 0/1: tokens that the policy wrote.
        params: The paper's if None.
        segments: The steps; None takes every run of 1s in the mask for one.
        stats: As for :func:`empg_modulate`.
        reduce: Likewise.

    Returns:
        ``(episodes, tokens)``, exactly 0 outside the mask.

    Raises:
        ValueError: As for :func:`empg_modulate`, and if shapes do not fit or a step reaches over
            tokens outside the mask.

    Example:
        >>> mask = torch.tensor([[1, 1, 0, 1], [1, 0, 1, 0]])
        >>> entropies = torch.tensor([[0.0, 0.0, 9.0, 1.0], [2.0, 9.0, 0.5, 9.0]])
        >>> empg_token_advantages(torch.tensor([1.0, -1.0]), entropies, mask)
        tensor([[ 1.3118,  1.3118,  0.0000,  0.6795],
                [-0.6582,  0.0000, -1.3331,  0.0000]])
    """
    if mask.ndim != 2 or entropies.shape != mask.shape or advantages.shape != mask.shape[:1]:
        raise ValueError(
            "advantages must be (episodes,), entropies and mask (episodes, tokens), got "
            f"{tuple(advantages.shape)}, {tuple(entropies.shape)} and {tuple(mask.shape)}"
        )
    policy = as_bool_mask(mask)
    if segments is None:
        segments = steps_from_mask(policy)
    else:
        check_inside(segments, policy)
    entropy = step_entropies(entropies, segments)
    result = empg_modulate(
        advantages[segments.row], entropy, segments.next, params, stats=stats, reduce=reduce
    )
    return scatter_to_tokens(result.advantages, segments, (mask.shape[0], mask.shape[1]), policy)


def _bonus(
    f: Tensor,
    next_step: Tensor,
    turn: Tensor,
    params: EMPGParams,
    stats: EntropyStats,
    reduce: Reduce | None,
) -> Tensor:
    """Return the second term of Eq. 8, ``(N,)``, with our two variants of it."""
    last = stats.mean_f if params.last_step_bonus == "mean" else 0.0
    follows = next_step >= 0
    bonus = params.zeta * torch.where(follows, f[next_step.clamp(min=0)], last)
    if params.bonus_baseline == "none":
        return bonus
    paid = follows | (params.last_step_bonus == "mean")
    turns = turn.new_tensor([int(turn.max()) + 1 if len(turn) else 0])
    turns = reduce(turns, "max") if reduce else turns
    sums = bonus.new_zeros(2, int(turns)).index_add_(1, turn, torch.stack([bonus, paid.to(bonus)]))
    total, count = (reduce(sums.flatten(), "sum") if reduce else sums.flatten()).chunk(2)
    return torch.where(paid, bonus - (total / count.clamp(min=1))[turn], 0.0)


def _effect(
    scaled: Tensor,
    clarity: Tensor,
    bonus: Tensor,
    h_norm: Tensor,
    is_last: Tensor,
    kept: Tensor,
    reduce: Reduce | None,
) -> tuple[Effect, float]:
    """Return what the modulation did, and the mean of ``A_mod``; all from one round of sums."""
    modulated = scaled + bonus
    terms = [
        torch.ones_like(scaled),
        modulated,
        modulated * modulated,
        h_norm,
        h_norm * h_norm,
        h_norm * modulated,
        scaled.abs(),
        scaled,
        scaled * scaled,
        bonus.abs(),
        bonus,
        bonus * is_last,
        is_last.to(scaled),
        clarity,
        clarity * clarity,
    ]
    sums = torch.where(kept, torch.stack(terms), 0.0).sum(dim=1)
    sums = torch.cat([sums, kept.numel() + torch.zeros_like(sums[:1])])
    values = (reduce(sums, "sum") if reduce else sums).tolist()
    n, m, mm, h, hh, hm, s_abs, s, ss, b_abs, b, b_last, last, c, cc, everyone = values
    count = max(n, 1.0)
    spread = _variance(m, mm, count) * _variance(h, hh, count)
    covariance = hm / count - (h / count) * (m / count)
    size = s_abs + b_abs
    effect = Effect(
        bonus_share=b_abs / size if size else 0.0,
        scaled_std=_variance(s, ss, count) ** 0.5,
        bonus_std=_variance(c, cc, count) ** 0.5,
        corr_adv_entropy=covariance / spread**0.5 if spread else float("nan"),
        last_step_shift=b_last / max(last, 1.0) - b / count,
        skipped=1 - n / everyone if everyone else 0.0,
    )
    return effect, m / count


def _variance(total: float, squares: float, count: float) -> float:
    return max(squares / count - (total / count) ** 2, 0.0)


def _warn_of_bonus(effect: Effect) -> None:
    """Warn, in words without numbers, so that Python shows it once and not in every batch."""
    if effect.bonus_share > LARGE_SHARE:
        warnings.warn(
            "the clarity bonus makes up more than a fifth of the advantages (effect.bonus_share): "
            "on long episodes it teaches to walk on instead of finishing; lower zeta, or set "
            "skip_zero_groups=True where many groups have equal rewards",
            ClarityBonusWarning,
            stacklevel=3,
        )
    elif effect.bonus_std > 0.5 * effect.scaled_std:
        warnings.warn(
            "the clarity bonus varies more than half as much as the weighted advantages "
            "(effect.bonus_std, effect.scaled_std): lower zeta",
            ClarityBonusWarning,
            stacklevel=3,
        )


def _check_advantages(advantages: Tensor, steps: int) -> Tensor:
    if advantages.shape != (steps,):
        raise ValueError(
            f"advantages must have one value for each of the {steps} steps, "
            f"got shape {tuple(advantages.shape)}"
        )
    advantages = at_least_float32(advantages.detach())
    finite = advantages.isfinite()
    if not bool(finite.all()):
        step = int((~finite).nonzero()[0])
        raise ValueError(
            f"the advantage of step {step} is {advantages[step].item()}: give finite numbers"
        )
    return advantages


def _check_next(next_step: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Return ``next_step`` as int64 and each step's turn, counted from 0 in its episode."""
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
