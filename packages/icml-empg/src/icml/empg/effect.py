"""What the modulation did to a batch, and when that is a reason for a warning."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from icml.empg.entropy import Reduce

LARGE_SHARE = 0.2
"""Share of the bonus from which it is warned about (ours)."""


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


class Terms(NamedTuple):
    """The parts of a modulation, each ``(N,)``, steps of this process."""

    scaled: Tensor
    """``A g``."""
    bonus: Tensor
    """What the next step's clarity adds, zeta included."""
    clarity: Tensor
    """``zeta f``."""
    h_norm: Tensor
    is_last: Tensor
    """Whether the step ends its episode."""
    kept: Tensor
    """Whether the step is not skipped."""


def measure(terms: Terms, reduce: Reduce | None) -> tuple[Effect, float]:
    """Return the effect and the mean of ``A g + bonus``, from one round of sums.

    Args:
        terms: The parts.
        reduce: Adds the numbers of all processes; None: one process.
    """
    sums = _sums(terms)
    values = (reduce(sums, "sum") if reduce else sums).tolist()
    everyone, kept, m, mm, h, hh, hm, s_abs, s, ss, b_abs, b, b_last, last, c, cc = values
    n = max(kept, 1.0)
    spread = _variance(m / n, mm / n) * _variance(h / n, hh / n)
    covariance = hm / n - (h / n) * (m / n)
    size = s_abs + b_abs
    effect = Effect(
        bonus_share=b_abs / size if size else 0.0,
        scaled_std=_variance(s / n, ss / n) ** 0.5,
        bonus_std=_variance(c / n, cc / n) ** 0.5,
        corr_adv_entropy=covariance / spread**0.5 if spread else float("nan"),
        last_step_shift=b_last / max(last, 1.0) - b / n,
        skipped=1 - kept / everyone if everyone else 0.0,
    )
    return effect, m / n


def complaint_of_bonus(effect: Effect) -> str | None:
    """Say what is wrong with the bonus, in words without numbers; None if nothing is.

    Equal words let Python show the warning once and not in every batch.
    """
    if effect.bonus_share > LARGE_SHARE:
        return (
            "the clarity bonus makes up more than a fifth of the advantages (effect.bonus_share): "
            "on long episodes it teaches to walk on instead of finishing; lower zeta, or set "
            "skip_zero_groups=True where many groups have equal rewards"
        )
    if effect.bonus_std > 0.5 * effect.scaled_std:
        return (
            "the clarity bonus varies more than half as much as the weighted advantages "
            "(effect.bonus_std, effect.scaled_std): lower zeta"
        )
    return None


def _sums(terms: Terms) -> Tensor:
    scaled, bonus, clarity, h_norm, is_last, kept = terms
    modulated = scaled + bonus
    one = torch.ones_like(scaled)
    rows = [
        one,
        modulated,
        modulated.square(),
        h_norm,
        h_norm.square(),
        h_norm * modulated,
        scaled.abs(),
        scaled,
        scaled.square(),
        bonus.abs(),
        bonus,
        bonus * is_last,
        is_last.to(scaled),
        clarity,
        clarity.square(),
    ]
    of_kept = torch.where(kept, torch.stack(rows), 0.0).sum(dim=1)
    return torch.cat([one.sum().unsqueeze(0), of_kept])


def _variance(mean: float, mean_of_squares: float) -> float:
    """Return the variance, 0 where the difference is no more than rounding in float32."""
    variance = mean_of_squares - mean**2
    return variance if variance > 1e-6 * mean_of_squares else 0.0
