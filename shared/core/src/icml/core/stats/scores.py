"""Scores of rankings, raters and samples that evaluations report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from math import comb
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from icml.core.stats import _checks


def auroc(labels: ArrayLike, scores: ArrayLike) -> float:
    """Area under the ROC curve: P(a positive outscores a negative), ties counting half.

    By ranks (Mann & Whitney 1947): ``(R+ - n+ (n+ + 1) / 2) / (n+ n-)``, R+ the sum of the
    positives' mid-ranks.

    Args:
        labels: Shape ``(n,)``, booleans or 0 and 1, both present.
        scores: Shape ``(n,)``, larger for "more likely positive"; infinite ones are ranked.

    Returns:
        The area, in [0, 1]; 0.5 when all scores are equal.

    Raises:
        ValueError: If the lengths differ, a label is neither 0 nor 1, one class is missing (the
            area is then undefined), or a score is NaN.

    Example:
        >>> auroc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])  # 3 of 4 pairs in order
        0.75
    """
    from scipy import stats

    truth = _checks.sample(labels, "labels")
    values = np.asarray(scores, dtype=np.float64)
    if values.shape != truth.shape:
        raise ValueError(f"scores must have shape {truth.shape}, got {values.shape}")
    if np.isnan(values).any():
        raise ValueError("scores must not be NaN")
    if not np.isin(truth, (0, 1)).all():
        raise ValueError("labels must be 0 or 1 (the order is auroc(labels, scores))")
    positives = int(truth.sum())
    negatives = len(truth) - positives
    if not positives or not negatives:
        raise ValueError(f"labels must hold both classes, got {positives} of {len(truth)} ones")
    ranks = stats.rankdata(values)[truth == 1].sum()
    return float((ranks - positives * (positives + 1) / 2) / (positives * negatives))


def cohen_kappa(a: Sequence[Hashable], b: Sequence[Hashable]) -> float:
    """Agreement of two raters beyond chance (Cohen 1960): ``(p_o - p_e) / (1 - p_e)``.

    Args:
        a: Shape ``(n,)``, the first rater's labels.
        b: Shape ``(n,)``, the second rater's labels of the same items.

    Returns:
        Kappa, in [-1, 1]: 1 for full agreement, 0 for what the raters' own label shares give.

    Raises:
        ValueError: If there are no items, the lengths differ, or both raters gave every item
            one and the same label (kappa is then 0/0).

    Example:
        >>> cohen_kappa([1, 1, 0, 0], [1, 0, 0, 0])  # (.75 - .5) / (1 - .5)
        0.5
    """
    if len(a) != len(b) or not len(a):
        raise ValueError(f"a and b must label the same items, got {len(a)} and {len(b)} labels")
    n = len(a)
    agreed = sum(x == y for x, y in zip(a, b, strict=True))
    first, second = Counter(a), Counter(b)
    chance = sum(first[label] * second[label] for label in first)  # n^2 p_e, a whole number
    if chance == n * n:
        raise ValueError("kappa is undefined: both raters gave every item the same label")
    return (n * agreed - chance) / (n * n - chance)


def kendall(a: ArrayLike, b: ArrayLike) -> float:
    """Kendall's tau-b (Kendall 1945): concordant less discordant pairs, adjusted for ties.

    Args:
        a: Shape ``(n,)``, n >= 2, scores or ranks.
        b: Shape ``(n,)``, of the same items.

    Returns:
        Tau-b, in [-1, 1].

    Raises:
        ValueError: If the lengths differ, fewer than two items are given, a value is not
            finite, or one side is constant (it ranks nothing).

    Example:
        >>> round(kendall([1, 2, 3], [1, 3, 2]), 4)  # (2 - 1) / 3
        0.3333
    """
    from scipy import stats

    first, second = _checks.pair(a, b, least=2)
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        raise ValueError("tau is undefined: one side gives every item the same value")
    return float(stats.kendalltau(first, second).statistic)


def pass_at_k(n: SupportsIndex, c: SupportsIndex, k: SupportsIndex) -> float:
    """Unbiased estimate of P(one of k samples is right) (Chen et al. 2021, Eq. 1).

    ``1 - C(n-c, k) / C(n, k)``, in whole numbers up to the last division.

    Args:
        n: Samples drawn for the problem.
        c: Samples of them that are right.
        k: Samples a user would draw, from 1 to n.

    Returns:
        The estimate, in [0, 1].

    Raises:
        ValueError: If not ``0 <= c <= n`` and ``1 <= k <= n``, or one is not an integer.

    Example:
        >>> round(pass_at_k(5, 2, 2), 4)  # 1 - C(3,2) / C(5,2)
        0.7
    """
    total = _checks.count(n, "n", least=1)
    right = _checks.count(c, "c", most=total)
    size = _checks.count(k, "k", least=1, most=total)
    every = comb(total, size)
    return (every - comb(total - right, size)) / every
