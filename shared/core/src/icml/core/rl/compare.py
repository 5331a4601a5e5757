"""A fair comparison of methods: each at its own best learning rate, chosen on other seeds.

A change of the advantage is also a change of the step size, so a win at one rate may be nothing
but a better-suited rate. Here every method runs at every rate; its best rate is chosen on
selection seeds by a metric fixed beforehand; methods are compared on report seeds, paired.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import Any, NamedTuple

from icml.core.errors import UserError
from icml.core.stats import Interval, holm, paired_t_interval, paired_t_test, t_interval

Cell = str | int | float | bool | None
Metrics = Mapping[str, float]
Evaluate = Callable[..., Metrics]
"""Called as ``evaluate(method, rate, seed, log=log)``."""
Cells = Callable[[Mapping[str, tuple[str, float, int]], Evaluate], Mapping[str, Any]]
"""Called as ``cells(jobs, evaluate)``: ``Run.cells`` or a function of its form."""

ALPHA = 0.05
"""Family-wise error rate of the verdicts, and 1 - level of the intervals (ours)."""
MIN_SEEDS = 3
"""Least number of report seeds (ours)."""


class Best(NamedTuple):
    """The rate a method is reported at, chosen on the selection seeds."""

    rate: float
    score: float
    """Mean of ``select_by`` over the selection seeds at that rate."""
    edge: bool
    """True if it is the smallest or largest rate of the grid: a better one may lie outside."""


class Difference(NamedTuple):
    """A method less the baseline in one metric, each at its own best rate, paired by seed."""

    interval: Interval | None
    """95 % t interval of the mean difference; None if a run of either diverged."""
    p_value: float
    """Paired t test, Holm-corrected over the methods; 1 if a run of either diverged."""
    verdict: str
    """"higher", "lower", "not shown", "edge" (either best rate ends the grid) or "diverged"."""


@dataclass(frozen=True)
class Comparison:
    """Every run of a comparison and what follows from it. Made by `compare`."""

    baseline: str
    methods: tuple[str, ...]
    rates: tuple[float, ...]
    """Ascending."""
    seeds: tuple[int, ...]
    select_seeds: tuple[int, ...]
    metrics: tuple[str, ...]
    selection: Mapping[tuple[str, float], float]
    """(method, rate) -> mean selection score; NaN if a run on a selection seed diverged."""
    report: Mapping[tuple[str, float], tuple[Metrics, ...]]
    """(method, rate) -> the metrics on each report seed, in the order of ``seeds``."""
    best: Mapping[str, Best]
    differences: Mapping[tuple[str, str], Difference]
    """(method, metric) -> the method less the baseline."""

    def values(self, method: str, metric: str, rate: float | None = None) -> list[float]:
        """Return one number a report seed, at ``rate`` or at the method's best rate."""
        at = self.best[method].rate if rate is None else rate
        return [run[metric] for run in self.report[method, at]]

    def diverged(self, method: str, rate: float | None = None) -> tuple[int, ...]:
        """Return the report seeds whose run has a metric that is not finite."""
        at = self.best[method].rate if rate is None else rate
        runs = zip(self.seeds, self.report[method, at], strict=True)
        return tuple(seed for seed, run in runs if _is_diverged(run))

    def rate_rows(self, *metrics: str) -> list[dict[str, Cell]]:
        """Return the every-rate table: a row for each method and rate, on the report seeds.

        Args:
            *metrics: Names to show; all by default. Each gives its mean and the limits of a
                95 % t interval, None where a run diverged.

        Raises:
            ValueError: If a metric is unknown.
        """
        return [
            {
                "method": method,
                "rate": rate,
                "best": rate == self.best[method].rate,
                "selection score": _cell(self.selection[method, rate]),
                "diverged seeds": len(self.diverged(method, rate)),
                **self._limits(method, rate, self._known(metrics)),
            }
            for method in self.methods
            for rate in self.rates
        ]

    def best_rows(self, *metrics: str) -> list[dict[str, Cell]]:
        """Return the comparison at best rates: a row for each method and metric.

        Args:
            *metrics: Names to show; all by default.

        Raises:
            ValueError: If a metric is unknown.
        """
        return [
            self._best_row(method, metric)
            for metric in self._known(metrics)
            for method in self.methods
        ]

    def _best_row(self, method: str, metric: str) -> dict[str, Cell]:
        rate, _, edge = self.best[method]
        row: dict[str, Cell] = {"metric": metric, "method": method, "rate": rate, "edge": edge}
        row["mean"] = self._limits(method, rate, (metric,))[metric]
        difference = self.differences.get((method, metric))
        interval = difference.interval if difference else None
        limits = ("difference", "difference low", "difference high")
        row |= zip(limits, interval or (None, None, None), strict=True)
        row["p (Holm)"] = difference.p_value if difference else None
        row["verdict"] = difference.verdict if difference else "baseline"
        return row

    def _limits(self, method: str, rate: float, metrics: Sequence[str]) -> dict[str, Cell]:
        cells: dict[str, Cell] = {}
        for metric in metrics:
            numbers: tuple[Cell, ...] = (None, None, None)
            if not self.diverged(method, rate):
                numbers = t_interval(self.values(method, metric, rate))
            cells |= zip((metric, f"{metric} low", f"{metric} high"), numbers, strict=True)
        return cells

    def _known(self, metrics: Sequence[str]) -> tuple[str, ...]:
        for metric in metrics:
            if metric not in self.metrics:
                raise ValueError(f"metric must be one of {', '.join(self.metrics)}, got {metric!r}")
        return tuple(metrics) or self.metrics


