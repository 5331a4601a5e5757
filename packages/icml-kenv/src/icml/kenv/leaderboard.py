"""Results by system: rates, pass@k, the gap at the cutoff, months and slices, as plain numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from icml.core.errors import UserError
from icml.kenv.cutoff import GRACE_DAYS, Gap, ModelCutoff, Rate, by_month, gap_at, rate_over_bugs
from icml.kenv.results import Result, System
from icml.kenv.show import for_terminals
from icml.kenv.stats import PassAtK, is_equivalent, is_plausible, pass_at

KS = (1, 3, 5)
"""Of pass@k."""
MOST_SLICES = 24
"""Values of one attribute that are listed; the rest is counted together."""


class Standing(NamedTuple):
    """All that is known of one system."""

    system: System
    plausible: Rate
    equivalent: Rate
    bugs: int
    """In the whole set; the rates say of how many there are runs."""
    pass_at: dict[int, PassAtK]
    """pass@k of plausible patches, where a bug has k runs."""
    cutoff: ModelCutoff | None
    gaps: list[Gap]
    """Of equivalent patches, for each number of grace days; none without a cutoff."""
    months: list[tuple[date, Rate, Rate]]
    """First day, plausible, equivalent."""
    not_tried: int
    """Runs that failed outside of the kernel: they say nothing of a patch and count nowhere."""


def standings(rows: Sequence[Result], models: Mapping[str, ModelCutoff]) -> list[Standing]:
    """Return the systems, the highest rate of plausible patches first.

    Raises:
        UserError: If a system has no run that counts.
    """
    bugs = sorted({row.bug for row in rows})
    by_system: dict[System, list[Result]] = {}
    for row in rows:
        by_system.setdefault(row.system, []).append(row)
    found = [_standing(s, own, bugs, models.get(s.model)) for s, own in by_system.items()]
    return sorted(found, key=lambda s: (-s.plausible.interval.estimate, s.system))


def _standing(
    system: System, rows: Sequence[Result], bugs: Sequence[str], model: ModelCutoff | None
) -> Standing:
    outcomes = [row.outcome for row in rows if row.counts]
    if not outcomes:
        raise UserError(f"{system.text} has no run that counts: all of them are infra_error")
    equivalent = [rate for _, rate in by_month(outcomes, is_equivalent)]
    return Standing(
        system=system,
        plausible=rate_over_bugs(outcomes, is_plausible),
        equivalent=rate_over_bugs(outcomes, is_equivalent),
        bugs=len(bugs),
        pass_at={
            k: found for k in KS if (found := pass_at(k, outcomes, bugs=bugs)).value is not None
        },
        cutoff=model,
        gaps=[]
        if model is None
        else [gap_at(model.cutoff, outcomes, grace_days=days) for days in GRACE_DAYS],
        months=[
            (month, rate, same)
            for (month, rate), same in zip(
                by_month(outcomes, is_plausible), equivalent, strict=True
            )
        ],
        not_tried=len(rows) - len(outcomes),
    )


class Slice(NamedTuple):
    """One value of an attribute, with the rates of each system that ran on it."""

    value: str
    bugs: int
    rates: list[tuple[Rate, Rate] | None]
    """Plausible and equivalent, in the order of the systems."""


def slices(
    rows: Sequence[Result],
    systems: Sequence[System],
    values: Callable[[Result], Iterable[str]],
    *,
    by_value: bool = False,
) -> list[Slice]:
    """Cut the results by an attribute, the values with most bugs first, or in their order."""
    cut: dict[str, list[Result]] = {}
    for row in rows:
        for value in values(row):
            cut.setdefault(value, []).append(row)
    counts = {value: len({row.bug for row in own}) for value, own in cut.items()}
    order = sorted(cut) if by_value else sorted(cut, key=lambda v: (-counts[v], v))
    if len(order) > MOST_SLICES and not by_value:
        order, rest = order[: MOST_SLICES - 1], order[MOST_SLICES - 1 :]
        # A bug with two rare values, say, would count twice: each row enters once.
        merged = {id(row): row for value in rest for row in cut[value]}
        name = f"{len(rest)} others"
        cut[name] = list(merged.values())
        counts[name] = len({row.bug for row in merged.values()})
        order.append(name)
    return [
        Slice(value, counts[value], [_rates(cut[value], s) for s in systems]) for value in order
    ]


def _rates(rows: Sequence[Result], system: System) -> tuple[Rate, Rate] | None:
    own = [row.outcome for row in rows if row.system == system and row.counts]
    if not own:
        return None
    return rate_over_bugs(own, is_plausible), rate_over_bugs(own, is_equivalent)


@for_terminals
def standing_lines(found: Sequence[Standing]) -> Iterator[str]:
    """Yield the standings for a terminal."""
    for one in found:
        yield one.system.text
        yield f"  plausible   {rate_text(one.plausible)}"
        yield f"  equivalent  {rate_text(one.equivalent)}"
        if one.not_tried:
            yield f"  {one.not_tried} runs failed outside of the kernel and count nowhere"
        for k, value in one.pass_at.items():
            if value.value is not None:
                yield f"  pass@{k}      {value.value:.1%} of {value.covered} of {value.bugs} bugs"
        if one.cutoff is None:
            yield f"  no cutoff is known of {one.system.model}: name it in --models"
        else:
            yield f"  cutoff      {one.cutoff.cutoff}"
        for gap in one.gaps:
            yield f"  {gap_text(gap)}"


def rate_text(rate: Rate) -> str:
    """Say a rate with its interval and what it rests on."""
    estimate, low, high = rate.interval
    runs = "" if rate.runs == rate.bugs else f", {rate.runs} runs"
    return f"{estimate:.1%} [{low:.1%}, {high:.1%}] of {rate.bugs} bugs{runs}"


def gap_text(gap: Gap) -> str:
    """Say a gap in points, or why there is none."""
    after = f" (without {gap.grace_days} days after the cutoff)" if gap.grace_days else ""
    if gap.difference is None:
        return f"no gap{after}: {gap.refused}"
    estimate, low, high = (100 * value for value in gap.difference)
    word = "gap" if gap.shown else "gap not shown"
    return f"{word} {estimate:+.1f} points [{low:+.1f}, {high:+.1f}]{after}"
