import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml.kenv.models import BuildResult, CompileError, CrashReport, RunResult
from icml.kenv.verdict import (
    ReproducerDoesNotReproduce,
    decide_build,
    decide_runs,
    freeze_baseline,
    plan_runs,
)

TITLES = ["kernel BUG in f", "bad-access in f"]


def crash(title: str = TITLES[0]) -> CrashReport:
    return CrashReport(title=title, kind="BUG", raw="", start=0, end=1)


def run(*, booted=True, finished=True, crashed=None, infra=None) -> RunResult:
    return RunResult(booted=booted, finished=finished, crash=crashed, seconds=1, infra=infra)


CLEAN, HUNG, DEAD = run(), run(finished=False), run(booted=False, finished=False)
NO_QEMU = run(booted=False, finished=False, infra="no qemu")
SAME, OTHER = run(crashed=crash()), run(crashed=crash("WARNING in g"))
EARLY = run(booted=False, finished=False, crashed=crash("kernel panic: VFS"))


@pytest.mark.parametrize(("crashes", "runs"), [(1, 5), (5, 5), (14, 15), (15, 15), (3, 40)])
def test_the_number_of_runs_is_the_smallest_that_meets_the_bound(crashes, runs) -> None:
    rate, z = crashes / runs, 1.959963984540054
    spread = z * math.sqrt(rate * (1 - rate) / runs + z**2 / (4 * runs**2))
    low = (rate + z**2 / (2 * runs) - spread) / (1 + z**2 / runs)  # Wilson 1927
    wanted = next(n for n in itertools.count(1) if (1 - low) ** n <= 0.01)
    plan = plan_runs(crashes, runs)
    assert plan.crash_rate_low == pytest.approx(low)
    assert plan.runs == min(max(wanted, 3), 25)
    assert plan.false_plausible_bound == pytest.approx((1 - low) ** plan.runs)


def test_the_number_of_runs_at_rates_worked_out_by_hand() -> None:
    # log(.01) / log(1 - p): 6.6 for p = .5 and 20.6 for p = .2; fifteen of fifteen give p_L = .796
    assert [math.ceil(math.log(0.01) / math.log(1 - p)) for p in (0.5, 0.2)] == [7, 21]
    assert plan_runs(15, 15).crash_rate_low == pytest.approx(15 / (15 + 1.959964**2))
    assert (plan_runs(15, 15).runs, plan_runs(14, 15).runs, plan_runs(1, 15).runs) == (3, 4, 25)


def test_a_chosen_number_of_runs_comes_with_its_own_bound() -> None:
    plan = plan_runs(15, 15, wanted=1)
    assert plan.false_plausible_bound == pytest.approx(1 - plan.crash_rate_low)
    with pytest.raises(ValueError, match="at least 1"):
        plan_runs(15, 15, wanted=0)


def test_without_a_crash_of_the_unpatched_kernel_there_is_no_plan() -> None:
    with pytest.raises(ReproducerDoesNotReproduce, match="none of 15"):
        plan_runs(0, 15)


def test_a_baseline_counts_valid_runs_and_tells_titles_apart() -> None:
    frozen = freeze_baseline("uml", [SAME, SAME, OTHER, CLEAN, HUNG, EARLY, NO_QEMU], TITLES)
    assert (frozen.runs, frozen.crashes) == (4, 2)
    assert frozen.titles == {"kernel BUG in f": 2, "WARNING in g": 1, "": 1}


def test_a_baseline_that_crashes_elsewhere_only_is_no_baseline() -> None:
    with pytest.raises(ReproducerDoesNotReproduce, match="titles seen: WARNING in g"):
        freeze_baseline("uml", [OTHER, CLEAN, DEAD], TITLES)


@pytest.mark.parametrize(
    ("built", "booted", "finished", "crashed"), list(itertools.product([False, True], repeat=4))
)
def test_every_combination_of_build_boot_end_and_crash(built, booted, finished, crashed) -> None:
    build = BuildResult(ok=built, seconds=1)
    each = run(booted=booted, finished=finished, crashed=crash() if crashed else None)
    found = decide_build(build) or decide_runs([each] * 3, wanted=3, titles=TITLES)

    if not built:
        wanted = "build_failed"
    elif not booted:
        wanted = "boot_failed"
    elif crashed:
        wanted = "crash_same"
    else:
        wanted = "plausible" if finished else "flaky"
    assert found is not None
    assert found.kind == wanted


kinds_of_run = st.sampled_from([CLEAN, HUNG, DEAD, NO_QEMU, SAME, OTHER, EARLY])


@given(st.lists(kinds_of_run, max_size=12), st.integers(1, 5))
def test_plausible_takes_the_wanted_number_of_valid_runs_and_no_crash(runs, wanted) -> None:
    found = decide_runs(runs, wanted=wanted, titles=TITLES)
    if found is not None and found.kind == "plausible":
        valid = [each for each in runs if each.valid]
        assert len(valid) >= wanted
        assert all(each.crash is None for each in valid[:wanted])


@given(st.lists(kinds_of_run, max_size=12), st.integers(1, 5))
def test_a_decision_stays_whatever_runs_follow(runs, wanted) -> None:
    found = [decide_runs(runs[:n], wanted=wanted, titles=TITLES) for n in range(len(runs) + 1)]
    decided = [each for each in found if each is not None]
    assert found == [None] * (len(found) - len(decided)) + decided[:1] * len(decided)


@given(st.lists(kinds_of_run, min_size=15, max_size=15), st.integers(1, 5))
def test_three_tries_a_run_always_end(runs, wanted) -> None:
    assert decide_runs(runs[: 3 * wanted], wanted=wanted, titles=TITLES) is not None


@pytest.mark.parametrize(
    ("runs", "kind"),
    [
        ([CLEAN, CLEAN, SAME], "crash_same"),
        ([run(crashed=crash("bad-access in f"))], "crash_same"),
        ([OTHER], "crash_other"),
        ([HUNG, HUNG, HUNG], "flaky"),
        ([CLEAN, DEAD, HUNG, DEAD], "flaky"),
        ([EARLY, EARLY, EARLY], "boot_failed"),
        ([EARLY, NO_QEMU, EARLY], "boot_failed"),
        ([NO_QEMU] * 3, "infra_error"),
        ([EARLY, DEAD, CLEAN, HUNG, HUNG, CLEAN, DEAD, CLEAN], "plausible"),
        ([CLEAN, CLEAN], None),
        ([EARLY, EARLY], None),
        ([], None),
    ],
)
def test_sequences_of_runs_and_their_verdicts(runs, kind) -> None:
    found = decide_runs(runs, wanted=3, titles=TITLES)
    assert (found.kind if found else None) == kind


def test_a_kernel_that_does_not_boot_shows_its_panic() -> None:
    found = decide_runs([EARLY] * 3, wanted=3, titles=TITLES)
    assert found is not None
    assert found.crash == EARLY.crash
    assert "VFS" in found.reason


def test_a_failed_build_names_its_first_error() -> None:
    error = CompileError(message="expected ';'", file="fs/omfs/dir.c", line=17)
    found = decide_build(BuildResult(ok=False, seconds=2, errors=[error]))
    assert found is not None
    assert found.reason == "fs/omfs/dir.c:17: expected ';'"
    late = decide_build(BuildResult(ok=False, seconds=600, timed_out=True))
    assert late is not None
    assert late.kind == "build_timeout"
