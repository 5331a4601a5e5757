"""A trainer over a random model that is small enough to train in a test."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from icml.core.testing import trl


def first_id(completion_ids: Sequence[Sequence[int]], **columns: Any) -> list[float | None]:
    """Reward: the first token id; missing for a third of the completions."""
    return [None if i % 3 == 0 else float(ids[0]) for i, ids in enumerate(completion_ids)]


@pytest.fixture
def tiny_trainer(tmp_path: Path) -> Callable[..., Any]:
    """Builds a trainer of the given class and configuration, with three rewards."""
    rewards = (trl.even_ids, first_id, trl.last_id)

    def build(trainer: Any, config: Any, **options: Any) -> Any:
        return trl.tiny_trainer(trainer, tmp_path, config=config, **{"rewards": rewards, **options})

    return build
