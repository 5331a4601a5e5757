"""The share of a step's CPU time inside GDPO's override, by the mixin's own accounting.

``python benchmarks/override.py``: a small random Llama, the cheapest model that a step could have,
so the largest share; target below 2 % for a real one (see ``benchmarks/smollm2_chain_sum``).
"""

from __future__ import annotations

import logging
import tempfile
import time
import warnings
from collections.abc import Sequence
from typing import Any

from datasets import Dataset

from icml.core.models.load import load
from icml.gdpo import GDPOConfig, GDPOTrainer

STEPS = 10


def even_ids(completion_ids: Sequence[Sequence[int]], **columns: Any) -> list[float]:
    """Reward: the number of even token ids."""
    return [float(sum(token % 2 == 0 for token in ids)) for ids in completion_ids]


def first_id(completion_ids: Sequence[Sequence[int]], **columns: Any) -> list[float]:
    """Reward: the first token id."""
    return [float(ids[0]) for ids in completion_ids]


def brief(completion_ids: Sequence[Sequence[int]], **columns: Any) -> list[float]:
    """Reward: 1 below 20 tokens."""
    return [float(len(ids) < 20) for ids in completion_ids]


def main() -> None:
    """Print the share."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    loaded = load("random:llama?layers=4&hidden=128&vocab=256&ctx=128", device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        config = GDPOConfig(
            folder, use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[],
            disable_tqdm=True, save_strategy="no", max_steps=STEPS, logging_steps=1,
            per_device_train_batch_size=32, num_generations=8, max_completion_length=32,
        )  # fmt: skip
        trainer = GDPOTrainer(
            loaded.model, [even_ids, first_id, brief], config,
            train_dataset=Dataset.from_dict({"prompt": [f"word {i}" for i in range(64)]}),
            processing_class=loaded.tokenizer,
        )  # fmt: skip
        started = time.process_time()
        trainer.train()
        whole = time.process_time() - started
    inside = trainer.override_seconds
    print(
        f"{1e3 * inside / STEPS:.1f} ms of {1e3 * whole / STEPS:.0f} ms CPU time a step inside the "
        f"override: {inside / whole:.2%} (32 completions, 3 rewards, 1.1 M parameters)"
    )


if __name__ == "__main__":
    main()
