"""What gates cost a forward pass: gated over plain, on a small model, in one process.

``python packages/icml-safeseek/benchmarks/gate_cost.py`` writes ``gate.json`` beside itself.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from time import process_time

import torch

from icml.core.models.tiny import causal_lm
from icml.safeseek.masks import GateSet
from icml.safeseek.units import CircuitSpec

ROUNDS, PASSES = 15, 20
BATCH, TOKENS = 32, 16


def main() -> None:
    """Alternate both in short rounds and compare the medians of the processor's time."""
    torch.set_num_threads(1)
    model = causal_lm(64, d=64, layers=3, heads=4)
    ids = torch.randint(0, 64, (BATCH, TOKENS), generator=torch.Generator().manual_seed(0))
    gates = GateSet(model, CircuitSpec())
    plain, gated = [], []
    with torch.no_grad():
        exact = bool(torch.equal(model(ids).logits, _gated(gates, model, ids)))
        for _ in range(ROUNDS):
            start = process_time()
            for _ in range(PASSES):
                model(ids)
            plain.append(process_time() - start)
            start = process_time()
            for _ in range(PASSES):
                _gated(gates, model, ids)
            gated.append(process_time() - start)
    found = {
        "batch": BATCH,
        "tokens": TOKENS,
        "all_on_equals_plain": exact,
        "ratio": round(median(g / p for g, p in zip(gated, plain, strict=True)), 3),
    }
    Path(__file__).with_name("gate.json").write_text(json.dumps(found, indent=1) + "\n")
    print(found)


def _gated(gates: GateSet, model: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    with gates.apply(model):
        return model(ids).logits


if __name__ == "__main__":
    main()
