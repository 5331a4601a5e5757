"""Tests with an exact or textbook null distribution, and the correction for several of them."""

from __future__ import annotations

from typing import NamedTuple, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icml.core.stats import _checks


def paired_t_test(a: ArrayLike, b: ArrayLike) -> float:
    """Two-sided p-value of "the mean of ``a - b`` is 0" (Student 1908).

    It is below ``1 - level`` exactly when `paired_t_interval` leaves out 0. Differences that
    are all equal have no spread: p is 1 if they are 0, else 0.

    Args:
        a: Shape ``(n,)``, n >= 2.
        b: Shape ``(n,)``, in the same order of seeds as ``a``.

    Returns:
        The p-value, in [0, 1].

    Raises:
        ValueError: If the lengths differ, fewer than two pairs are given, or a value is not
            finite.

    Example:
        >>> round(paired_t_test([2.0, 4.0, 6.0], [1.0, 2.0, 3.0]), 4)  # t = 2 sqrt(3), 2 df
        0.0742
    """
    from scipy import stats

    first, second = _checks.pair(a, b, least=2)
    difference = first - second
    if np.ptp(difference) == 0:
        return 0.0 if difference[0] else 1.0
    return float(stats.ttest_1samp(difference, 0.0).pvalue)


def mcnemar_exact(b: SupportsIndex, c: SupportsIndex) -> float:
    """McNemar's exact test: two-sided binomial p-value of b against c (McNemar 1947).

    Args:
        b: Pairs in which only the first succeeds.
        c: Pairs in which only the second succeeds.

    Returns:
        The p-value, in (0, 1]; 1 when no pair differs (b = c = 0).

    Raises:
        ValueError: If a count is negative or not an integer.

    Example:
        >>> round(mcnemar_exact(10, 2), 4)  # 2 (1 + 12 + 66) / 2**12
        0.0386
    """
    from scipy import stats

    first, second = _checks.count(b, "b"), _checks.count(c, "c")
    if first + second == 0:
        return 1.0
    return float(stats.binomtest(first, first + second).pvalue)


def holm(p_values: ArrayLike) -> list[float]:
    """p-values adjusted for being several (Holm 1979): reject those that are <= alpha.

    The i-th smallest of m (i from 0) is multiplied by m - i, kept at least as large as the one
    before it and at most 1. The chance of any false rejection is then <= alpha, however the
    tests depend on each other.

    Args:
        p_values: Shape ``(tests,)``, each in [0, 1].

    Returns:
        The adjusted p-values, in the order given.

    Raises:
        ValueError: If there are none, or one is outside [0, 1].

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    array = _probabilities(p_values, "p_values")
    order = np.argsort(array, kind="stable")
    factors = np.arange(len(array), 0, -1)
    adjusted = np.minimum(np.maximum.accumulate(array[order] * factors), 1.0)
    result = np.empty_like(array)
    result[order] = adjusted
    return result.tolist()


def poisson_binomial_sf(k: SupportsIndex, probabilities: ArrayLike) -> float:
    """P(X > k) of a sum X of independent trials with unequal probabilities, exactly.

    As in scipy, ``sf`` is strict: the p-value of seeing at least k successes is
    ``poisson_binomial_sf(k - 1, probabilities)``. The distribution is built up trial by trial
    (Barlow & Heidtmann 1984), in O(n^2); only positive terms are added, so a small tail keeps
    its relative accuracy.

    Args:
        k: Number of successes, >= -1.
        probabilities: Shape ``(trials,)``, each in [0, 1].

    Returns:
        The tail probability, in [0, 1].

    Raises:
        ValueError: If there are no trials, a probability is outside [0, 1], or ``k`` is not an
            integer or below -1.

    Example:
        >>> round(poisson_binomial_sf(1, [0.5, 0.2, 0.1]), 4)  # 2 of 3: .09+.04+.01, 3: .01
        0.15
    """
    array = _probabilities(probabilities, "probabilities")
    threshold = _checks.count(k, "k", least=-1)
    mass = np.zeros(len(array) + 1)
    mass[0] = 1.0
    for done, chance in enumerate(array, start=1):
        mass[1 : done + 1] = mass[1 : done + 1] * (1 - chance) + mass[:done] * chance
        mass[0] *= 1 - chance
    return min(float(mass[threshold + 1 :].sum()), 1.0)


class ChiSquare(NamedTuple):
    """Pearson's statistic, its degrees of freedom (merged bins - 1) and its p-value."""

    statistic: float
    df: int
    p_value: float


