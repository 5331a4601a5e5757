"""Time of gated forward passes and of search steps against those of the plain model.

Run it with ``uv run python`` and this file; ``--smollm2`` measures SmolLM2-135M as well (its
weights come from a package), ``--out FILE`` writes the numbers as JSON. Arms are timed in turn in
one process on one thread, and medians of paired ratios are printed: a ratio means the same on
every machine, a time does not. Processor time, so that other processes do not count.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import torch
from torch import Tensor

from icml.core.journal import write_atomic
from icml.core.models.answers import IGNORED, AnswerBatch, sequence_nll
from icml.core.models.load import load
from icml.core.models.tiny import causal_lm
from icml.safeseek.ablation import ablate
from icml.safeseek.circuit import Circuit
from icml.safeseek.masks import GateSet
from icml.safeseek.objectives import backdoor_objective
from icml.safeseek.search import frozen
from icml.safeseek.units import CircuitSpec

SHARE = 0.03  # of the units, at random, for the ablated model: every site has some


def seconds(call: Callable[[], object]) -> float:
    """Return the processor time of one call."""
    start = process_time()
    call()
    return process_time() - start


def random_circuit(model: Any, generator: torch.Generator) -> Circuit:
    """Return a circuit of about `SHARE` of the units, at least one a site."""
    units = Circuit.of(model, {}).units
    drawn = {s: torch.rand(len(m), generator=generator) < SHARE for s, m in units.items()}
    for member in drawn.values():
        member[0] = True
    return Circuit(drawn, Circuit.of(model, {}).model_fingerprint)


def forward_ratios(model: Any, ids: Tensor, repeats: int) -> dict[str, float]:
    """Return times of forward passes over those of the plain model, without gradients."""
    circuit = random_circuit(model, torch.Generator().manual_seed(0))
    gates = GateSet(model, CircuitSpec()).eval()

    @torch.no_grad()
    def plain() -> Tensor:
        return model(input_ids=ids, use_cache=False).logits

    def cut() -> None:
        with ablate(model, circuit, check=False):
            plain()

    def all_on() -> Tensor:
        with gates.apply(model, "main"):
            return plain()

    if not torch.equal(all_on(), plain()):
        raise AssertionError("gates that are all on changed the logits")
    rounds = [(seconds(plain), seconds(cut), seconds(all_on)) for _ in range(repeats)]
    return {
        "forward with a circuit cut out": statistics.median(b / a for a, b, _ in rounds),
        "forward with gates all on": statistics.median(c / a for a, _, c in rounds),
    }


def step_ratio(model: Any, batch: AnswerBatch, repeats: int) -> float:
    """Return the time of a search step of 4 terms over that of a training step of as many rows."""
    objective = backdoor_objective("official-neuron")
    gates = GateSet(model, CircuitSpec(), masks=2)
    batches = dict.fromkeys(objective.pairs, batch)
    search_adam = torch.optim.Adam([gates.logits], lr=1e-2)
    train_adam = torch.optim.AdamW(model.parameters(), lr=0.0)  # the weights stay as they are

    def search() -> None:
        search_adam.zero_grad()
        for term in objective.terms:
            objective.term_loss(term, gates, model, batches).backward()
        objective.penalty(gates).backward()
        search_adam.step()

    def train() -> None:
        train_adam.zero_grad()
        sequence_nll(model, batch).mean().backward()
        train_adam.step()

    ratios = []
    for _ in range(repeats):
        trained = seconds(train)
        train_adam.zero_grad()
        with frozen(model):
            ratios.append(seconds(search) / trained)
            if any(p.grad is not None for p in model.parameters()):
                raise AssertionError("a search step made the gradient of a weight")
    return statistics.median(ratios)


def measure(name: str, model: Any, rows: int, tokens: int, repeats: int) -> dict[str, float]:
    """Return the ratios of one model; the last 2 tokens of a row are its answer."""
    draws = torch.Generator().manual_seed(0)
    ids = torch.randint(4, model.config.vocab_size, (rows, tokens), generator=draws)
    labels = ids.clone()
    labels[:, :-2] = IGNORED
    batch = AnswerBatch(ids, torch.ones_like(ids).bool(), labels, torch.zeros(rows).bool())
    found = forward_ratios(model, ids, repeats)
    found["search step of 4 terms, over a training step"] = step_ratio(model, batch, repeats)
    return {f"{name}, {rows} x {tokens}: {what} (ratio)": value for what, value in found.items()}


def main() -> None:
    """Print the table and write it where ``--out`` says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smollm2", action="store_true", help="measure SmolLM2-135M as well")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    options = parser.parse_args()
    torch.set_num_threads(1)
    tiny = causal_lm(130, d=64, layers=3, heads=4)
    results = measure("3 layers of width 64", tiny, rows=32, tokens=16, repeats=51)
    if options.smollm2:
        model = load("pkg:smollm2", device="cpu", dtype="float32").model
        results |= measure("SmolLM2-135M", model, rows=8, tokens=64, repeats=5)
    for name, value in results.items():
        print(f"{name:<80} {value:8.2f}")
    if options.out is not None:
        write_atomic(options.out, json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
