"""Simulated benchmarks with known rates: how often intervals cover, and how often gaps are false.

``python benchmarks/cutoff.py`` writes ``cutoff.json``; NOTES.md has the settings.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, timedelta
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from icml.core.journal import write_atomic
from icml.kenv.cutoff import Gap, gap_at
from icml.kenv.stats import FEWEST_BUGS, Outcome, is_equivalent, pass_at

BUGS, SIMULATIONS, SEVERAL, SEED = 534, 2000, 500, 0
BEFORE, AFTER, SAME = 0.40, 0.15, 0.275
CUTOFF = date(2025, 6, 30)
CONCENTRATION = 2.0


def benchmark(
    draw: np.random.Generator, before: float, after: float, *, runs: int = 1
) -> list[Outcome]:
    """Draw the outcomes of one benchmark; with several runs the bugs differ in difficulty."""
    rows = []
    for bug, days in enumerate(draw.integers(-365, 365, size=BUGS)):
        fixed = CUTOFF + timedelta(days=int(days))
        chance = before if fixed <= CUTOFF else after
        if runs > 1:
            chance = draw.beta(CONCENTRATION * chance, CONCENTRATION * (1 - chance))
        for same in draw.random(runs) < chance:
            rows.append(Outcome(str(bug), True, bool(same), fixed))
    return rows


def counted(what: str, number: int, once: Callable[[], bool]) -> dict[str, Any]:
    """Repeat and return the share with its Monte-Carlo standard error."""
    share = sum(once() for _ in range(number)) / number
    error = sqrt(max(share * (1 - share), 1 / number**2) / number)
    return {"what": what, "simulations": number, "share": share, "error": round(error, 5)}


def covers(gap: Gap, truth: float) -> bool:
    """Say whether the gap's interval holds the true one."""
    assert gap.difference is not None
    return gap.difference.low <= truth <= gap.difference.high


def gap(rows: list[Outcome]) -> Gap:
    """Return the gap of equivalent patches."""
    return gap_at(CUTOFF, rows, success=is_equivalent)


def few(draw: np.random.Generator) -> list[Outcome]:
    """Draw a benchmark with one bug too few before the cutoff, all equivalent, and none after."""
    late = CUTOFF + timedelta(days=1)
    old = [Outcome(f"a{n}", True, True, CUTOFF) for n in range(FEWEST_BUGS - 1)]
    return old + [Outcome(f"b{n}", True, bool(draw.random() < 0), late) for n in range(BUGS)]


def bias(draw: np.random.Generator) -> dict[str, float]:
    """Return how far pass@3 of five runs is off, on average."""
    chance, found = 0.3, []
    for _ in range(SIMULATIONS):
        rows = [
            Outcome(str(bug), bool(ok), False)
            for bug in range(20)
            for ok in draw.random(5) < chance
        ]
        found.append(pass_at(3, rows, bugs=[str(bug) for bug in range(20)]).value)
    error = float(np.std(found, ddof=1) / sqrt(len(found)))
    return {"bias": float(np.mean(found) - (1 - (1 - chance) ** 3)), "error": error}


def main() -> None:
    """Simulate and write the numbers."""
    draw = np.random.default_rng(SEED)
    true = BEFORE - AFTER
    rates = [
        counted("the interval covers a true gap of 25 points, one run a bug", SIMULATIONS,
                lambda: covers(gap(benchmark(draw, BEFORE, AFTER)), true)),
        counted("the same with three runs a bug, whole bugs drawn", SEVERAL,
                lambda: covers(gap(benchmark(draw, BEFORE, AFTER, runs=3)), true)),
        counted("a gap is shown where there is one of 25 points", SIMULATIONS,
                lambda: gap(benchmark(draw, BEFORE, AFTER)).shown),
        counted("a gap is shown where there is none", SIMULATIONS,
                lambda: gap(benchmark(draw, SAME, SAME)).shown),
        counted("a gap is shown with 19 bugs before the cutoff", SIMULATIONS // 20,
                lambda: gap(few(draw)).shown),
    ]  # fmt: skip
    found = {"bugs": BUGS, "seed": SEED, "rates": rates, "pass@3": bias(draw)}
    write_atomic(Path(__file__).with_suffix(".json"), json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
