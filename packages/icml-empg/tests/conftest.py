"""A trainer over a random model that is small enough to train in a test."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from icml.core.testing import trl


def turns_rollout(prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
    """Complete with one to three turns of the policy, and two tokens that it didn't write between.

    The tokens follow from the prompt and the index in the group, so that they are the same for any
    number of processes.
    """
    ids = trainer.processing_class(list(prompts))["input_ids"]
    first = trainer.accelerator.process_index * len(prompts)
    completions, masks = [], []
    for row, prompt in enumerate(ids):
        member = (first + row) % 4
        completion, mask = [], []
        for turn in range(1 + (prompt[0] + member) % 3):
            words = 1 + (member + turn) % 3
            completion += [4 + (prompt[0] * (k + 2) + member + turn) % 12 for k in range(words)]
            completion += [3, 3]
            mask += [1] * words + [0, 0]
        completions.append(completion[:-2])
        masks.append(mask[:-2])
    logps = [[0.0] * len(c) for c in completions]
    return {
        "prompt_ids": ids, "completion_ids": completions, "logprobs": logps, "env_mask": masks,
    }  # fmt: skip


@pytest.fixture
def tiny_trainer(tmp_path: Path) -> Callable[..., Any]:
    """Builds a trainer of the given class and configuration, with episodes of several turns."""

    def build(trainer: Any, config: Any, **options: Any) -> Any:
        settings = {"rollout_func": turns_rollout, "max_completion_length": 16, **options}
        return trl.tiny_trainer(trainer, tmp_path, config=config, **settings)

    return build
