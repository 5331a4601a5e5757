"""Does fine-tuning on false statements cure a model that agrees with everything? One seed of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from icml.brokenmath.categories import CATEGORIES

__all__ = ["train_and_measure"]


def train_and_measure(
    seed: int,
    shares: tuple[float, ...],
    *,
    sizes: dict[str, int],
    rates: dict[str, float],
    log: Any,
) -> dict[str, Any]:
    """Train a base model, then fine-tune a copy of it with each share of false statements.

    Args:
        seed: Of pairs, weights and batches.
        shares: Of the fine-tuning's statements, those that are false.
        sizes: ``modulus``, ``held_out``, ``batch``, and the steps ``base`` and ``tuned``.
        rates: Learning rates ``base`` and ``tuned``.
        log: Receives a row of each model.

    Returns:
        By model (``base``, or its share): for each held-out pair whether the model knows the sum
        and proves the true statement, and its behaviour towards the false one.
    """
    import copy

    from icml.brokenmath.experiment.world import World, measure
    from icml.core.models.tiny import TinyGPT
    from icml.core.rl.sft import supervised

    world = World(sizes["modulus"], sizes["held_out"], seed)
    model = TinyGPT(world.vocabulary, d=64, layers=2, heads=4, ctx=12, seed=seed)
    # All statements that the base model ever sees are true: whatever it reads deserved a proof.
    batches = world.batches(
        sizes["base"], size=sizes["batch"], questions=0.7, false=0.0, seed="base"
    )
    supervised(model, batches, learning_rate=rates["base"])
    found = {"base": measure(model, world)}
    for share in shares:
        tuned = copy.deepcopy(model)
        batches = world.batches(
            sizes["tuned"], size=sizes["batch"], questions=0.2, false=share, seed=f"tuned/{share}"
        )
        supervised(tuned, batches, learning_rate=rates["tuned"])
        found[str(share)] = measure(tuned, world)
    for name, one in found.items():
        counted = Counter(one.behaviour)
        n = len(one.behaviour)
        row = {category: counted[category] / n for category in CATEGORIES}
        log(0, arm=name, seed=seed, knows=sum(one.knows) / n, proves=sum(one.proves) / n, **row)
    return {name: one._asdict() for name, one in found.items()}
