"""Time of `empg_token_advantages` against an obvious version with loops over episodes and steps.

Run it with ``python`` and this file; ``--out FILE`` writes the numbers as JSON. Both arms are timed
in turn in one process on one thread, and medians are printed: a ratio means the same on every
machine, a time does not. Processor time, so that other processes do not count.
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
from icml.empg import empg_token_advantages

EPISODES, TOKENS, STEPS, REPEATS = 512, 2048, 10, 11


def batch() -> tuple[Tensor, Tensor, Tensor]:
    """Return advantages, entropies and a mask: in each episode ten steps of 60 to 140 tokens."""
    generator = torch.Generator().manual_seed(0)
    mask = torch.zeros(EPISODES, TOKENS, dtype=torch.int64)
    lengths = torch.randint(60, 141, (EPISODES, STEPS), generator=generator)
    for row in range(EPISODES):
        for step in range(STEPS):
            start = step * (TOKENS // STEPS)
            mask[row, start : start + int(lengths[row, step])] = 1
    entropies = torch.rand(EPISODES, TOKENS, generator=generator)
    return torch.randn(EPISODES, generator=generator), entropies, mask


def with_loops(advantages: Tensor, entropies: Tensor, mask: Tensor) -> Tensor:
    """Compute the same one episode, token and step at a time."""
    pieces: list[tuple[int, int, int]] = []
    for row, flags in enumerate(mask.tolist()):
        start = None
        for column, flag in enumerate([*flags, 0]):
            if flag and start is None:
                start = column
            elif not flag and start is not None:
                pieces.append((row, start, column))
                start = None
    entropy = torch.stack([entropies[row, start:end].mean() for row, start, end in pieces])
    h_norm = (entropy - entropy.min()) / (entropy.max() - entropy.min() + 1e-8)
    weight = (-h_norm).exp()
    g, f = weight / (weight.mean() + 1e-8), (-h_norm).exp()
    modulated = []
    for i, (row, _, _) in enumerate(pieces):
        has_next = i + 1 < len(pieces) and pieces[i + 1][0] == row
        modulated.append(advantages[row] * g[i] + (0.1 * f[i + 1] if has_next else 0.0))
    values = torch.stack(modulated)
    values = values - values.mean()
    result = torch.zeros_like(entropies)
    for value, (row, start, end) in zip(values, pieces, strict=True):
        result[row, start:end] = value
    return result


def seconds(call: Callable[[], object]) -> float:
    """Return the processor time of one call."""
    start = process_time()
    call()
    return process_time() - start


def measure() -> dict[str, float]:
    """Return the medians."""
    parts = batch()
    torch.testing.assert_close(empg_token_advantages(*parts), with_loops(*parts))
    rounds = [
        (seconds(lambda: empg_token_advantages(*parts)), seconds(lambda: with_loops(*parts)))
        for _ in range(REPEATS)
    ]
    return {
        "empg_token_advantages (ms)": 1e3 * statistics.median(ours for ours, _ in rounds),
        "loops (ms)": 1e3 * statistics.median(loops for _, loops in rounds),
        "loops, over ours (ratio)": statistics.median(loops / ours for ours, loops in rounds),
    }


def main() -> None:
    """Print the table and write it where ``--out`` says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    out = parser.parse_args().out
    torch.set_num_threads(1)
    results = measure()
    print(f"{EPISODES} episodes of {TOKENS} tokens, {STEPS} steps each, one thread")
    for name, value in results.items():
        print(f"{name:<32} {value:8.1f}")
    if out is not None:
        write_atomic(out, json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
