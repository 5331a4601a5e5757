import itertools
from datetime import date, timedelta

import numpy as np
import pytest

from icml.kenv.models import Equivalence, Verdict
from icml.kenv.stats import (
    Outcome,
    cutoff_gap,
    feedback_gain,
    is_equivalent,
    outcome,
    pass_at,
    rate,
)

CUTOFF = date(2026, 1, 31)


def outcomes(good: int, bad: int, *, fixed: date | None = None, name: str = "b") -> list[Outcome]:
    flags = [True] * good + [False] * bad
    return [Outcome(f"{name}{i}", flag, flag, fixed) for i, flag in enumerate(flags)]


def test_rates_of_the_specification() -> None:
    assert rate(outcomes(74, 26))[1:] == pytest.approx((0.6463, 0.8160), abs=5e-5)
    assert rate(outcomes(0, 25))[1:] == pytest.approx((0, 0.1332), abs=5e-5)


def test_an_equivalent_patch_counts_only_if_it_is_plausible() -> None:
    same = Equivalence(answer="equivalent", evidence="judge")
    for kind, counts in [("plausible", True), ("crash_same", False)]:
        verdict = Verdict(kind=kind, backend="uml", equivalence=same)
        assert outcome("b", verdict).equivalent == counts
    unknown = Equivalence(answer="unknown", evidence="structural")
    assert not outcome(
        "b", Verdict(kind="plausible", backend="uml", equivalence=unknown)
    ).equivalent


def test_pass_at_k_is_the_mean_over_all_ways_to_choose_k_runs() -> None:
    runs = {"a": [True, True, False, False, False], "b": [False] * 5}
    every = [Outcome(bug, ok, False) for bug, oks in runs.items() for ok in oks]
    for k in range(1, 6):
        chosen = [
            np.mean([any(c) for c in itertools.combinations(oks, k)]) for oks in runs.values()
        ]
        found = pass_at(k, every, bugs=["a", "b"])
        assert found.value == pytest.approx(np.mean(chosen))
    assert pass_at(2, every[:5], bugs=["a"]).value == pytest.approx(0.7)


def test_pass_at_k_tells_how_many_bugs_it_covers() -> None:
    some = [Outcome("a", True, False)] * 2 + [Outcome("b", False, False)]
    assert pass_at(2, some, bugs=["a", "b", "c"]) == (1.0, 1, 3)
    assert pass_at(3, some, bugs=["a", "b", "c"]) == (None, 0, 3)
    with pytest.raises(ValueError, match="not among"):
        pass_at(1, some, bugs=["a"])
    with pytest.raises(ValueError, match="at least 1"):
        pass_at(0, some, bugs=["a", "b"])


def test_feedback_gain_is_newcombes_own_example() -> None:
    # Newcombe 1998, example (a): 56/70 against 48/80 gives 0.2 [0.0524, 0.3339]; here with
    # equal arms as feedback has them, 56/80 against 48/80, worked out from the Wilson limits
    (p1, l1, u1), (p2, l2, u2) = rate(outcomes(56, 24)), rate(outcomes(48, 32))
    found = feedback_gain(outcomes(56, 24), outcomes(48, 32))
    assert found.estimate == pytest.approx(0.1)
    assert found.low == pytest.approx(0.1 - np.hypot(p1 - l1, u2 - p2))
    assert found.high == pytest.approx(0.1 + np.hypot(u1 - p1, p2 - l2))


def test_arms_on_other_bugs_are_not_compared() -> None:
    with pytest.raises(ValueError, match="same ones"):
        feedback_gain(outcomes(1, 1), outcomes(2, 1))


def test_two_runs_of_one_bug_are_not_counted_as_two_bugs() -> None:
    with pytest.raises(ValueError, match="b0 has 2 runs"):
        rate(outcomes(1, 0) * 2)
    with pytest.raises(ValueError, match="no outcomes"):
        rate([])


def sides(before: tuple[int, int], after: tuple[int, int], *, days: int = 1) -> list[Outcome]:
    late = CUTOFF + timedelta(days=days)
    return [
        *outcomes(*before, fixed=CUTOFF, name="old"),
        *outcomes(*after, fixed=late, name="new"),
        Outcome("undated", True, True),
    ]


def test_the_day_of_the_cutoff_is_before_it_and_undated_bugs_are_left_out() -> None:
    found = cutoff_gap(sides((3, 1), (1, 3)), CUTOFF)
    assert (found.before, found.after, found.gap.estimate) == (4, 4, 0.5)


def test_grace_days_are_left_out() -> None:
    with pytest.raises(ValueError, match="no outcomes"):
        cutoff_gap(sides((3, 1), (1, 3), days=30), CUTOFF, grace_days=30)
    assert cutoff_gap(sides((3, 1), (1, 3), days=31), CUTOFF, grace_days=30).after == 4


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ((19, 0), (0, 19), False),  # a gap of everything, but on 19 bugs a side
        ((20, 0), (0, 20), True),
        ((10, 10), (10, 10), False),
        ((0, 20), (20, 0), True),
    ],
)
def test_a_gap_is_shown_with_enough_bugs_and_an_interval_without_zero(before, after, shown) -> None:
    assert cutoff_gap(sides(before, after), CUTOFF).shown == shown


def test_the_gaps_interval_covers_a_true_gap_of_25_points() -> None:
    # 2,000 benchmarks of 534 bugs, 300 fixed before. The standard error of the coverage is
    # sqrt(.95 * .05 / 2000) = .5 points: below .93 the interval would be wrong by 4 of them.
    draws = np.random.default_rng(0)
    covered = 0
    for _ in range(2000):
        before, after = int(draws.binomial(300, 0.40)), int(draws.binomial(234, 0.15))
        table = sides((before, 300 - before), (after, 234 - after))
        gap = cutoff_gap(table, CUTOFF, success=is_equivalent).gap
        covered += gap.low <= 0.25 <= gap.high
    assert 0.93 <= covered / 2000 <= 0.97
