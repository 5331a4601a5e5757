"""Time of `gdpo_advantages` against TRL's formula and against a loop over the groups.

Run it with ``uv run python`` and this file; ``--out FILE`` writes the numbers as JSON. All arms
are timed in turn in one process on one thread, and medians of the paired ratios are printed: a
ratio means the same on every machine, a time does not. Processor time, so that other processes
do not count.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from time import process_time

import torch
from torch import Tensor

from icml.core.journal import write_atomic
from icml.gdpo import gdpo_advantages

COMPLETIONS, REWARDS, GROUP_SIZE, REPEATS, EPS = 4096, 8, 8, 101, 1e-4


def trl_formula(rewards: Tensor) -> Tensor:
    """Compute the same on contiguous groups as TRL 1.16 does, with plain NaN-aware operations."""
    grouped = rewards.view(-1, GROUP_SIZE, rewards.shape[1])
    z = (grouped - grouped.nanmean(1, keepdim=True)) / (_nanstd(grouped, 1) + EPS)
    total = z.view_as(rewards).nansum(1)
    total[rewards.isnan().all(1)] = torch.nan
    return ((total - total.nanmean()) / (_nanstd(total, 0) + EPS)).nan_to_num(nan=0.0)


def _nanstd(values: Tensor, dim: int) -> Tensor:
    variance = (values - values.nanmean(dim, keepdim=True)).square().nanmean(dim, keepdim=True)
    count = (~values.isnan()).sum(dim, keepdim=True)
    return (variance * count / (count - 1)).sqrt()


def loop_over_groups(rewards: Tensor, groups: Tensor) -> Tensor:
    """Compute the same one group and reward at a time, the way verl does."""
    total = torch.zeros(len(rewards))
    rows: dict[int, list[int]] = {}
    for row, group in enumerate(groups.tolist()):
        rows.setdefault(group, []).append(row)
    for k in range(rewards.shape[1]):
        for members in rows.values():
            values = torch.stack([rewards[row, k] for row in members])
            mean, std = values.mean(), values.std()
            for row in members:
                total[row] += (rewards[row, k] - mean) / (std + EPS)
    return (total - total.mean()) / (total.std() + EPS)


def seconds(call: Callable[[], object]) -> float:
    """Return the processor time of one call."""
    start = process_time()
    call()
    return process_time() - start


def measure() -> dict[str, float]:
    """Return medians: ratios without a unit, times in milliseconds."""
    draws = torch.Generator().manual_seed(0)
    rewards = torch.randint(0, 3, (COMPLETIONS, REWARDS), generator=draws).float()
    groups = torch.arange(COMPLETIONS) // GROUP_SIZE
    for other in (trl_formula(rewards), loop_over_groups(rewards, groups)):
        # float32 sums of 4096 terms
        torch.testing.assert_close(gdpo_advantages(rewards, GROUP_SIZE), other, atol=1e-4, rtol=0)
    loop = seconds(lambda: loop_over_groups(rewards, groups))
    rounds = [
        (
            seconds(lambda: gdpo_advantages(rewards, GROUP_SIZE)),
            seconds(lambda: trl_formula(rewards)),
            seconds(lambda: gdpo_advantages(rewards, groups)),
        )
        for _ in range(REPEATS)
    ]
    return {
        "group size, over TRL's formula (ratio)": statistics.median(a / b for a, b, _ in rounds),
        "group ids, over TRL's formula (ratio)": statistics.median(c / b for _, b, c in rounds),
        "loop over groups, over group ids (ratio)": statistics.median(loop / c for *_, c in rounds),
        "group size (ms)": 1e3 * statistics.median(a for a, *_ in rounds),
        "group ids (ms)": 1e3 * statistics.median(c for *_, c in rounds),
        "TRL's formula (ms)": 1e3 * statistics.median(b for _, b, _ in rounds),
    }


def main() -> None:
    """Print the table and write it where ``--out`` says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    out = parser.parse_args().out
    torch.set_num_threads(1)
    results = measure()
    print(f"{COMPLETIONS} completions, {REWARDS} rewards, groups of {GROUP_SIZE}, one thread")
    for name, value in results.items():
        print(f"{name:<44} {value:8.2f}")
    if out is not None:
        write_atomic(out, json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
