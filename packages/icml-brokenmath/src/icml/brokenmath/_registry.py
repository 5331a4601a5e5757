"""What inspect-ai finds in this distribution (entry point ``inspect_ai``)."""

from icml.brokenmath.conditions import (
    best_of_n,
    confidence,
    hint,
    plain,
    refine_agent,
    self_authored,
)
from icml.brokenmath.scoring import (
    brokenmath_behaviour,
    brokenmath_correct,
    brokenmath_rates,
    brokenmath_solved,
)
from icml.brokenmath.tasks import brokenmath, brokenmath_utility, original

__all__ = [
    "best_of_n",
    "brokenmath",
    "brokenmath_behaviour",
    "brokenmath_correct",
    "brokenmath_rates",
    "brokenmath_solved",
    "brokenmath_utility",
    "confidence",
    "hint",
    "original",
    "plain",
    "refine_agent",
    "self_authored",
]
