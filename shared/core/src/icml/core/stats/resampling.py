"""Bootstrap intervals and permutation tests: for many units, or where no formula fits."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icml.core.stats import _checks
from icml.core.stats.intervals import Interval

Statistic = Callable[[NDArray[np.float64]], float]


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean())


def _units(rows: int, clusters: Sequence[Hashable] | None) -> list[NDArray[np.intp]]:
    """Return the row numbers of each unit that is drawn as a whole."""
    if clusters is None:
        return [np.array([row]) for row in range(rows)]
    if len(clusters) != rows:
        raise ValueError(f"clusters must name each of {rows} rows, got {len(clusters)} names")
    members: dict[Hashable, list[int]] = {}
    for row, name in enumerate(clusters):
        members.setdefault(name, []).append(row)
    return [np.array(found) for found in members.values()]


def bootstrap(
    values: ArrayLike,
    statistic: Statistic = _mean,
    *,
    clusters: Sequence[Hashable] | None = None,
    n: int = 2000,
    level: float = 0.95,
    seed: int,
) -> Interval:
    """Percentile bootstrap interval of a statistic (Efron & Tibshirani 1993, Sec. 13.3).

    It is too narrow for few units: nominal 95 % covers 83 % of the time for the mean of 5
    normal values, 90 % for 10, 94 % for 30. Below 30 seeds use `t_interval`.

    Args:
        values: Shape ``(rows,)`` or ``(rows, columns)``; a row is drawn as a whole.
        statistic: Maps drawn rows (shaped as ``values``, any number of rows) to a number.
        clusters: Shape ``(rows,)``, the cluster of each row. Given, whole clusters are drawn
            (as many as there are), which is right when rows of one cluster (a task, a user)
            are not independent.
        n: Number of resamples.
        level: Confidence, a fraction.
        seed: Seed of the resampling; the same seed gives the same interval.

    Returns:
        The statistic of ``values`` and the percentile limits; zero width if all values are
        equal.

    Raises:
        ValueError: If there are fewer than two rows or clusters, a value is not finite,
            ``clusters`` has another length, the statistic is not finite on a resample, or
            ``n`` or ``level`` is out of range.

    Example:
        >>> mean, low, high = bootstrap(range(101), seed=0)
        >>> mean, 43 < low < 46, 54 < high < 57  # 50 ± 1.96 * 29.2 / sqrt(101)
        (50.0, True, True)
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 0:
        raise ValueError("values must have rows, got a single number")
    array = _checks.finite(array, "values", least=2)
    units = _units(len(array), clusters)
    if len(units) < 2:
        raise ValueError("clusters must name at least 2 clusters, got 1")
    n, level = _checks.count(n, "n", least=1), _checks.confidence(level)
    rng = np.random.default_rng(seed)
    draws = np.empty(n)
    for i in range(n):
        chosen = rng.integers(len(units), size=len(units))
        rows = chosen if clusters is None else np.concatenate([units[j] for j in chosen])
        draws[i] = statistic(array[rows])
    _checks.finite(draws, "the statistic of every resample")
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(statistic(array)), float(low), float(high))


def paired_bootstrap(
    a: ArrayLike,
    b: ArrayLike,
    statistic: Statistic = _mean,
    *,
    clusters: Sequence[Hashable] | None = None,
    n: int = 2000,
    level: float = 0.95,
    seed: int,
) -> Interval:
    """Bootstrap interval of ``statistic(a) - statistic(b)``, drawing pairs as a whole.

    Args:
        a: Shape ``(pairs,)``.
        b: Shape ``(pairs,)``, the same units (problems, tasks) in the same order.
        statistic: Maps drawn values of one side to a number.
        clusters: Shape ``(pairs,)``, as in `bootstrap`.
        n: Number of resamples.
        level: Confidence, a fraction.
        seed: Seed of the resampling.

    Returns:
        The difference and its percentile limits.

    Raises:
        ValueError: If the lengths differ, or as in `bootstrap`.

    Example:
        >>> [round(x, 9) for x in paired_bootstrap([3.0, 5.0, 9.0], [1.0, 3.0, 7.0], seed=0)]
        [2.0, 2.0, 2.0]
    """
    pairs = np.stack(_checks.pair(a, b, least=2), axis=1)

    def difference(rows: NDArray[np.float64]) -> float:
        return statistic(rows[:, 0]) - statistic(rows[:, 1])

    return bootstrap(pairs, difference, clusters=clusters, n=n, level=level, seed=seed)


def _mean_difference(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    return float(a.mean() - b.mean())


def _covariance(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    # Orders the permutations as the correlation does (the spreads never change), and is
    # defined for a constant sample, where every permutation ties and p is 1.
    return float(np.mean((a - a.mean()) * (b - b.mean())))


_KINDS = {"groups": "independent", "pairs": "samples", "matching": "pairings"}


def permutation_test(
    a: ArrayLike,
    b: ArrayLike,
    statistic: Callable[[NDArray[np.float64], NDArray[np.float64]], float] | None = None,
    *,
    kind: Literal["groups", "pairs", "matching"],
    n: int = 9999,
    seed: int,
) -> float:
    """Two-sided permutation p-value: how often ``|statistic|`` is as large by chance.

    Every permutation is counted when there are at most ``n``; else ``n`` random ones are, and
    the data count as one more, so that p is never 0 (Phipson & Smyth 2010).

    Args:
        a: Shape ``(rows_a,)``.
        b: Shape ``(rows_b,)``; ``rows_b == rows_a`` but for ``kind="groups"``.
        statistic: A number that is near 0 if the null holds. By default the difference of the
            means, and for ``kind="matching"`` the covariance (the same p as the correlation).
        kind: What the null allows: "groups" moves values between two independent samples,
            "pairs" swaps the two members of a pair, "matching" pairs the values anew (does
            ``a`` go with ``b``?).
        n: Most permutations to count.
        seed: Seed of the random permutations.

    Returns:
        The p-value, in (0, 1].

    Raises:
        ValueError: If a sample has fewer than two values, one is not finite, the lengths of
            paired samples differ, or ``kind`` or ``n`` is out of range.

    Example:
        >>> permutation_test([1.0, 2.0, 3.0], [4.0, 5.0, 6.0], kind="groups", seed=0)  # 2 of 20
        0.1
    """
    from scipy import stats

    if kind not in _KINDS:
        raise ValueError(f"kind must be one of {', '.join(_KINDS)}, got {kind!r}")
    if kind == "groups":
        first, second = _checks.sample(a, "a", least=2), _checks.sample(b, "b", least=2)
    else:
        first, second = _checks.pair(a, b, least=2)
    measure = statistic or (_covariance if kind == "matching" else _mean_difference)

    def size(*samples: NDArray[np.float64]) -> float:
        # scipy hands "pairings" only the sample that it permutes.
        other = samples[1] if len(samples) == 2 else second
        return abs(measure(samples[0], other))

    outcome = stats.permutation_test(
        (first,) if kind == "matching" else (first, second),
        size,
        permutation_type=_KINDS[kind],
        n_resamples=_checks.count(n, "n", least=1),
        alternative="greater",
        random_state=np.random.default_rng(seed),
        vectorized=False,
    )
    return float(outcome.pvalue)
