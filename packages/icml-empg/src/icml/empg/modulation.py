"""EMPG's modulation of step advantages: pure functions of tensors."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from icml.core.rl.masked import as_bool_mask, at_least_float32
from icml.empg.chain import check_next
from icml.empg.effect import ClarityBonusWarning, Effect, Terms, complaint_of_bonus, measure
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
    next_step, turn = check_next(next_step.to(entropy.device), len(entropy))
    stats = stats or entropy_stats(entropy, params, reduce=reduce)
    if not stats.count:
        warnings.warn("EMPG found no step in the batch: is the mask all 0?", stacklevel=2)
    h_norm = stats.normalize(entropy, params.eps)
    g = torch.exp(-params.k * h_norm) / (stats.mean_g + params.eps)
    f = torch.exp(-params.k_future * h_norm)
    bonus = _bonus(f, next_step, turn, params, last=stats.mean_f, reduce=reduce)
    kept = advantages.abs() >= (ZERO_ADVANTAGE if params.skip_zero_groups else 0.0)
    scaled = advantages * g
    terms = Terms(scaled, bonus, params.zeta * f, h_norm, next_step < 0, kept)
    effect, mean = measure(terms, reduce)
    complaint = complaint_of_bonus(effect)
    if complaint:
        warnings.warn(complaint, ClarityBonusWarning, stacklevel=2)
    shift = mean if params.center else 0.0
    final = torch.where(kept, scaled + bonus - shift, 0.0)
    return EMPGResult(final, g, f, h_norm, bonus, shift, stats, effect)


def empg_token_advantages(
    advantages: Tensor,
    entropies: Tensor,
    mask: Tensor,
    params: EMPGParams | None = None,
    *,
    segments: Segments | None = None,
    stats: EntropyStats | None = None,
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
    *,
    last: float,
    reduce: Reduce | None,
) -> Tensor:
    """Return the second term of Eq. 8, ``(N,)``, with our two variants of it."""
    last = last if params.last_step_bonus == "mean" else 0.0
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
