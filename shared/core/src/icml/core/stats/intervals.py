"""Confidence intervals with a closed form: means of few seeds, proportions, differences."""

from __future__ import annotations

from math import hypot
from typing import NamedTuple, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from icml.core.stats import _checks


class Interval(NamedTuple):
    """A point estimate and its two-sided confidence limits, in the units of the data.

    Example:
        >>> t_interval([1.0, 2.0, 3.0]).estimate
        2.0
    """

    estimate: float
    """A mean, a proportion, a difference, or the bootstrapped statistic."""
    low: float
    high: float

    def columns(self, name: str) -> dict[str, float]:
        """Return the cells of a table's row which a report shows as one, with its interval.

        Example:
            >>> Interval(0.5, 0.25, 0.75).columns("success")
            {'success': 0.5, 'success low': 0.25, 'success high': 0.75}
        """
        return {name: self.estimate, f"{name} low": self.low, f"{name} high": self.high}


def t_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """Student's t interval of a mean (Student 1908): ``m ± t_{n-1} s / sqrt(n)``.

    Equal values give an interval of zero width: the sample shows no spread, and the interval
    says no more than the sample does.

    Args:
        values: Shape ``(n,)``, one number a seed, n >= 2. Exact for normal data of any n.
        level: Confidence, a fraction.

    Returns:
        The mean and its limits.

    Raises:
        ValueError: If fewer than two values are given (one seed has no spread), they are not
            1-D, one is not finite, or ``level`` is outside (0, 1).

    Example:
        >>> [round(x, 4) for x in t_interval([1.0, 2.0, 3.0])]  # 2 ± 4.3027 / sqrt(3)
        [2.0, -0.4841, 4.4841]
    """
    from scipy import stats

    array = _checks.sample(values, "values", least=2)
    level = _checks.confidence(level)
    if np.ptp(array) == 0:  # rounding in the mean would give a spread of 1e-17
        return Interval(float(array[0]), float(array[0]), float(array[0]))
    mean = float(array.mean())
    half = float(stats.t.ppf((1 + level) / 2, len(array) - 1) * stats.sem(array))
    return Interval(mean, mean - half, mean + half)


def paired_t_interval(a: ArrayLike, b: ArrayLike, level: float = 0.95) -> Interval:
    """Student's t interval of the mean of ``a - b``, paired by position (seed by seed).

    Args:
        a: Shape ``(n,)``, n >= 2.
        b: Shape ``(n,)``, in the same order of seeds as ``a``.
        level: Confidence, a fraction.

    Returns:
        The mean difference and its limits; zero width if all differences are equal.

    Raises:
        ValueError: If the lengths differ, or as in `t_interval`.

    Example:
        >>> [round(x, 4) for x in paired_t_interval([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])]
        [2.0, -0.4841, 4.4841]
    """
    first, second = _checks.pair(a, b, least=2)
    return t_interval(first - second, level)


def wilson(successes: SupportsIndex, n: SupportsIndex, level: float = 0.95) -> Interval:
    """Wilson's score interval of a proportion (Wilson 1927), without continuity correction.

    The limits are the p that solve ``|k/n - p| = z sqrt(p (1-p) / n)``; the lower one is 0 at
    no success and the upper one is 1 when all succeed.

    Args:
        successes: Number of successes k, from 0 to n.
        n: Number of independent trials, >= 1.
        level: Confidence, a fraction.

    Returns:
        The proportion k/n and its limits, all in [0, 1].

    Raises:
        ValueError: If ``n`` is 0, ``successes`` is outside [0, n], one of them is not an
            integer, or ``level`` is outside (0, 1).

    Example:
        >>> [round(x, 4) for x in wilson(8, 10)]
        [0.8, 0.4902, 0.9433]
    """
    from scipy import stats

    trials = _checks.count(n, "n", least=1)
    hits = _checks.count(successes, "successes", most=trials)
    limits = stats.binomtest(hits, trials).proportion_ci(_checks.confidence(level), "wilson")
    return Interval(hits / trials, float(limits.low), float(limits.high))


def newcombe(
    k1: SupportsIndex, n1: SupportsIndex, k2: SupportsIndex, n2: SupportsIndex, level: float = 0.95
) -> Interval:
    """Interval of a difference of two proportions (Newcombe 1998, method 10).

    With d = k1/n1 - k2/n2 and the Wilson limits l, u of each proportion, the limits are
    ``d - sqrt((p1-l1)^2 + (u2-p2)^2)`` and ``d + sqrt((u1-p1)^2 + (p2-l2)^2)``.
    The two samples are independent: for paired trials see `mcnemar_exact`, `paired_bootstrap`.

    Args:
        k1: Successes of the first sample, from 0 to ``n1``.
        n1: Trials of the first sample, >= 1.
        k2: Successes of the second sample, from 0 to ``n2``.
        n2: Trials of the second sample, >= 1.
        level: Confidence, a fraction.

    Returns:
        The difference k1/n1 - k2/n2 and its limits, all in [-1, 1].

    Raises:
        ValueError: As in `wilson`, for either sample.

    Example:
        >>> [round(x, 4) for x in newcombe(56, 70, 48, 80)]  # Newcombe's own first example
        [0.2, 0.0524, 0.3339]
    """
    first, second = wilson(k1, n1, level), wilson(k2, n2, level)
    difference = first.estimate - second.estimate
    low = difference - hypot(first.estimate - first.low, second.high - second.estimate)
    high = difference + hypot(first.high - first.estimate, second.estimate - second.low)
    return Interval(difference, max(low, -1.0), min(high, 1.0))