def compare(
    evaluate: Evaluate,
    *,
    methods: Sequence[str],
    rates: Sequence[float],
    seeds: Sequence[int],
    select_seeds: Sequence[int],
    select_by: str | Callable[[Metrics], float],
    baseline: str,
    cells: Cells,
) -> Comparison:
    """Run every method at every rate and compare each at its own best rate with the baseline.

    The best rate has the largest mean selection score over ``select_seeds``. Equal scores go to
    the rate nearest the middle of the sorted grid, then to the smaller one: a plateau that
    reaches the middle does not end at the edge. A run with a metric that is not finite has
    diverged; a rate at which a selection run diverged is never chosen. If a report run at a
    best rate diverged, the verdict is "diverged", since leaving the seed out would favour the
    method that diverges. A best rate at the edge of the grid, the method's or the baseline's,
    gives "edge": one of them may not be at its best.

    Args:
        evaluate: Trains and evaluates one run: ``evaluate(method, rate, seed, log=log)`` gives
            the same metric names for every run. With worker processes it must be picklable.
        methods: Names, the baseline among them, at least two.
        rates: Learning rates > 0, each method runs at all of them.
        seeds: Report seeds, at least `MIN_SEEDS`.
        select_seeds: Seeds on which rates are chosen, none of them a report seed.
        select_by: The metric (or a function of the metrics) to choose rates by, larger is
            better; for a loss give ``lambda metrics: -metrics["loss"]``. Fixed beforehand.
        baseline: The method that the others are compared with.
        cells: Runs all jobs, called once: ``run.cells`` or a function of its form. Job keys read
            "select/gdpo/0.001/seed=100" and "report/gdpo/0.001/seed=0".

    Returns:
        All runs, the best rates and the differences at the best rates. Each verdict holds at
        family-wise error rate `ALPHA` over the methods, for each metric by itself.

    Raises:
        UserError: If every rate of a method diverged on the selection seeds.
        ValueError: If the design is refused (see Args), the runs differ in their metrics, or
            ``select_by`` names none of them.

    Example:
        >>> def evaluate(method, rate, seed, *, log):
        ...     return {"reward": (method == "new") + seed / 10 - (rate - 0.1) ** 2}
        >>> comparison = compare(
        ...     evaluate, methods=["old", "new"], rates=[0.03, 0.1, 0.3], seeds=range(3),
        ...     select_seeds=[100], select_by="reward", baseline="old",
        ...     cells=lambda jobs, fn: {key: fn(*args, log=None) for key, args in jobs.items()},
        ... )
        >>> comparison.best["new"].rate, comparison.differences["new", "reward"].verdict
        (0.1, 'higher')
    """
    methods, seeds, select_seeds = tuple(methods), tuple(seeds), tuple(select_seeds)
    rates = tuple(sorted(float(rate) for rate in rates))
    check_design(methods, rates, seeds, select_seeds, baseline)
    plan = {"select": select_seeds, "report": seeds}
    jobs = {
        f"{part}/{method}/{rate!r}/seed={seed}": (method, rate, seed)
        for part, chosen in plan.items()
        for method in methods
        for rate in rates
        for seed in chosen
    }
    results = cells(jobs, evaluate)
    runs = {(key.split("/")[0], *args): results[key] for key, args in jobs.items()}
    metrics = _common_metrics(results)
    grid = [(method, rate) for method in methods for rate in rates]
    selection = {
        point: _score([runs["select", *point, seed] for seed in select_seeds], select_by)
        for point in grid
    }
    report = {point: tuple(runs["report", *point, seed] for seed in seeds) for point in grid}
    best = {method: _best(method, rates, selection) for method in methods}
    return Comparison(
        baseline, methods, rates, seeds, select_seeds, metrics, selection, report, best,
        _differences(methods, baseline, metrics, best, report),
    )  # fmt: skip


