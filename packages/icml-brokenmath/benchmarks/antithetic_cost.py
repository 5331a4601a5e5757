"""Time of antithetic estimates over that of plain ones, at an equal number of function values.

Run it with ``uv run python`` and this file. Both arms are timed in turn in one process and the
median of the ratios is printed: a ratio means the same on every machine, a time does not.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from time import process_time

import numpy as np

from icml.brokenmath import antithetic_estimates, plain_estimates

ESTIMATES, VALUES, REPEATS = 2000, 256, 21


def seconds(call: Callable[[], object]) -> float:
    """Return the processor time of one call."""
    start = process_time()
    call()
    return process_time() - start


def main() -> None:
    """Print the median ratio and its quartiles."""
    draws = np.random.default_rng(0)
    full, half = draws.random((ESTIMATES, VALUES)), draws.random((ESTIMATES, VALUES // 2))
    ratios = [
        seconds(lambda: antithetic_estimates(np.exp, half))
        / seconds(lambda: plain_estimates(np.exp, full))
        for _ in range(REPEATS)
    ]
    low, middle, high = statistics.quantiles(ratios, n=4)
    print(f"antithetic / plain: {middle:.2f} (quartiles {low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()
