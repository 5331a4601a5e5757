"""The experiment: do antithetic pairs lower the variance of an estimate of e - 1?

Both arms estimate the integral of exp over [0, 1] from the same number of function values. The
seeds and the number of estimates were fixed before the outcome was looked at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from icml.brokenmath.antithetic import Array, antithetic_estimates, plain_estimates

if TYPE_CHECKING:
    from collections.abc import Mapping

    from icml.core.experiment import Run
    from icml.core.plots import Plot
    from icml.core.stats import Interval

TITLE = "Antithetic pairs against independent points"
TRUTH = math.e - 1
# Var f = (e^2 - 1)/2 - (e - 1)^2 and Cov(f(u), f(1 - u)) = e - (e - 1)^2, so at an equal number
# of values the variances are in the ratio Var / (Var + Cov).
_VARIANCE = (math.e**2 - 1) / 2 - TRUTH**2
TRUE_RATIO = _VARIANCE / (_VARIANCE + math.e - TRUTH**2)
ARMS = ("plain", "antithetic")


@dataclass(frozen=True)
class Config:
    """One size of the experiment."""

    values: int = 64
    """Function values that one estimate costs; even."""
    estimates: int = 4000
    """Estimates a seed, from which each arm's variance is taken."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6, 7)
    """Seeds of the random points."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.values < 2 or self.values % 2:
            raise ValueError(f"values must be even and at least 2, got {self.values}")
        if self.estimates < 2 or len(self.seeds) < 2:
            raise ValueError("a variance and its spread need at least two estimates and two seeds")


SIZES = {"quick": Config(estimates=500), "default": Config()}


def measure(arm: str, seed: int, *, config: Config, log: Any) -> dict[str, float]:
    """Return the mean and variance of one arm's estimates; a worker process calls it.

    Args:
        arm: One of ``ARMS``.
        seed: Seed of the random points.
        config: The experiment's size.
        log: Receives rows for ``metrics.jsonl``.
    """
    draws = np.random.default_rng([seed, ARMS.index(arm)])
    if arm == "plain":
        found = plain_estimates(np.exp, draws.random((config.estimates, config.values)))
    else:
        found = antithetic_estimates(np.exp, draws.random((config.estimates, config.values // 2)))
    cell = {"mean": float(found.mean()), "variance": float(found.var(ddof=1))}
    log(0, arm=arm, seed=seed, **cell)
    return cell


def run_experiment(config: Config, run: Run) -> None:
    """Measure both arms on every seed, then tabulate and state the claims."""
    from icml.core.stats import t_interval

    run.seeds(list(config.seeds))
    jobs = {f"{arm}/seed={seed}": (arm, seed) for arm in ARMS for seed in config.seeds}
    cells: dict[str, Any] = run.cells(jobs, partial(measure, config=config), desc="estimates")
    found = {arm: [cells[f"{arm}/seed={seed}"] for seed in config.seeds] for arm in ARMS}
    variances = {arm: np.array([cell["variance"] for cell in found[arm]]) for arm in ARMS}
    errors = {
        arm: t_interval([cell["mean"] - TRUTH for cell in found[arm]], level=0.999) for arm in ARMS
    }
    _show(run, errors, variances)
    _claim(run, errors, t_interval(variances["plain"] / variances["antithetic"]))
    run.note("One smooth, monotone function of one variable: for others the gain may be a loss.")


def _show(run: Run, errors: Mapping[str, Interval], variances: Mapping[str, Array]) -> None:
    rows = [
        {
            "arm": arm,
            "estimate of e - 1": errors[arm].estimate + TRUTH,
            "estimate of e - 1 low": errors[arm].low + TRUTH,
            "estimate of e - 1 high": errors[arm].high + TRUTH,
            "variance": float(variances[arm].mean()),
        }
        for arm in ARMS
    ]
    run.table("estimates", rows, caption="Each arm's estimate (99.9 % t interval over seeds).")
    run.figure("errors", _figure(errors), caption="How far each arm's estimate is from e - 1.")


def _claim(run: Run, errors: Mapping[str, Interval], ratio: Interval) -> None:
    for arm, (error, low, high) in errors.items():
        statement = f"The {arm} estimate agrees with e - 1"
        holds = low <= 0 <= high
        run.claim(f"{arm}-unbiased", statement, value=error, interval=(low, high), holds=holds)
    run.claim(
        "variance-ratio",
        f"Independent points vary at least 20 times as much (closed form: {TRUE_RATIO:.1f})",
        value=ratio.estimate,
        interval=(ratio.low, ratio.high),
        holds=ratio.low >= 20,
        paper="no paper: this is the template's example",
    )


def _figure(errors: Mapping[str, Interval]) -> Plot:
    from icml.core.plots import Arm, Estimate, intervals

    return intervals(
        [Estimate(arm, *error) for arm, error in errors.items()],
        title="Both arms find e - 1, antithetic pairs with far less spread",
        arms=[Arm("plain", "baseline"), Arm("antithetic", "ours")],
        x_label="estimate minus (e - 1)",
        note="99.9 % t interval over seeds",
        reference=0,
    )
