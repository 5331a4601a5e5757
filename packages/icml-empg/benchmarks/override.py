"""The share of a step's CPU time inside EMPG's override, by the mixin's own accounting.

``python benchmarks/override.py``: a small random Llama, the cheapest model that a step could have;
``--out FILE`` writes the numbers as JSON. Nearly all of it is the forward pass for the entropies.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import PrinterCallback

from icml.core.journal import write_atomic
from icml.core.models.load import load
from icml.empg import EMPGConfig, EMPGTrainer

STEPS, COMPLETIONS = 10, 32


def even_ids(completion_ids: Sequence[Sequence[int]], **columns: Any) -> list[float]:
    """Reward: the number of even token ids."""
    return [float(sum(token % 2 == 0 for token in ids)) for ids in completion_ids]


def measure() -> dict[str, float]:
    """Train a few steps and return where the CPU time went."""
    loaded = load("random:llama?layers=4&hidden=128&vocab=256&ctx=128", device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        config = EMPGConfig(
            folder, use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[],
            disable_tqdm=True, save_strategy="no", max_steps=STEPS, logging_steps=1,
            per_device_train_batch_size=COMPLETIONS, num_generations=8, max_completion_length=32,
        )  # fmt: skip
        trainer = EMPGTrainer(
            loaded.model, even_ids, config,
            train_dataset=Dataset.from_dict({"prompt": [f"word {i}" for i in range(64)]}),
            processing_class=loaded.tokenizer,
        )  # fmt: skip
        trainer.remove_callback(PrinterCallback)
        started = time.process_time()
        trainer.train()
        whole = time.process_time() - started
    return {
        "CPU time of a step (ms)": 1e3 * whole / STEPS,
        "inside the override (ms)": 1e3 * trainer.override_seconds / STEPS,
        "share (%)": 1e2 * trainer.override_seconds / whole,
    }


def main() -> None:
    """Print the share and write it where ``--out`` says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    out = parser.parse_args().out
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    results = measure()
    print(f"{COMPLETIONS} completions of 32 tokens, 1.1 M parameters, one thread")
    for name, value in results.items():
        print(f"{name:<32} {value:8.1f}")
    if out is not None:
        write_atomic(out, json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
