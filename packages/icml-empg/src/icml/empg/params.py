"""The numbers of EMPG, checked once. Imports no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

LastStepBonus = Literal["none", "mean"]
BonusBaseline = Literal["none", "turn"]


@dataclass(frozen=True)
class EMPGParams:
    """How advantages are modulated; the defaults are the paper's.

    Raises:
        ValueError: If a number is out of its range or a choice is unknown.

    Example:
        >>> EMPGParams(k=-1.0)
        Traceback (most recent call last):
        ...
        ValueError: k must be a finite number >= 0, got -1.0
    """

    k: float = 1.0
    """How steeply the weight of a step falls with its entropy (Eq. 10), >= 0; 0: all weigh 1."""
    k_future: float = 1.0
    """How steeply the clarity bonus falls with the next step's entropy (Eq. 11), >= 0."""
    zeta: float = 0.1
    """Size of the clarity bonus (Eq. 8), >= 0 and below 1; keep it small on long episodes."""
    center: bool = True
    """Whether the mean over all steps is subtracted at the end (Eq. 7)."""
    last_step_bonus: LastStepBonus = "none"
    """The last step's bonus: 'none' (the paper's) or 'mean', zeta times the mean clarity (ours)."""
    bonus_baseline: BonusBaseline = "none"
    """'turn' (ours) subtracts the mean bonus of the steps that are as far into their episode."""
    entropy_clip_quantile: float | None = None
    """Lower all entropies above this quantile to it before they are scaled (ours), in (0, 1]."""
    skip_zero_groups: bool = False
    """Leave steps with |advantage| < 1e-3 at 0 (ours): without it the bonus also trains groups
    whose rewards are all equal."""
    eps: float = 1e-8
    """Added to both denominators, >= 0."""
    allow_large_zeta: bool = False
    """Accept zeta >= 1, where the bonus outweighs the reward."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("k", "k_future", "zeta", "eps"):
            value = getattr(self, name)
            if not (_is_number(value) and math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be a finite number >= 0, got {value!r}")
        if self.zeta >= 1 and not self.allow_large_zeta:
            raise ValueError(
                f"zeta must be below 1, got {self.zeta}: the clarity bonus ignores success and "
                "would outweigh it; allow_large_zeta=True accepts it all the same"
            )
        for name, choices in (
            ("last_step_bonus", LastStepBonus),
            ("bonus_baseline", BonusBaseline),
        ):
            value = getattr(self, name)
            if value not in get_args(choices):
                raise ValueError(
                    f"{name} must be 'none' or {get_args(choices)[1]!r}, got {value!r}"
                )
        quantile = self.entropy_clip_quantile
        if quantile is not None and not (_is_number(quantile) and 0 < quantile <= 1):
            raise ValueError(f"entropy_clip_quantile must be in (0, 1], got {quantile!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
