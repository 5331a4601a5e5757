"""Rates of behaviours with intervals, per group and paired; needs numpy and scipy alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from icml.brokenmath.categories import BEHAVIOURS, CATEGORIES, Behaviour, Category, checked
from icml.core.errors import UserError
from icml.core.stats import Interval, bootstrap, mcnemar_exact, paired_bootstrap, wilson


@dataclass(frozen=True)
class RateTable:
    """How often each behaviour occurs among the answers that could be judged."""

    counts: Mapping[Category, int]
    """Answers of each category, ``invalid`` among them."""
    n: int
    """Answers that could be judged: the denominator."""
    rates: Mapping[Behaviour, Interval]
    """Fraction of ``n`` with Wilson's 95 % limits; empty if no answer could be judged."""
    bounds: tuple[float, float]
    """Sycophancy over all answers if none, or all, of the invalid ones are sycophantic."""

    @property
    def invalid(self) -> int:
        """Answers that could not be judged."""
        return self.counts["invalid"]

    @property
    def sycophancy(self) -> Interval | None:
        """The paper's number; None if no answer could be judged."""
        return self.rates.get("sycophant")


def rates(categories: Sequence[str]) -> RateTable:
    """Count behaviours and give each rate its interval (Sec. 4; intervals ours).

    Answers are taken as independent: several to one problem are not (see `clustered_sycophancy`).

    Args:
        categories: Of each answer.

    Raises:
        UserError: If a category is unknown, or there are none.

    Example:
        >>> table = rates(["sycophant"] * 8 + ["ideal"] * 2 + ["invalid"])
        >>> [round(x, 4) for x in table.sycophancy], table.n, table.bounds
        ([0.8, 0.4902, 0.9433], 10, (0.7272727272727273, 0.8181818181818182))
    """
    counted = Counter(categories)
    checked(counted)
    counts = {category: counted[category] for category in CATEGORIES}
    total, invalid, worst = sum(counts.values()), counts["invalid"], counts["sycophant"]
    n = total - invalid
    each = {name: wilson(counts[name], n) for name in BEHAVIOURS} if n else {}
    return RateTable(counts, n, each, (worst / total, (worst + invalid) / total))


def grouped_rates(
    categories: Sequence[str], groups: Sequence[Hashable]
) -> dict[Hashable, RateTable]:
    """Return the rates of each group (competition, type of question), in order of appearance.

    Each interval is at 95 %: nothing corrects for there being several.

    Args:
        categories: Of each answer.
        groups: Of each answer.

    Raises:
        UserError: If the lengths differ, or as in `rates`.
    """
    found = checked(categories)
    if len(groups) != len(found):
        raise UserError(f"groups must name each of {len(found)} answers, got {len(groups)} names")
    members: dict[Hashable, list[str]] = {}
    for category, group in zip(found, groups, strict=True):
        members.setdefault(group, []).append(category)
    return {group: rates(those) for group, those in members.items()}


def clustered_sycophancy(
    categories: Sequence[str],
    problems: Sequence[Hashable],
    *,
    resamples: int = 2000,
    seed: int,
) -> Interval:
    """Sycophancy when there are several answers to a problem: whole problems are resampled (ours).

    Invalid answers are left out; a problem all of whose answers are invalid is left out too.

    Args:
        categories: Of each answer.
        problems: Of each answer.
        resamples: How many.
        seed: Of the resampling.

    Raises:
        UserError: If the lengths differ, or fewer than two problems have a valid answer.
    """
    found = checked(categories)
    if len(problems) != len(found):
        raise UserError(f"problems must name each of {len(found)} answers, got {len(problems)}")
    kept = [
        (problem, category == "sycophant")
        for problem, category in zip(problems, found, strict=True)
        if category != "invalid"
    ]
    names = [problem for problem, _ in kept]
    if len(set(names)) < 2:
        raise UserError("the bootstrap over problems needs at least 2 with an answer that is valid")
    # Per problem the answers and the sycophantic ones: a resample is a sum of rows, however many
    # answers a problem has.
    sizes: dict[Hashable, list[int]] = {}
    for problem, sycophantic in kept:
        row = sizes.setdefault(problem, [0, 0])
        row[0] += sycophantic
        row[1] += 1
    rows = np.array(list(sizes.values()), dtype=np.float64)
    return bootstrap(
        rows,
        lambda drawn: float(drawn[:, 0].sum() / drawn[:, 1].sum()),
        n=resamples,
        seed=seed,
    )


@dataclass(frozen=True)
class Paired:
    """Two conditions or two models on the same problems."""

    pairs: int
    """Problems that both answered and that could be judged on both sides."""
    invalid_pairs: int
    """Problems that both answered, invalid on one side or both: left out."""
    only_a: int
    """Answers of A to problems that B has no answer to: left out."""
    only_b: int
    """The same for B."""
    sycophantic: tuple[int, int]
    """Of the pairs: how often A and B are sycophantic."""
    discordant: tuple[int, int]
    """Pairs in which A alone, and B alone, is sycophantic."""
    p_value: float
    """McNemar's exact test, two-sided."""
    difference: Interval
    """Sycophancy of A less that of B over the pairs, 95 % by paired bootstrap over problems."""


def compare_paired(
    a: Mapping[Any, str],
    b: Mapping[Any, str],
    *,
    common: bool = False,
    resamples: int = 2000,
    seed: int,
) -> Paired:
    """Compare sycophancy on the same problems (ours; the paper compares averages over unequal n).

    Args:
        a: Category of the answer to each problem.
        b: The same for the other side.
        common: Compare those problems that both have if they are not the same; what is left out is
            counted. Otherwise unequal sets are refused.
        resamples: Of the bootstrap.
        seed: Of the bootstrap.

    Raises:
        UserError: If the problems differ and ``common`` is not said, fewer than two pairs are left,
            or a category is unknown.

    Example:
        >>> a = {n: "sycophant" if n < 10 else "ideal" for n in range(40)}
        >>> b = {n: "sycophant" if n in (20, 21) else "ideal" for n in range(40)}
        >>> found = compare_paired(a, b, seed=0)
        >>> found.discordant, round(found.p_value, 4), found.difference.estimate
        ((10, 2), 0.0386, 0.2)
    """
    checked(a.values())
    checked(b.values())
    only_a, only_b = len(a.keys() - b.keys()), len(b.keys() - a.keys())
    if (only_a or only_b) and not common:
        raise UserError(
            f"A has {len(a)} problems and B has {len(b)}, {only_a} only in A and {only_b} only in "
            "B: averages over different problems say nothing; say common to compare those that "
            "both have"
        )
    both = [problem for problem in a if problem in b]
    pairs = [(a[p], b[p]) for p in both if "invalid" not in (a[p], b[p])]
    if len(pairs) < 2:
        raise UserError(f"a comparison needs at least 2 problems judged on both sides, got {pairs}")
    flags = np.array([[x == "sycophant", y == "sycophant"] for x, y in pairs], dtype=np.float64)
    first, second = flags[:, 0], flags[:, 1]
    alone_a, alone_b = int(((first - second) > 0).sum()), int(((second - first) > 0).sum())
    return Paired(
        pairs=len(pairs),
        invalid_pairs=len(both) - len(pairs),
        only_a=only_a,
        only_b=only_b,
        sycophantic=(int(first.sum()), int(second.sum())),
        discordant=(alone_a, alone_b),
        p_value=mcnemar_exact(alone_a, alone_b),
        difference=paired_bootstrap(first, second, n=resamples, seed=seed),
    )
