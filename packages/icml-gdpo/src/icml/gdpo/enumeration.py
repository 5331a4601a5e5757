"""How many different advantages a group of binary rewards can get, counted exactly by enumeration.

No floating point: an advantage is a sum of rational multiples of square roots of square-free
integers, and such sums are equal exactly when their coefficients are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import comb
from typing import NamedTuple

PAPER_GRID = ((2, 2), (2, 3), (2, 4), (2, 5), (2, 6), (3, 2), (3, 3), (3, 4), (4, 2), (4, 3))
"""(rewards, group size) pairs: the sizes at which the paper compares the two methods."""

MAX_GROUPS = 1_000_000
"""Ours: more groups than this take minutes."""

Surd = frozenset[tuple[int, Fraction]]
"""A sum of ``coefficient * sqrt(square-free integer)``; equal sums are equal sets."""


class DistinctCounts(NamedTuple):
    """Numbers of distinct groups, where a group is the multiset of its advantages.

    Attributes:
        rewards: Number of binary rewards.
        group_size: Completions in a group.
        groups: Multisets of reward vectors: the most that could be told apart.
        grpo: Distinct advantage multisets when the rewards are added first.
        gdpo: The same when each reward is normalised first (before the batch norm).
    """

    rewards: int
    group_size: int
    groups: int
    grpo: int
    gdpo: int


def distinct_counts(rewards: int, group_size: int) -> DistinctCounts:
    """Count the distinct advantages over all groups of binary reward vectors.

    **Differs from the paper:** eps is 0 here, so that equal means equal. Any eps > 0 pulls apart
    groups that GRPO merges, by about eps; counts of rounded advantages then depend on the digits
    (two rewards in a group of five give GRPO 13 at eps=1e-4 and three digits, 11 without eps).

    Args:
        rewards: Number of rewards, >= 1.
        group_size: Completions in a group, >= 1.

    Returns:
        The counts; ``grpo <= gdpo <= groups`` held at every size tried.

    Raises:
        ValueError: If an argument is below 1 or there are more than ``MAX_GROUPS`` groups.

    Example:
        >>> distinct_counts(2, 4)
        DistinctCounts(rewards=2, group_size=4, groups=35, grpo=7, gdpo=14)
    """
    if rewards < 1 or group_size < 1:
        raise ValueError(f"rewards={rewards} and group_size={group_size} must be at least 1")
    # 2**20 vectors are past the limit in any group; the check keeps comb() from huge numbers.
    total = comb(2**rewards + group_size - 1, group_size) if rewards <= 20 else MAX_GROUPS + 1
    if total > MAX_GROUPS:
        raise ValueError(
            f"rewards={rewards} with group_size={group_size} makes more than {MAX_GROUPS:,} "
            "groups; choose smaller numbers"
        )
    grpo, gdpo = set(), set()
    vectors = list(product((0, 1), repeat=rewards))
    for group in combinations_with_replacement(vectors, group_size):
        grpo.add(_multiset(_add([column]) for column in _standardize([sum(v) for v in group])))
        columns = [_standardize(column) for column in zip(*group, strict=True)]
        gdpo.add(_multiset(_add(row) for row in zip(*columns, strict=True)))
    return DistinctCounts(rewards, group_size, total, len(grpo), len(gdpo))


def distinct_table(sizes: Iterable[tuple[int, int]] = PAPER_GRID) -> list[DistinctCounts]:
    """Return :func:`distinct_counts` for each (rewards, group size) pair.

    Args:
        sizes: Pairs of numbers >= 1; the paper's by default.
    """
    return [distinct_counts(rewards, group_size) for rewards, group_size in sizes]


def _standardize(values: Sequence[int]) -> list[tuple[int, Fraction]]:
    """Return (square-free q, c) for each value: its standard score is c * sqrt(q) * constant.

    With n values, sum S and sum of squares Q, the score is (n x - S) / sqrt(n Q - S^2) times
    sqrt((n - 1) / n), a factor that all groups of one size share and that is left out.
    """
    n, total = len(values), sum(values)
    variance = n * sum(x * x for x in values) - total * total
    if variance == 0:
        return [(1, Fraction(0))] * n
    root, free = _square_part(variance)
    return [(free, Fraction((n * x - total) * root, variance)) for x in values]


def _square_part(number: int) -> tuple[int, int]:
    """Return (a, q) with number = a^2 q and q square-free."""
    root, free = 1, number
    factor = 2
    while factor * factor <= free:
        while free % (factor * factor) == 0:
            free //= factor * factor
            root *= factor
        factor += 1
    return root, free


def _add(terms: Iterable[tuple[int, Fraction]]) -> Surd:
    total: dict[int, Fraction] = {}
    for free, coefficient in terms:
        total[free] = total.get(free, Fraction(0)) + coefficient
    return frozenset((free, c) for free, c in total.items() if c)


def _multiset(values: Iterator[Surd]) -> tuple[tuple[tuple[int, Fraction], ...], ...]:
    return tuple(sorted(tuple(sorted(value)) for value in values))