def chi2_gof(observed: ArrayLike, expected: ArrayLike, *, min_expected: float = 5.0) -> ChiSquare:
    """Pearson's chi-square test of goodness of fit (Pearson 1900), rare bins merged.

    Bins are taken from the rarest up and pooled until a pool expects ``min_expected`` (Cochran
    1954's rule of 5); the order of the bins plays no part. What is merged depends on
    ``expected`` alone, so the null distribution holds. A count in a bin that expects 0 refutes
    the null at once (statistic inf, p 0), where pooling would hide it.

    Args:
        observed: Shape ``(bins,)``, counts.
        expected: Shape ``(bins,)``, expected counts, with the same sum as ``observed`` (to 1e-6
            of it, room for float32 probabilities).
        min_expected: Least expected count of a merged bin, > 0.

    Returns:
        The statistic, the degrees of freedom and the p-value.

    Raises:
        ValueError: If the lengths or the sums differ, a count is negative or not finite,
            ``observed`` is not of whole numbers, ``min_expected`` is not positive, or fewer
            than two bins are left after merging.

    Example:
        >>> statistic, df, p = chi2_gof([30, 20, 7, 3], [25, 25, 6, 4])  # 25/25 + 25/25 + 0
        >>> statistic, df, round(p, 4)  # 7 + 3 stand against 6 + 4; p = exp(-1)
        (2.0, 2, 0.3679)
    """
    from scipy import stats

    counts, wanted = _goodness_input(observed, expected, min_expected)
    pools = _pools(wanted, min_expected)
    if counts[wanted == 0].any():
        return ChiSquare(float("inf"), max(len(pools) - 1, 0), 0.0)
    if len(pools) < 2:
        raise ValueError(
            f"expected must leave 2 bins of at least {min_expected} after merging, "
            f"got {len(pools)} from a total of {wanted.sum():g}"
        )
    seen = np.array([counts[pool].sum() for pool in pools])
    mean = np.array([wanted[pool].sum() for pool in pools])
    statistic = float(((seen - mean) ** 2 / mean).sum())
    return ChiSquare(statistic, len(pools) - 1, float(stats.chi2.sf(statistic, len(pools) - 1)))


def _goodness_input(
    observed: ArrayLike, expected: ArrayLike, min_expected: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    counts, wanted = _checks.sample(observed, "observed"), _checks.sample(expected, "expected")
    if len(counts) != len(wanted):
        raise ValueError(
            f"observed and expected must have one length, got {len(counts)} and {len(wanted)}"
        )
    if (counts < 0).any() or (wanted < 0).any() or (counts != np.floor(counts)).any():
        raise ValueError("observed must be whole counts >= 0 and expected must be >= 0")
    if not min_expected > 0:
        raise ValueError(f"min_expected must be positive, got {min_expected}")
    if abs(counts.sum() - wanted.sum()) > 1e-6 * counts.sum():
        raise ValueError(
            f"expected must sum to the {counts.sum():g} observed, got {wanted.sum():g}"
        )
    return counts, wanted


def _pools(wanted: NDArray[np.float64], min_expected: float) -> list[list[int]]:
    pools: list[list[int]] = []
    pool: list[int] = []
    for index in np.argsort(wanted, kind="stable").tolist():
        pool.append(index)
        if wanted[pool].sum() >= min_expected:
            pools.append(pool)
            pool = []
    if pool and pools:  # bins too small to stand alone, and none larger is left
        pools[-1].extend(pool)
    return pools


def _probabilities(values: ArrayLike, name: str) -> NDArray[np.float64]:
    array = _checks.sample(values, name)
    if (array < 0).any() or (array > 1).any():
        raise ValueError(f"{name} must be in [0, 1], got {array[(array < 0) | (array > 1)][0]}")
    return array
