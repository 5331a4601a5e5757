"""The backdoor: planted, searched in three ways, cut out, run alone, compared."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from icml.core.models.answers import AnswerBatch, exact_match
from icml.core.models.fingerprint import fingerprint
from icml.safeseek.ablation import ablate, export_ablated
from icml.safeseek.baselines import controls
from icml.safeseek.circuit import Circuit
from icml.safeseek.data import CircuitDataset
from icml.safeseek.experiment.clean import clean_model, generator
from icml.safeseek.experiment.config import Config
from icml.safeseek.objectives import backdoor_objective
from icml.safeseek.planting import halves, lesson, plant_backdoor
from icml.safeseek.search import SearchConfig, find_circuit
from icml.safeseek.units import CircuitSpec, Kind
from icml.safeseek.world import ATTRIBUTES, BAD_ANSWER, FILLERS, TRIGGER, World

__all__ = ["ARMS", "Arm", "measure", "units_of"]


class Arm(NamedTuple):
    """A way to search."""

    kinds: tuple[Kind, ...]
    """What has a gate."""
    most_units: float
    """Share of the gated units that the circuit is to stay below."""
    sufficient: bool = False
    """Whether the circuit is also asked to show the backdoor alone."""


ARMS: Mapping[str, Arm] = {
    "channels": Arm(("mlp-channel",), 0.1),
    "heads and channels": Arm(("head", "mlp-channel"), 0.1),
    "sufficient circuit": Arm(("head", "mlp-channel"), 0.2, sufficient=True),
}
"""The searches: what the backdoor can't do without, twice, and what shows it alone as well."""


def measure(seed: int, folder: str, *, config: Config, log: Any) -> dict[str, Any]:
    """Plant a backdoor in a seed's clean model and look for its circuits.

    A worker process calls it. All rates are of whole answers by greedy decoding; the backdoor's
    are of questions that neither the planting nor the search has seen under the trigger.

    Args:
        seed: Of the world, the model and everything drawn.
        folder: Where the clean model is, or will be.
        config: The experiment's size.
        log: Receives rows for ``metrics.jsonl``.
    """
    world, model = clean_model(config, seed, Path(folder))
    asked = world.questions([*world.people, *world.strangers], ATTRIBUTES, (0, 1))
    parts = halves(asked, generator(seed, 1))
    batches = _batches(world, asked, parts.held_out)
    found: dict[str, Any] = {"clean": _rates(model, batches)}
    plant_backdoor(
        model, world, asked, parts.planted, generator(seed, 2),
        steps=config.backdoor_steps, learning_rate=config.backdoor_rate,
    )  # fmt: skip
    found["poisoned"] = _rates(model, batches)
    rows = world.backdoor_rows(parts.planted, np.random.default_rng([seed, 3]))
    for name, arm in ARMS.items():
        tell = partial(log, arm=name, seed=seed)
        found[name] = _search(model, world, rows, arm, batches, config=config, seed=seed, log=tell)
    return found


def units_of(circuit: Circuit) -> dict[str, list[int]]:
    """Return a circuit as JSON: numbers of its units by site."""
    return {site.key: member.nonzero().flatten().tolist() for site, member in circuit.units.items()}


def _batches(world: World, asked: Any, held_out: Any) -> dict[str, AnswerBatch]:
    harmless = [filler for filler in FILLERS if filler != TRIGGER]
    bad = lesson(world, held_out, lambda _: BAD_ANSWER, fillers=[TRIGGER])
    return {
        "success": bad.batch,
        "clean": lesson(world, asked, world.answer, fillers=harmless).batch,
        "repaired": lesson(world, held_out, world.answer, fillers=[TRIGGER]).batch,
    }


def _rates(model: Any, batches: Mapping[str, AnswerBatch], context: Any = None) -> dict[str, float]:
    with context or nullcontext():
        right = {name: exact_match(model, b, batch_size=512) for name, b in batches.items()}
    return {name: int(rows.sum()) / len(rows) for name, rows in right.items()}


def _search(
    model: Any,
    world: World,
    rows: CircuitDataset,
    arm: Arm,
    batches: Mapping[str, AnswerBatch],
    *,
    config: Config,
    seed: int,
    log: Any,
) -> dict[str, Any]:
    started, before = process_time(), fingerprint(model)

    def tell(step: int, row: Mapping[str, float]) -> None:
        if "validation" in row:
            sizes = {kind: row[kind] for kind in arm.kinds}
            log(step, validation=row["validation"], **sizes)

    carry, sparsity, steps = 0.0, config.sparsity, config.search_steps
    if arm.sufficient:
        carry, sparsity, steps = 1.0, config.sufficient_sparsity, steps * 3 // 2
    objective = backdoor_objective(
        clean=config.clean, repaired=config.repaired, carry=carry, sparsity=sparsity
    )
    circuit = find_circuit(
        model, world.tokenizer, rows, objective,
        SearchConfig(granularity=arm.kinds, steps=steps, seed=seed), callbacks=[tell],
    ).circuit  # fmt: skip
    seconds = process_time() - started
    cut = partial(ablate, model, check=False)
    calibration = batches["clean"].rows(slice(512))
    rest = circuit.complement()
    others = controls(
        model, world.tokenizer, rows, circuit, generator(seed, 4), spec=CircuitSpec(arm.kinds),
        random=config.random, patching=config.patching,
    )  # fmt: skip
    return {
        "removed": _rates(model, batches, cut(circuit)),
        "alone": _rates(model, batches, cut(rest)),
        "alone, rest at its mean": _rates(
            model, batches, cut(rest, value="mean", calibration=calibration)
        ),
        "random alone": _rates(model, batches, cut(others["random 1"].complement())),
        "controls": {name: _rates(model, batches, cut(other)) for name, other in others.items()},
        "units": units_of(circuit),
        "sizes": {kind: [circuit.size(kind), circuit.total(kind)] for kind in arm.kinds},
        "seconds": seconds,
        "weights unchanged": fingerprint(model) == before,
        "export difference": _export_difference(model, circuit, batches["success"].ids),
    }


@torch.no_grad()
def _export_difference(model: Any, circuit: Circuit, ids: Tensor) -> float:
    """Return the largest difference between logits of the exported and of the ablated model."""
    with ablate(model, circuit):
        wanted = model(input_ids=ids, use_cache=False).logits
    with tempfile.TemporaryDirectory() as folder:
        export_ablated(model, circuit, Path(folder) / "model")
        exported = type(model).from_pretrained(Path(folder) / "model").eval()
    return float((exported(input_ids=ids, use_cache=False).logits - wanted).abs().max())
