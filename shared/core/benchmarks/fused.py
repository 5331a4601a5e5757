"""Memory and time of `icml.core.cuda.fused.score_tokens` against making all logits.

Run it with ``uv run python`` and this file; ``--out FILE`` writes the numbers as JSON. Each arm
runs in a process of its own, on one thread, forward and backward, gradients to states and weight.
Memory is what the peak resident size exceeds the inputs by, gradients included; time is processor
time. The arms take turns, and the medians of the paired ratios are printed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from time import process_time

import psutil
import torch
from torch import Tensor

from icml.core.cuda.device import peak_memory_mb
from icml.core.cuda.fused import score_tokens
from icml.core.journal import write_atomic

ROWS, WIDTH, ROUNDS = 1024, 576, 3
VOCABULARIES = {"SmolLM2": 49152, "Qwen2.5": 151936}


def plain(hidden: Tensor, weight: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Score tokens the usual way, from all logits."""
    logs = torch.log_softmax(hidden @ weight.T, -1)
    return logs.gather(-1, ids[:, None])[:, 0], -(logs.exp() * logs).sum(-1)


def run_arm(arm: str, vocabulary: int) -> dict[str, float]:
    """Return the megabytes and the seconds of one arm, in this process."""
    torch.set_num_threads(1)
    draws = torch.Generator().manual_seed(0)
    hidden = torch.randn(ROWS, WIDTH, generator=draws).requires_grad_()
    weight = torch.randn(vocabulary, WIDTH, generator=draws).mul_(0.05).requires_grad_()
    ids = torch.randint(vocabulary, (ROWS,), generator=draws)
    before, start = psutil.Process().memory_info().rss / 1e6, process_time()
    logp, entropy = (plain if arm == "plain" else score_tokens)(hidden, weight, ids)
    (logp.sum() + 0.01 * entropy.sum()).backward()
    seconds = process_time() - start
    return {"mb": peak_memory_mb(hidden.device) - before, "seconds": seconds}


def child(arm: str, vocabulary: int) -> dict[str, float]:
    """Run one arm in a process of its own."""
    command = [sys.executable, __file__, "--arm", arm, "--vocabulary", str(vocabulary)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def measure() -> dict[str, float]:
    """Return the medians over the rounds."""
    results: dict[str, float] = {}
    for name, vocabulary in VOCABULARIES.items():
        rounds = [[child(arm, vocabulary) for arm in ("plain", "fused")] for _ in range(ROUNDS)]
        title = f"{name}'s vocabulary of {vocabulary}"
        for unit, word in (("mb", "memory"), ("seconds", "time")):
            ratios = [fused[unit] / usual[unit] for usual, fused in rounds]
            results[f"{title}: {word}, fused over plain (ratio)"] = statistics.median(ratios)
        for index, arm in enumerate(("plain", "fused")):
            for unit, label in (("mb", "MB"), ("seconds", "s")):
                values = [pair[index][unit] for pair in rounds]
                results[f"{title}: {arm} ({label})"] = statistics.median(values)
    return results


def main() -> None:
    """Print the table and write it where ``--out`` says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--arm", choices=("plain", "fused"), help=argparse.SUPPRESS)
    parser.add_argument("--vocabulary", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.arm:
        print(json.dumps(run_arm(options.arm, options.vocabulary)))
        return
    results = measure()
    print(f"{ROWS} rows of width {WIDTH}, float32, one thread, forward and backward")
    for name, value in results.items():
        print(f"{name:<62} {value:9.2f}")
    if options.out is not None:
        write_atomic(options.out, json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
