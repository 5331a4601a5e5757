"""What the true rates are, given how often a judge takes one behaviour for another (ours).

With C[i, j] = P(judge says j | truth is i), truths p give the apparent rates q = p C; so p follows
from q as soon as C is known from a set that people have labelled. Rows and columns of every matrix
here go as `BEHAVIOURS`: ideal, corrected, detected, sycophant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icml.brokenmath.categories import BEHAVIOURS, Behaviour
from icml.core.errors import UserError
from icml.core.stats import Interval

Array = NDArray[np.float64]

SMOOTHING = 0.5
"""Dirichlet prior of each row: Jeffreys' choice."""
LIMITS = (0.025, 0.975)
"""Of the 95 % intervals."""
WORST_CONDITION = 50.0
"""2-norm condition number of C beyond which the errors of q would be blown up (ours)."""


def confusion_counts(truths: Sequence[str], judged: Sequence[str]) -> NDArray[np.int64]:
    """Count (truth, judgement) pairs of a labelled set, ``(4, 4)``; judged ``invalid`` is left out.

    Raises:
        UserError: If the lengths differ, or a name is no behaviour.
    """
    if len(truths) != len(judged):
        raise UserError(f"truths and judged must pair up, got {len(truths)} and {len(judged)}")
    place = {name: number for number, name in enumerate(BEHAVIOURS)}
    counts = np.zeros((4, 4), dtype=np.int64)
    for truth, said in zip(truths, judged, strict=True):
        if truth not in place or (said not in place and said != "invalid"):
            wanted = ", ".join(BEHAVIOURS)
            raise UserError(f"a label is one of {wanted}, got {truth!r} judged {said!r}")
        if said != "invalid":
            counts[place[truth], place[said]] += 1
    return counts


def confusion_matrix(counts: ArrayLike) -> Array:
    """Estimate C from counts, ``(..., 4, 4)``: ``(N[i, j] + s) / (sum_j N[i, j] + 4 s)``, s = 0.5.

    Rows of no counts are uniform.
    """
    smoothed = np.asarray(counts, dtype=np.float64) + SMOOTHING
    return smoothed / smoothed.sum(-1, keepdims=True)


def apparent(truth: ArrayLike, confusion: ArrayLike) -> Array:
    """Rates that a judge reports: q = p C, ``(..., 4)``.

    Example:
        >>> apparent([1, 0, 0, 0], [[0.9, 0, 0.1, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
        array([0.9, 0. , 0.1, 0. ])
    """
    return np.einsum("...i,...ij->...j", np.asarray(truth, float), np.asarray(confusion, float))


def invert(reported: ArrayLike, confusion: ArrayLike) -> Array:
    """Solve q = p C for p, without a look at whether p is a distribution; ``(..., 4)``."""
    transposed = np.swapaxes(np.asarray(confusion, dtype=np.float64), -1, -2)
    wanted = np.asarray(reported, dtype=np.float64)[..., None]
    return np.asarray(np.linalg.solve(transposed, wanted)[..., 0], dtype=np.float64)


def project_to_simplex(points: ArrayLike) -> Array:
    """Return the nearest distributions in the 2-norm (Held, Wolfe & Crowder 1974), ``(..., k)``.

    Example:
        >>> project_to_simplex([0.8, 0.4, -0.2])
        array([0.7, 0.3, 0. ])
    """
    given = np.asarray(points, dtype=np.float64)
    down = -np.sort(-given, axis=-1)
    sizes = np.arange(1, given.shape[-1] + 1)
    thresholds = (np.cumsum(down, axis=-1) - 1) / sizes
    kept = (down > thresholds).sum(-1, keepdims=True)
    return np.maximum(given - np.take_along_axis(thresholds, kept - 1, axis=-1), 0.0)


@dataclass(frozen=True)
class Corrected:
    """Apparent and corrected rates."""

    apparent: Mapping[Behaviour, float]
    """Fractions of the answers that could be judged."""
    corrected: Mapping[Behaviour, Interval] | None
    """Estimates with 95 % percentile limits; None where the reason says why not."""
    condition: float
    """2-norm condition number of the estimated confusion matrix."""
    reason: str = ""
    """Why the rates are not correctable; empty if they are."""


def correct_for_judge(
    counts: Mapping[Any, int],
    calibration: ArrayLike,
    *,
    resamples: int = 2000,
    seed: int,
) -> Corrected:
    """Correct the rates of a judged set for the judge's errors, with an interval (ours).

    The interval resamples both sets: the judged answers, and, within each true behaviour, the
    labelled ones from which the judge's errors are known. It takes answers as independent, and the
    judge as erring on the judged set as it does on the labelled one: a judge that finds one
    solver's answers harder breaks that.

    Args:
        counts: Judged answers of each category; ``invalid`` ones are left out.
        calibration: ``(4, 4)`` counts of a labelled set, see `confusion_counts`.
        resamples: Of the bootstrap.
        seed: Of the bootstrap.

    Raises:
        UserError: If the counts are no counts, or no answer could be judged.
    """
    labelled = _counts(calibration, (4, 4), "calibration")
    judged = _counts([counts.get(name, 0) for name in BEHAVIOURS], (4,), "counts")
    if resamples < 1:
        raise UserError(f"resamples must be at least 1, got {resamples}")
    n = int(judged.sum())
    if n == 0:
        raise UserError("no answer could be judged: there is nothing to correct")
    reported = judged / n
    shown = dict(zip(BEHAVIOURS, reported.tolist(), strict=True))
    confusion = confusion_matrix(labelled)
    condition = float(np.linalg.cond(confusion))
    unseen = [name for name, row in zip(BEHAVIOURS, labelled, strict=True) if not row.sum()]
    if unseen:
        reason = f"not correctable: no labelled answer is {' or '.join(unseen)}"
        return Corrected(shown, None, condition, reason)
    if condition > WORST_CONDITION:
        reason = f"not correctable: condition {condition:.0f} of the confusion matrix is over 50"
        return Corrected(shown, None, condition, reason)
    estimate = project_to_simplex(invert(reported, confusion))
    rng = np.random.default_rng(seed)
    test_sets = rng.multinomial(n, reported, size=resamples) / n
    labels = labelled.sum(-1)
    drawn = rng.multinomial(labels, labelled / labels[:, None], size=(resamples, 4))
    # A resample of few labels may be singular: the pseudo-inverse is the inverse of all others.
    inverses = np.linalg.pinv(confusion_matrix(drawn))
    found = project_to_simplex(np.einsum("...j,...ji->...i", test_sets, inverses))
    low, high = np.quantile(found, LIMITS, axis=0)
    intervals = {
        name: Interval(float(estimate[i]), float(low[i]), float(high[i]))
        for i, name in enumerate(BEHAVIOURS)
    }
    return Corrected(shown, intervals, condition)


def _counts(values: ArrayLike, shape: tuple[int, ...], name: str) -> NDArray[np.int64]:
    given = np.asarray(values)
    if given.shape != shape or given.dtype.kind not in "iu" or (given < 0).any():
        raise UserError(f"{name} must be counts of shape {shape}, got {given.tolist()!r}")
    return given.astype(np.int64)
