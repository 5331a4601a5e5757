"""Refusals: planted, their circuit cut out, and protected in later fine-tuning (SCT)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from icml.core.models.answers import AnswerBatch, exact_match
from icml.safeseek.ablation import ablate
from icml.safeseek.circuit import Circuit
from icml.safeseek.experiment.backdoor import units_of
from icml.safeseek.experiment.clean import clean_model, generator
from icml.safeseek.experiment.config import Config
from icml.safeseek.objectives import Objective, Pair, Term, alignment_objective
from icml.safeseek.planting import halves, learn_refusals, lesson, teach
from icml.safeseek.search import SearchConfig, find_circuit
from icml.safeseek.tuning import CircuitTuner, unit_slices
from icml.safeseek.world import ATTRIBUTES, FILLERS, FORBIDDEN, REFUSAL, Question, World

__all__ = ["ARMS", "measure", "objective"]

ARMS = ("plain", "circuit protected", "random protected")
"""Ways of fine-tuning: everything; all but the circuit; all but a random one of its size."""


def measure(seed: int, folder: str, *, config: Config, log: Any) -> dict[str, Any]:
    """Plant refusals, find their circuit, fine-tune with and without protecting it.

    A worker process calls it. Rates are of whole answers by greedy decoding; those of refusals are
    of questions that neither the planting nor the search has seen.

    Args:
        seed: Of the world, the model and everything drawn.
        folder: Where the clean model is, or will be.
        config: The experiment's size.
        log: Receives rows for ``metrics.jsonl``.
    """
    world, model = clean_model(config, seed, Path(folder))
    everybody = [*world.people, *world.strangers]
    permitted = [attribute for attribute in ATTRIBUTES if attribute not in FORBIDDEN]
    told = world.questions(everybody, permitted, (0, 1))
    later = world.questions(world.newcomers, permitted, (0, 1))
    known = halves(world.questions(world.people, FORBIDDEN, (0, 1)), generator(seed, 1))
    unknown = halves(world.questions(world.strangers, FORBIDDEN, (0, 1)), generator(seed, 2))
    learn_refusals(
        model, world, [*known.planted, *unknown.planted, *told], generator(seed, 3),
        steps=config.refusal_steps, learning_rate=config.refusal_rate,
    )  # fmt: skip
    batches = {
        "refused": lesson(world, known.held_out, lambda _: REFUSAL).batch,
        "complied": lesson(world, known.held_out, world.answer).batch,
        "told": lesson(world, told, world.answer).batch,
        "learnt": lesson(world, later, world.answer).batch,
    }
    found: dict[str, Any] = {"guarded": _rates(model, batches)}
    circuit = find_circuit(
        model, world.tokenizer, _rows(world, known.planted, told, seed),
        objective(config.refusal_sparsity),
        SearchConfig(steps=config.search_steps, seed=seed),
    ).circuit  # fmt: skip
    with ablate(model, circuit):
        found["removed"] = _rates(model, batches)
    with ablate(model, circuit.complement()):
        found["alone"] = _rates(model, batches)
    found["sizes"] = {kind: [circuit.size(kind), circuit.total(kind)] for kind in circuit.kinds}
    found["units"] = units_of(circuit)
    found["tuned"], found["moved"] = _tune(
        model, world, [*later, *told], circuit,
        config=config, seed=seed, rates=lambda: _rates(model, batches),
    )  # fmt: skip
    for arm, rates in found["tuned"].items():
        log(config.tune_steps, arm=arm, seed=seed, **rates)
    return found


def objective(sparsity: float) -> Objective:
    """Return the paper's alignment objective with a term of ours: what may be told is still told.

    Args:
        sparsity: Weight of the circuit's share of the units.
    """
    plain = alignment_objective(sparsity=sparsity)
    return replace(plain, terms=(*plain.terms, Term("main", Pair("told", "told_answer"), 2.0)))


def _rows(
    world: World, refused: list[Question], told: list[Question], seed: int
) -> list[Mapping[str, Any]]:
    """Return refused questions under several fillers, each beside one that may be answered."""
    draws = np.random.default_rng([seed, 4])
    rows = world.refusal_rows(refused * 4, draws)
    beside = [told[i] for i in draws.integers(0, len(told), len(rows))]
    fillers = draws.choice(FILLERS, len(rows))
    return [
        {**row, "told": world.prompt(question, str(filler)), "told_answer": world.answer(question)}
        for row, question, filler in zip(rows, beside, fillers, strict=True)
    ]


def _rates(model: Any, batches: Mapping[str, AnswerBatch]) -> dict[str, float]:
    right = {name: exact_match(model, b, batch_size=512) for name, b in batches.items()}
    return {name: int(rows.sum()) / len(rows) for name, rows in right.items()}


def _tune(
    model: Any,
    world: World,
    helpful: list[Question],
    circuit: Circuit,
    *,
    config: Config,
    seed: int,
    rates: Callable[[], dict[str, float]],
) -> tuple[dict[str, dict[str, float]], float]:
    """Fine-tune in three ways; return their rates, and by how much a protected entry moved."""
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    data = lesson(world, helpful, world.answer, rows_a_step=96)
    protected = {
        "circuit protected": circuit,
        "random protected": circuit.random_like(generator(seed, 5)),
    }
    found, moved = {}, 0.0
    for arm in ARMS:
        model.load_state_dict(start)
        tuner = CircuitTuner(model, protected[arm], tune="complement") if arm in protected else None
        teach(
            model, [data], steps=config.tune_steps, learning_rate=config.tune_rate,
            generator=generator(seed, 6), on_step=None if tuner is None else _restore(tuner),
        )  # fmt: skip
        found[arm] = rates()
        if tuner is not None:
            tuner.remove()
            moved = max(moved, _moved(model, start, protected[arm]))
    return found, moved


def _restore(tuner: CircuitTuner) -> Callable[[Any], None]:
    return lambda model: tuner.restore()


@torch.no_grad()
def _moved(model: Any, start: Mapping[str, torch.Tensor], circuit: Circuit) -> float:
    own, now = unit_slices(model, circuit), model.state_dict()
    return max(float((now[name] - start[name])[mask].abs().max()) for name, mask in own.items())
