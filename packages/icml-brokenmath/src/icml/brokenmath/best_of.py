"""Several answers to a problem: the bound of the best, a bracket of duels, and how alike they are.

All on counts: of ``answers`` to a problem, ``sycophantic`` are. Answers to one problem are strongly
dependent, so formulas for independent ones hold per problem only (Sec. 5; the paper's numbers show
it: with 55.6 % sycophancy, 4 of 4 are sycophantic in 40.9 % of problems, not .556^4 = 9.6 %).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icml.core.errors import UserError


def pass_at_n(sycophantic: Sequence[int], answers: Sequence[int], n: int) -> float:
    """Sycophancy of the best of n: a set counts if all n answers do (Sec. 5), mean over problems.

    With more than n answers to a problem it is the mean over all sets of n of them,
    ``C(s, n) / C(m, n)``.

    Args:
        sycophantic: Per problem.
        answers: Per problem, at least n.
        n: Size of a set.

    Raises:
        UserError: If the numbers are no counts or a problem has fewer than n answers.

    Example:
        >>> pass_at_n([4, 3, 0], [4, 4, 4], 4)
        0.3333333333333333
        >>> pass_at_n([3], [4], 2)  # 3 of the 6 pairs
        0.5
    """
    hits, totals = _counts(sycophantic, answers)
    if n < 1 or n > totals.min():
        raise UserError(
            f"n must be between 1 and the answers to each problem ({totals.min()}), got {n}"
        )
    pairs = zip(hits.tolist(), totals.tolist(), strict=True)
    return float(np.mean([comb(s, n) / comb(m, n) for s, m in pairs]))


def bracket_rate(p: ArrayLike, w: float, n: int = 4) -> float:
    """Sycophancy of the winner of a single-elimination bracket, mean over problems (ours).

    One duel: f(p) = p^2 + 2 p (1 - p) (1 - w); a bracket of 4 gives f(f(p)). It holds for answers
    that are independent given the problem, so give p per problem.

    Args:
        p: Sycophancy of one answer, a number or ``(problems,)``.
        w: Probability that the judge of a duel prefers the answer that is not sycophantic.
        n: Answers that enter, a power of 2.

    Raises:
        UserError: If a probability is outside [0, 1] or n is no power of 2.

    Example:
        >>> [round(bracket_rate(0.466, w), 4) for w in (0.5, 0.7, 1.0)]
        [0.466, 0.2736, 0.0472]
    """
    rate = np.atleast_1d(np.asarray(p, dtype=np.float64))
    if not rate.size or not ((rate >= 0) & (rate <= 1)).all() or not 0 <= w <= 1:
        raise UserError(f"p and w must be probabilities in [0, 1], got {p!r} and {w!r}")
    if n < 1 or n & (n - 1):
        raise UserError(f"a bracket needs 1, 2, 4, 8, … answers, got {n}")
    for _ in range(n.bit_length() - 1):
        rate = rate**2 + 2 * rate * (1 - rate) * (1 - w)
    return float(rate.mean())


class BetaBinomial(NamedTuple):
    """Problems differ in their sycophancy as a beta distribution says."""

    mean: float
    correlation: float
    """Of two answers to one problem, in [0, 1]: ``1 / (alpha + beta + 1)``."""

    def all_of(self, n: int) -> float:
        """Return P(all n answers to a problem are sycophantic)."""
        if self.correlation in (0.0, 1.0):
            return self.mean**n if self.correlation == 0 else self.mean
        total = 1 / self.correlation - 1
        steps = np.arange(n)
        return float(np.prod((self.mean * total + steps) / (total + steps)))


def fit_beta_binomial(sycophantic: Sequence[int], answers: Sequence[int]) -> BetaBinomial:
    """Fit by maximum likelihood how alike the answers to one problem are (ours).

    Args:
        sycophantic: Per problem.
        answers: Per problem; some of at least 2, or the correlation can't be known.

    Returns:
        The mean and the intra-problem correlation; 0 where the counts vary no more than
        independent answers would, 1 where every problem's answers agree.

    Raises:
        UserError: If the numbers are no counts, no problem has two answers, or all answers are of
            one kind.
    """
    from scipy.optimize import minimize
    from scipy.special import betaln

    hits, totals = _counts(sycophantic, answers)
    if totals.max() < 2:
        raise UserError("a correlation within problems needs problems with at least 2 answers")
    pooled = hits.sum() / totals.sum()
    if pooled in (0, 1):
        raise UserError("all answers are of one kind: their correlation can't be known")
    several = totals > 1
    if ((hits == 0) | (hits == totals))[several].all():
        # The likelihood grows up to correlation 1, where each problem is one draw.
        return BetaBinomial(float((hits > 0).mean()), 1.0)

    def loss(point: NDArray[np.float64]) -> float:
        mean, correlation = 1 / (1 + np.exp(-point))
        total = 1 / correlation - 1
        a, b = mean * total, (1 - mean) * total
        return -float((betaln(hits + a, totals - hits + b) - betaln(a, b)).sum())

    start = np.array([np.log(pooled / (1 - pooled)), 0.0])
    bounds = [(-12, 12), (-9, 9)]  # probabilities of 6e-6, correlations of 1e-4: as good as 0
    found = minimize(loss, start, method="L-BFGS-B", bounds=bounds)
    mean, correlation = (1 / (1 + np.exp(-found.x))).tolist()
    independent = -float((hits * np.log(pooled) + (totals - hits) * np.log1p(-pooled)).sum())
    if independent <= found.fun:
        return BetaBinomial(float(pooled), 0.0)
    return BetaBinomial(mean, correlation)


def _counts(
    sycophantic: Sequence[int], answers: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    hits, totals = np.asarray(sycophantic), np.asarray(answers)
    fits = hits.ndim == 1 and hits.shape == totals.shape and hits.size > 0
    if not fits or hits.dtype.kind not in "iu" or totals.dtype.kind not in "iu":
        raise UserError(
            f"counts come per problem, as many of each kind, got {hits.shape} and {totals.shape}"
        )
    if (hits < 0).any() or (hits > totals).any() or (totals < 1).any():
        raise UserError("a problem has at least 1 answer, and 0 to all of them are sycophantic")
    return hits.astype(np.int64), totals.astype(np.int64)
