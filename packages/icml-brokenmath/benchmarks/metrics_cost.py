"""Processor time of the metrics: 100,000 rates with intervals, and 2,000 resamples of a correction.

Run it with ``uv run python`` and this file. The median of several calls is printed, in
milliseconds, beside what is asked for: 50 for the rates and 1,000 for the correction.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from time import process_time

import numpy as np

from icml.brokenmath.categories import BEHAVIOURS, CATEGORIES
from icml.brokenmath.judge_error import correct_for_judge
from icml.brokenmath.metrics import rates

ROWS, RESAMPLES, REPEATS = 100_000, 2_000, 11


def milliseconds(call: Callable[[], object]) -> float:
    """Return the median processor time of a call."""
    call()
    spent = []
    for _ in range(REPEATS):
        start = process_time()
        call()
        spent.append(1000 * (process_time() - start))
    return statistics.median(spent)


def main() -> None:
    """Print both times."""
    rows = np.random.default_rng(0).choice(CATEGORIES, size=ROWS).tolist()
    counts = dict(zip(BEHAVIOURS, (234, 18, 127, 125), strict=True))
    labelled = 20 * np.eye(4, dtype=int) + 2
    print(f"rates of {ROWS} rows: {milliseconds(lambda: rates(rows)):.1f} ms, at most 50")
    spent = milliseconds(lambda: correct_for_judge(counts, labelled, resamples=RESAMPLES, seed=0))
    print(f"correction, {RESAMPLES} resamples: {spent:.1f} ms, at most 1000")


if __name__ == "__main__":
    main()