def check_design(
    methods: Sequence[str],
    rates: Sequence[float],
    seeds: Sequence[int],
    select_seeds: Sequence[int],
    baseline: str,
) -> None:
    """Refuse a design that `compare` would refuse, for those who do costly work before it.

    Args:
        methods: As for `compare`, as are the others.
        rates: Learning rates.
        seeds: Report seeds.
        select_seeds: Seeds on which rates are chosen.
        baseline: One of the methods.

    Raises:
        ValueError: If `compare` can't work with it; says what it got and what is wanted.
    """
    named = {"methods": methods, "rates": rates, "seeds": seeds, "select_seeds": select_seeds}
    for name, values in named.items():
        if not values or len(set(values)) != len(values):
            raise ValueError(f"{name} must be distinct and at least one, got {list(values)}")
    if baseline not in methods or len(methods) < 2:
        raise ValueError(
            f"methods must hold the baseline {baseline!r} and another, got {list(methods)}"
        )
    if not all(isfinite(rate) and rate > 0 for rate in rates):
        raise ValueError(f"rates must be positive and finite, got {list(rates)}")
    if len(seeds) < MIN_SEEDS:
        raise ValueError(f"seeds must be at least {MIN_SEEDS}, got {len(seeds)}")
    shared = sorted(set(seeds) & set(select_seeds))
    if shared:
        raise ValueError(f"seeds and select_seeds must be disjoint, both hold {shared}")


def _common_metrics(results: Mapping[str, Metrics]) -> tuple[str, ...]:
    names = tuple(next(iter(results.values())))
    for key, metrics in results.items():
        if set(metrics) != set(names) or not names:
            raise ValueError(f"{key} gave the metrics {sorted(metrics)}, wanted {sorted(names)}")
    return names


def _is_diverged(metrics: Metrics) -> bool:
    return not all(isfinite(value) for value in metrics.values())


def _score(runs: Sequence[Metrics], select_by: str | Callable[[Metrics], float]) -> float:
    """Return the mean selection score of ``runs``, NaN if one of them diverged."""
    if any(_is_diverged(run) for run in runs):
        return nan
    if isinstance(select_by, str):
        if select_by not in runs[0]:
            raise ValueError(f"select_by must be one of {', '.join(runs[0])}, got {select_by!r}")
        scores = [run[select_by] for run in runs]
    else:
        scores = [select_by(run) for run in runs]
    mean = sum(scores) / len(scores)
    return mean if isfinite(mean) else nan


def _best(
    method: str, rates: tuple[float, ...], selection: Mapping[tuple[str, float], float]
) -> Best:
    finite = [i for i, rate in enumerate(rates) if isfinite(selection[method, rate])]
    if not finite:
        raise UserError(
            f"{method} diverged on the selection seeds at every rate from {rates[0]:g} to "
            f"{rates[-1]:g}: extend the grid downwards"
        )
    middle = (len(rates) - 1) / 2
    chosen = max(finite, key=lambda i: (selection[method, rates[i]], -abs(i - middle), -i))
    rate = rates[chosen]
    return Best(rate, selection[method, rate], edge=chosen in (0, len(rates) - 1))


def _differences(
    methods: tuple[str, ...],
    baseline: str,
    metrics: tuple[str, ...],
    best: Mapping[str, Best],
    report: Mapping[tuple[str, float], tuple[Metrics, ...]],
) -> dict[tuple[str, str], Difference]:
    others = [method for method in methods if method != baseline]
    runs = {method: report[method, best[method].rate] for method in methods}
    diverged = {method: any(_is_diverged(run) for run in runs[method]) for method in methods}
    result = {}
    for metric in metrics:
        values = {method: [run[metric] for run in runs[method]] for method in methods}
        lost = {method: diverged[method] or diverged[baseline] for method in others}
        # A comparison that was lost stays in the family: Holm may only get stricter by it.
        raw = [1.0 if lost[m] else paired_t_test(values[m], values[baseline]) for m in others]
        for method, p_value in zip(others, holm(raw), strict=True):
            interval = None if lost[method] else paired_t_interval(values[method], values[baseline])
            edge = best[method].edge or best[baseline].edge
            verdict = _verdict(interval, p_value, edge=edge)
            result[method, metric] = Difference(interval, p_value, verdict)
    return result


def _verdict(interval: Interval | None, p_value: float, *, edge: bool) -> str:
    if interval is None:
        return "diverged"
    if edge:
        return "edge"
    if p_value > ALPHA:
        return "not shown"
    return "higher" if interval.estimate > 0 else "lower"


def _cell(value: float) -> float | None:
    return value if isfinite(value) else None
