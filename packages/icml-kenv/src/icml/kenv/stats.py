"""Rates over bugs with intervals: plausible, equivalent, pass@k, feedback, knowledge cutoff."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from icml.core.stats import Interval, newcombe, pass_at_k, wilson
from icml.kenv.models import Verdict

FEWEST_BUGS = 20
"""On either side of a cutoff, before a gap may be called one (ours)."""


class Outcome(NamedTuple):
    """What one run of an agent on one bug came to."""

    bug: str
    plausible: bool
    equivalent: bool
    """Plausible, and shown or judged to be equivalent to the developers' fix."""
    fixed: date | None = None
    """Day of the developers' fix."""


Success = Callable[[Outcome], bool]


def is_plausible(outcome: Outcome) -> bool:
    """Count what resolves the crash (the paper's crash-resolution rate)."""
    return outcome.plausible


def is_equivalent(outcome: Outcome) -> bool:
    """Count what matches the developers' fix (the paper's equivalent-patch rate)."""
    return outcome.equivalent


def outcome(bug: str, verdict: Verdict, *, fixed: date | None = None) -> Outcome:
    """Return the outcome of a verdict: an equivalent patch counts only if it is plausible, too."""
    same = verdict.equivalence is not None and verdict.equivalence.answer == "equivalent"
    return Outcome(bug, verdict.plausible, verdict.plausible and same, fixed)


class PassAtK(NamedTuple):
    """pass@k over the bugs that have enough runs, and how many these are."""

    value: float | None
    """None where no bug has k runs."""
    covered: int
    """Bugs with at least k runs."""
    bugs: int
    """Bugs in all."""


class CutoffGap(NamedTuple):
    """How much better an agent does on bugs fixed up to its model's knowledge cutoff."""

    gap: Interval
    """Rate up to the cutoff less the rate after it (fraction)."""
    before: int
    """Bugs fixed up to the cutoff."""
    after: int
    """Bugs fixed later."""
    shown: bool
    """Both sides have at least 20 bugs and the interval excludes 0."""


def rate(outcomes: Iterable[Outcome], success: Success = is_plausible) -> Interval:
    """Return the share of bugs that succeed, one run a bug, with its Wilson interval.

    Raises:
        ValueError: If there is no outcome, or two of one bug.

    Example:
        >>> [round(x, 3) for x in rate([Outcome("a", True, False), Outcome("b", False, False)])]
        [0.5, 0.095, 0.905]
    """
    hits, n = _counts(outcomes, success)
    return wilson(hits, n)


def pass_at(
    k: int, outcomes: Iterable[Outcome], *, bugs: Sequence[str], success: Success = is_plausible
) -> PassAtK:
    """Return the unbiased pass@k (Chen et al. 2021), averaged over the bugs with k runs or more.

    **Differs from the paper:** the authors' code takes the first k runs of each bug and gives
    nothing if one bug has fewer; here all runs count and the coverage is told.

    Raises:
        ValueError: If k is below 1, or an outcome's bug isn't among ``bugs``.
    """
    runs: dict[str, list[bool]] = {bug: [] for bug in bugs}
    for found in outcomes:
        if found.bug not in runs:
            raise ValueError(f"the bug {found.bug!r} is not among the {len(runs)} bugs")
        runs[found.bug].append(success(found))
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    values = [pass_at_k(len(r), sum(r), k) for r in runs.values() if len(r) >= k]
    return PassAtK(sum(values) / len(values) if values else None, len(values), len(runs))


def feedback_gain(
    with_feedback: Iterable[Outcome],
    without: Iterable[Outcome],
    success: Success = is_plausible,
) -> Interval:
    """Return how much feedback raises the rate, with Newcombe's interval (fractions).

    The interval takes the arms as independent; on the same bugs it is rather too wide.

    Raises:
        ValueError: If the arms are not on the same bugs, one run a bug.
    """
    a, b = list(with_feedback), list(without)
    if {x.bug for x in a} != {x.bug for x in b}:
        raise ValueError("the two arms have other bugs: compare them on the same ones")
    return newcombe(*_counts(a, success), *_counts(b, success))


def cutoff_gap(
    outcomes: Iterable[Outcome],
    cutoff: date,
    *,
    grace_days: int = 0,
    success: Success = is_equivalent,
) -> CutoffGap:
    """Compare bugs fixed up to a model's knowledge cutoff with those fixed later.

    Args:
        outcomes: One run a bug; a bug without a day of its fix is left out.
        cutoff: The last day that the model may have read of.
        grace_days: Days after the cutoff that are left out.
        success: What counts.

    Raises:
        ValueError: If a side has no bug, or a bug has two outcomes.
    """
    dated = [x for x in outcomes if x.fixed is not None]
    grace = timedelta(days=grace_days)
    before = [x for x in dated if x.fixed is not None and x.fixed <= cutoff]
    after = [x for x in dated if x.fixed is not None and x.fixed - cutoff > grace]
    gap = newcombe(*_counts(before, success), *_counts(after, success))
    enough = min(len(before), len(after)) >= FEWEST_BUGS
    return CutoffGap(gap, len(before), len(after), enough and not gap.low <= 0 <= gap.high)


def _counts(outcomes: Iterable[Outcome], success: Success) -> tuple[int, int]:
    runs: dict[str, list[bool]] = defaultdict(list)
    for found in outcomes:
        runs[found.bug].append(success(found))
    for bug, several in runs.items():
        if len(several) > 1:
            raise ValueError(f"{bug} has {len(several)} runs: choose one, or use pass_at")
    if not runs:
        raise ValueError("there are no outcomes to count")
    return sum(several[0] for several in runs.values()), len(runs)
