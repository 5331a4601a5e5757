"""A trainer over a random model that is small enough to train in a test."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest


def even_ids(completion_ids: Sequence[Sequence[int]], **columns: Any) -> list[float]:
    """Reward: the number of even token ids."""
    return [float(sum(token % 2 == 0 for token in ids)) for ids in completion_ids]


def first_id(completion_ids: Sequence[Sequence[int]], **columns: Any) -> list[float | None]:
    """Reward: the first token id; missing for a third of the completions."""
    return [None if i % 3 == 0 else float(ids[0]) for i, ids in enumerate(completion_ids)]


def last_id(completion_ids: Sequence[Sequence[int]], **columns: Any) -> list[float]:
    """Reward: a hundredth of the last token id."""
    return [ids[-1] / 100 for ids in completion_ids]


@pytest.fixture
def tiny_trainer(tmp_path: Path) -> Callable[..., Any]:
    """Builds a trainer of the given class and configuration over a random 4 k-parameter Llama."""

    def build(
        trainer: Any, config: Any, *, rewards: Any = (even_ids, first_id, last_id), **options: Any
    ) -> Any:
        from datasets import Dataset

        from icml.core.models.tiny import causal_lm, word_tokenizer

        words = list("abcdefghijkl")
        settings: dict[str, Any] = {
            "output_dir": str(tmp_path), "use_cpu": True, "bf16": False, "report_to": [],
            "gradient_checkpointing": False, "disable_tqdm": True, "save_strategy": "no",
            "per_device_train_batch_size": 8, "num_generations": 4, "max_completion_length": 6,
            "learning_rate": 1e-2, "logging_steps": 1, "max_steps": 3, "seed": 7,
        }  # fmt: skip
        return trainer(
            model=causal_lm(16, d=16, layers=1, heads=2, ctx=32),
            reward_funcs=list(rewards),
            args=config(**{**settings, **options}),
            train_dataset=Dataset.from_dict({"prompt": [f"{a} {b}" for a in words for b in "ab"]}),
            eval_dataset=Dataset.from_dict({"prompt": ["a c", "d e"]}),
            processing_class=word_tokenizer(words),
        )

    return build
