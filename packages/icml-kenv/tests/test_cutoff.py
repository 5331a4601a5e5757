from datetime import date, timedelta

import numpy as np
import pytest

from icml.core.stats import newcombe, wilson
from icml.kenv.cutoff import by_month, gap_at, rate_over_bugs
from icml.kenv.leaderboard import slices, standings
from icml.kenv.results import Result
from icml.kenv.stats import Outcome, is_equivalent

CUTOFF = date(2025, 6, 30)


def side(name: str, hits: int, n: int, day: date, runs: int = 1) -> list[Outcome]:
    return [Outcome(f"{name}{i}", i < hits, i < hits, day) for i in range(n) for _ in range(runs)]


def test_one_run_a_bug_gives_wilsons_and_newcombes_intervals() -> None:
    late = CUTOFF + timedelta(days=1)
    found = gap_at(CUTOFF, side("a", 56, 70, CUTOFF) + side("b", 48, 80, late))
    assert found.before.interval == wilson(56, 70)
    assert found.difference == pytest.approx(newcombe(56, 70, 48, 80))
    assert found.shown


def test_a_bug_that_ran_often_counts_once() -> None:
    rows = side("a", 1, 1, CUTOFF, runs=9) + side("b", 0, 1, CUTOFF)
    assert rate_over_bugs(rows).interval.estimate == 0.5
    assert rate_over_bugs(rows)[1:] == (2, 10)


def test_bugs_that_are_all_alike_are_no_certainty() -> None:
    found = rate_over_bugs(side("a", 0, 30, CUTOFF, runs=3)).interval
    assert found == wilson(0, 30)  # drawing bugs again would give [0, 0]


@pytest.mark.parametrize(("before", "after"), [(19, 200), (200, 19), (0, 50), (50, 0)])
def test_small_samples_are_refused_with_their_numbers(before, after) -> None:
    late = CUTOFF + timedelta(days=1)
    found = gap_at(CUTOFF, side("a", before, before, CUTOFF) + side("b", 0, after, late))
    assert (found.difference, found.shown) == (None, False)
    assert f"{before} bugs fixed before the cutoff and {after} after it" in found.refused


def test_days_of_grace_can_turn_a_gap_into_a_refusal() -> None:
    rows = side("a", 30, 30, CUTOFF) + side("b", 0, 30, CUTOFF + timedelta(days=30))
    assert gap_at(CUTOFF, rows, grace_days=29).shown
    assert "0 after it" in gap_at(CUTOFF, rows, grace_days=30).refused


def test_months_are_those_of_the_fix() -> None:
    rows = [
        Outcome("a", True, False, date(2025, 1, 31)),
        Outcome("b", False, False, date(2025, 1, 1)),
        Outcome("c", True, False, date(2024, 12, 31)),
        Outcome("d", True, False, None),
    ]
    found = by_month(rows)
    assert [(m, r.interval.estimate) for m, r in found] == [
        (date(2024, 12, 1), 1.0),
        (date(2025, 1, 1), 0.5),
    ]


@pytest.mark.parametrize("runs", [1, 3])
def test_the_gap_covers_a_true_gap_of_25_points(runs) -> None:
    # 400 benchmarks; a coverage of .95 has a standard error of 1.1 points: .91 is 3.7 of them off.
    # benchmarks/cutoff.py has 2,000.
    draws = np.random.default_rng(1)
    late, covered = CUTOFF + timedelta(days=1), 0
    for _ in range(400 if runs == 1 else 100):
        rows = [
            Outcome(f"{day}{bug}", False, bool(ok), day)
            for day, n, rate in ((CUTOFF, 300, 0.40), (late, 234, 0.15))
            for bug, oks in enumerate(draws.random((n, runs)) < rate)
            for ok in oks
        ]
        gap = gap_at(CUTOFF, rows, success=is_equivalent).difference
        covered += gap.low <= 0.25 <= gap.high
    # with three runs 100 benchmarks: .95 less 4 standard errors of 2.2 points
    assert covered >= (0.91 * 400 if runs == 1 else 0.86 * 100)


def row(bug: str, kind: str = "plausible", **more) -> Result:
    return Result(**{"agent": "a", "bug": bug, "title": "t", "kind": kind, **more})


def test_what_failed_outside_of_the_kernel_counts_nowhere() -> None:
    (found,) = standings([row("b"), row("c", "crash_same"), row("d", "infra_error")], {})
    assert (found.plausible.interval, found.not_tried) == (wilson(1, 2), 1)


def test_pass_at_k_is_unbiased_and_tells_its_coverage() -> None:
    rows = [row("b", "plausible" if n < 2 else "crash_same", run=n + 1) for n in range(5)]
    (found,) = standings([*rows, row("c")], {})
    assert found.pass_at[3].value == pytest.approx(1 - 1 / 10)  # 1 - C(3,3) / C(5,3)
    assert (found.pass_at[3].covered, found.pass_at[3].bugs) == (1, 2)
    assert found.pass_at[1].value == pytest.approx((0.4 + 1) / 2)


def test_slices_list_the_most_frequent_values_and_count_the_rest_once() -> None:
    rows = [row(f"b{n}", subsystems=[f"s{n:02}", "net"]) for n in range(40)]
    (system,) = {r.system for r in rows}
    found = slices(rows, [system], lambda r: r.subsystems)
    assert (found[0].value, found[0].bugs) == ("net", 40)
    assert (found[-1].value, found[-1].bugs) == ("18 others", 18)
    assert len(found) == 24
