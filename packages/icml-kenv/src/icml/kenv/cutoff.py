"""Rates over bugs that ran once or often, by month of the fix, and round a knowledge cutoff.

With one run a bug, intervals are Wilson's and Newcombe's. With several, a bug counts with the mean
of its runs and whole bugs are drawn (cluster bootstrap); the gap of two such rates takes its limits
from theirs as Newcombe's does.

**Differs from the paper:** a gap is refused below 20 bugs on a side, and comes with an interval.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from functools import cache
from math import hypot
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from icml.core.errors import UserError
from icml.core.stats import Interval, bootstrap, wilson
from icml.kenv.models import Record
from icml.kenv.stats import FEWEST_BUGS, Outcome, Success, is_equivalent, is_plausible

GRACE_DAYS = (0, 30, 90)
"""Left out after the cutoff: the first is the answer, the others say how much it depends on it."""


class Rate(NamedTuple):
    """A share of bugs (fraction), each with the mean of its runs."""

    interval: Interval
    bugs: int
    runs: int


class Gap(NamedTuple):
    """Bugs fixed up to a model's knowledge cutoff against bugs fixed later."""

    before: Rate | None
    after: Rate | None
    difference: Interval | None
    """Before less after; None where a side has fewer than 20 bugs."""
    grace_days: int

    @property
    def refused(self) -> str:
        """Why there is no difference, empty if there is one."""
        if self.difference is not None:
            return ""
        counts = [0 if side is None else side.bugs for side in (self.before, self.after)]
        return (
            f"{counts[0]} bugs fixed before the cutoff and {counts[1]} after it: "
            f"a gap takes {FEWEST_BUGS} on either side"
        )

    @property
    def shown(self) -> bool:
        """There is a difference and its interval excludes 0."""
        return self.difference is not None and not (
            self.difference.low <= 0 <= self.difference.high
        )


class ModelCutoff(Record):
    """What a model may have read of."""

    cutoff: date
    """The last day."""
    source: str = ""
    """Who says so."""


def read_models(path: Path) -> dict[str, ModelCutoff]:
    """Read a TOML file with a table a model: ``cutoff`` (a date) and ``source``.

    Raises:
        UserError: If it cannot be read or has something else.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        return TypeAdapter(dict[str, ModelCutoff]).validate_python(tables)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is no TOML: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(
            f"{path}: {where}: {first['msg']}; wanted a table a model with cutoff = 2025-01-31"
        ) from None


def rate_over_bugs(outcomes: Iterable[Outcome], success: Success = is_plausible) -> Rate:
    """Return the mean over bugs of the share of their runs that succeed.

    Where all bugs have the same share of successes the bootstrap would give no width: Wilson's
    interval of the rounded number of bugs stands in.

    Raises:
        ValueError: If there is no outcome.
    """
    by_bug: dict[str, list[bool]] = {}
    for found in outcomes:
        by_bug.setdefault(found.bug, []).append(success(found))
    if not by_bug:
        raise ValueError("there are no outcomes to count")
    means = [sum(oks) / len(oks) for oks in by_bug.values()]
    runs = sum(len(oks) for oks in by_bug.values())
    mean = sum(means) / len(means)
    if runs == len(means) or len(set(means)) == 1:
        interval = _wilson(round(mean * len(means)), len(means))._replace(estimate=mean)
    else:
        interval = bootstrap(means, seed=0)
    return Rate(interval, len(means), runs)


@cache  # scipy takes milliseconds for one, and slices ask for the same few again and again
def _wilson(successes: int, n: int) -> Interval:
    return wilson(successes, n)


def gap_at(
    cutoff: date,
    outcomes: Iterable[Outcome],
    *,
    grace_days: int = 0,
    success: Success = is_equivalent,
) -> Gap:
    """Compare bugs fixed up to a cutoff with those fixed later; undated bugs are left out.

    Args:
        cutoff: The last day that the model may have read of.
        outcomes: Any number of runs a bug.
        grace_days: Days after the cutoff that are left out.
        success: What counts.
    """
    dated = [(x, x.fixed) for x in outcomes if x.fixed is not None]
    grace = timedelta(days=grace_days)
    before = _rate_or_none([x for x, day in dated if day <= cutoff], success)
    after = _rate_or_none([x for x, day in dated if day - cutoff > grace], success)
    if before is None or after is None or min(before.bugs, after.bugs) < FEWEST_BUGS:
        return Gap(before, after, None, grace_days)
    return Gap(before, after, _difference(before.interval, after.interval), grace_days)


def _rate_or_none(outcomes: Sequence[Outcome], success: Success) -> Rate | None:
    return rate_over_bugs(outcomes, success) if outcomes else None


def _difference(a: Interval, b: Interval) -> Interval:
    """Combine the limits of two independent rates as Newcombe (1998, method 10) does."""
    difference = a.estimate - b.estimate
    low = difference - hypot(a.estimate - a.low, b.high - b.estimate)
    high = difference + hypot(a.high - a.estimate, b.estimate - b.low)
    return Interval(difference, max(low, -1.0), min(high, 1.0))


def by_month(
    outcomes: Iterable[Outcome], success: Success = is_plausible
) -> list[tuple[date, Rate]]:
    """Return the rate of each month (its first day) in which a bug was fixed, in order."""
    months: dict[date, list[Outcome]] = {}
    for found in outcomes:
        if found.fixed is not None:
            months.setdefault(found.fixed.replace(day=1), []).append(found)
    return [(month, rate_over_bugs(rows, success)) for month, rows in sorted(months.items())]
