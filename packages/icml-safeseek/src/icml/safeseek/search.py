"""The search for a circuit: gradient descent on the gates, the model's weights frozen."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from icml.core.errors import UserError
from icml.core.models.answers import AnswerBatch
from icml.core.models.fingerprint import fingerprint
from icml.safeseek.batches import Row, lay_out, take
from icml.safeseek.checkpoint import Checkpoint, SearchState, search_identity
from icml.safeseek.circuit import FILES, Circuit
from icml.safeseek.fit import check_weights
from icml.safeseek.masks import GateSet, Relaxation
from icml.safeseek.objectives import Objective, Pair
from icml.safeseek.outputs import check_replaceable
from icml.safeseek.units import CircuitSpec, Kind

__all__ = [
    "Callback", "CircuitSearchError", "SearchConfig", "SearchResult", "find_circuit",
    "official_search",
]  # fmt: skip

Callback = Callable[[int, Mapping[str, float]], None]
"""Called after each step with its number from 1 and the step's losses and sizes."""


class CircuitSearchError(UserError):
    """The search ended without a circuit; the message says which weight to change."""


@dataclass(frozen=True)
class SearchConfig:
    """Settings of a search."""

    granularity: tuple[Kind, ...] = ("head", "mlp-channel")
    """Kinds of units that get a gate."""
    layers: tuple[int, ...] | None = None
    """Blocks whose units get one, counted from 0; None takes all."""
    relaxation: Relaxation = "ste"
    """``ste``, the paper's, or ``hard_concrete``."""
    steps: int = 220
    """Steps of Adam on the gates."""
    epochs: int | None = None
    """Passes over the rows instead of ``steps``."""
    batch_size: int = 48
    """Rows a step; each row is used once a pass."""
    learning_rate: float = 3e-2
    """Adam's rate on the gates' logits."""
    tau: float = 1.0
    """Temperature of the straight-through gates."""
    init: float | None = None
    """First logit of all gates; None takes the objective's."""
    max_len: int = 128
    """Tokens kept a row."""
    select_from: float = 0.5
    """Share of the steps after which the best gates by validation are kept."""
    eval_every: int = 10
    """Steps between two validations; the last step has one."""
    checkpoint_every: int = 50
    """Steps between two checkpoints, where there is a folder for them."""
    seed: int = 0
    """Seed of the rows' order and of the noise of hard concrete gates."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        least = {name: 1 for name in ("steps", "batch_size", "eval_every", "checkpoint_every")}
        least |= {"max_len": 2, "seed": 0} | ({} if self.epochs is None else {"epochs": 1})
        for name, bound in least.items():
            value = getattr(self, name)
            if type(value) is not int or value < bound:
                raise UserError(f"{name} must be a whole number >= {bound}, got {value!r}")
        for name in ("learning_rate", "tau", "select_from", "init"):
            value = getattr(self, name)
            number = isinstance(value, Real) and type(value) is not bool and math.isfinite(value)
            if not number and not (name == "init" and value is None):
                raise UserError(f"{name} must be a finite number, got {value!r}")
        for name in ("learning_rate", "tau"):
            if getattr(self, name) <= 0:
                raise UserError(f"{name} must be > 0, got {getattr(self, name)}")
        if not 0 <= self.select_from < 1:
            raise UserError(f"select_from must be in [0, 1), got {self.select_from}")
        if self.relaxation not in get_args(Relaxation):
            raise UserError(f"relaxation must be ste or hard_concrete, got {self.relaxation!r}")
        CircuitSpec(self.granularity, self.layers)


def official_search(objective: Objective, **changes: Any) -> SearchConfig:
    """Return the authors' settings for one of their presets; units are for the caller to choose.

    They choose the best gates after each epoch; this looks every ``eval_every`` steps.

    Args:
        objective: Made with an ``official`` preset.
        changes: Fields of `SearchConfig` that are to differ.

    Raises:
        UserError: If the objective is none of the authors'.
    """
    epochs = {
        "backdoor, official-head": (100, 8, 128),
        "backdoor, official-neuron": (50, 2, 128),
        "backdoor, official-head-neuron": (20, 2, 128),
        "alignment, official-head": (50, 8, 256),
        "alignment, official-neuron": (50, 8, 256),
        "alignment, official-head-neuron": (50, 8, 256),
    }
    if objective.name not in epochs:
        raise UserError(f"{objective.name!r} is no objective of the authors'")
    passes, rows, length = epochs[objective.name]
    theirs = SearchConfig(
        epochs=passes,
        batch_size=rows,
        max_len=length,
        learning_rate=1e-2,
        seed=42,
        select_from=0.0,
    )
    return replace(theirs, **changes)


@dataclass(frozen=True)
class SearchResult:
    """What a search found."""

    circuit: Circuit
    """The units that the main path leaves out: cut them to remove the behaviour."""
    carrier: Circuit | None
    """With two masks, the units that are on in the circuit's own mask; else None."""
    history: tuple[Mapping[str, float], ...]
    """One entry a step; those with a validation have ``validation``."""
    best_step: int
    """Step after which the circuit was taken, from 1."""
    validation: float
    """Its loss on the validation rows with hard gates, without the penalties."""


def find_circuit(
    model: Any,
    tokenizer: Any,
    data: Iterable[Row],
    objective: Objective,
    cfg: SearchConfig | None = None,
    *,
    eval_data: Iterable[Row] | None = None,
    callbacks: Sequence[Callback] = (),
    out: Path | str | None = None,
) -> SearchResult:
    """Learn gates for a model's units and return the circuit that they leave out.

    The model's weights, modules and training mode are as before afterwards, and no gradient of a
    weight is ever made. The gates with the least validation loss (hard gates, no penalties; of
    equal ones those with the smaller circuit) are kept. The same arguments give the same circuit;
    on a CPU also after an interruption, bit for bit.

    **Differs from the paper:** one mask and its complement by default, see `objectives`; penalties
    are means over units, not sums over layers.

    Args:
        model: A decoder of one of `icml.core.models.blocks.FAMILIES`, where its weights lie.
        tokenizer: Its tokenizer.
        data: Rows to learn from, with the texts that the objective names.
        objective: From `objectives`.
        cfg: Settings.
        eval_data: Rows to choose the best gates by; None takes ``data``.
        callbacks: Called after each step.
        out: Folder for checkpoints and the result: the same call goes on from there.

    Raises:
        CircuitSearchError: If no unit is left out, or every one.
        UserError: If the data, the settings or the model can't be searched, or ``out`` holds
            another search.
    """
    cfg = cfg or SearchConfig()
    if out is not None:
        for name in ("circuit", "carrier"):
            check_replaceable(Path(out) / name, FILES)
    spec = CircuitSpec(cfg.granularity, cfg.layers)
    gates = GateSet(
        model,
        spec,
        relaxation=cfg.relaxation,
        masks=objective.masks,
        init=objective.init if cfg.init is None else cfg.init,
        tau=cfg.tau,
    )
    device = gates.logits.device
    train = lay_out(tokenizer, data, objective.pairs, cfg.max_len, device, model=model)
    held_out = train
    if eval_data is not None:
        held_out = lay_out(tokenizer, eval_data, objective.pairs, cfg.max_len, device, model=model)
    check_weights(model)
    owner = fingerprint(model)
    identity = search_identity(cfg, objective, owner, train, held_out)
    with Checkpoint.open(out, identity) as checkpoint, frozen(model):
        state = SearchState.fresh(gates, cfg.learning_rate)
        checkpoint.load(state)
        steps = cfg.steps if cfg.epochs is None else cfg.epochs * _batches(train, cfg)
        while state.step < steps:
            row = _step(state, model, train, objective, cfg)
            if state.step % cfg.eval_every == 0 or state.step == steps:
                row["validation"] = validation_loss(gates, model, held_out, objective, cfg)
                if not math.isfinite(row["validation"]):
                    raise UserError(
                        f"the validation of step {state.step} gave a loss that is no number; with "
                        "weights in float16 load the model in float32 or bfloat16"
                    )
                if state.step > cfg.select_from * steps or state.step == steps:
                    state.keep_best(row)
            if state.step % cfg.checkpoint_every == 0 or state.step == steps:
                checkpoint.save(state)
            for callback in callbacks:
                callback(state.step, row)
    return _result(state, owner, objective, cfg, out)


@contextmanager
def frozen(model: Any) -> Generator[None]:
    """Switch dropout and the weights' gradients off in a ``with`` block."""
    training = model.training
    learning = [p for p in model.parameters() if p.requires_grad]
    model.eval()
    for parameter in learning:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in learning:
            parameter.requires_grad_(True)
        model.train(training)


def _step(
    state: SearchState,
    model: Any,
    train: Mapping[Pair, AnswerBatch],
    objective: Objective,
    cfg: SearchConfig,
) -> dict[str, float]:
    """Take one step; return its losses and the circuit's sizes after it."""
    gates = state.gates.train()
    if cfg.relaxation == "hard_concrete":
        seed = int(np.random.default_rng([cfg.seed, 1, state.step]).integers(2**62))
        gates.draw(torch.Generator().manual_seed(seed))
    batch = take(train, _rows(train, cfg, state.step).to(gates.logits.device))
    state.optimizer.zero_grad()
    row: dict[str, float] = {}
    # a backward pass a term: the memory is that of one
    for term in objective.terms:
        loss = objective.term_loss(term, gates, model, batch)
        loss.backward()
        row[term.name] = loss.item() / term.weight
    penalty = objective.penalty(gates)
    penalty.backward()
    row["penalty"] = penalty.item()
    if not all(math.isfinite(value) for value in row.values()):
        raise UserError(
            f"step {state.step + 1} gave a loss that is no number: {row}; with weights in float16 "
            "load the model in float32 or bfloat16"
        )
    state.optimizer.step()
    state.step += 1
    for site, on in gates.hard("main").items():
        row[site.kind] = row.get(site.kind, 0) + int((~on).sum())
    state.history.append(row)
    return row


def _batches(train: Mapping[Pair, AnswerBatch], cfg: SearchConfig) -> int:
    return math.ceil(len(next(iter(train.values()))) / cfg.batch_size)


def _rows(train: Mapping[Pair, AnswerBatch], cfg: SearchConfig, step: int) -> Tensor:
    """Return the rows of a step, a function of the seed and the step alone."""
    total, parts = len(next(iter(train.values()))), _batches(train, cfg)
    order = np.random.default_rng([cfg.seed, 0, step // parts]).permutation(total)
    start = step % parts * cfg.batch_size
    return torch.from_numpy(order[start : start + cfg.batch_size])


@torch.no_grad()
def validation_loss(
    gates: GateSet,
    model: Any,
    batches: Mapping[Pair, AnswerBatch],
    objective: Objective,
    cfg: SearchConfig,
) -> float:
    """Return the terms' weighted loss with hard gates, without penalties, over all rows."""
    gates.eval()
    total, rows = 0.0, len(next(iter(batches.values())))
    for start in range(0, rows, cfg.batch_size):
        part = take(batches, slice(start, start + cfg.batch_size))
        share = len(next(iter(part.values()))) / rows
        total += share * sum(
            objective.term_loss(term, gates, model, part).item() for term in objective.terms
        )
    return total


def _result(
    state: SearchState, owner: str, objective: Objective, cfg: SearchConfig, out: Any
) -> SearchResult:
    best = state.best_gates()
    notes = {
        "objective": objective.name,
        "seed": cfg.seed,
        "step": state.best_step,
        "validation": state.best_loss,
    }
    left_out = {site: ~on for site, on in best.hard("main").items()}
    circuit = Circuit(left_out, owner, notes)
    if circuit.size() in (0, circuit.total()):
        empty = not circuit.size()
        raise CircuitSearchError(
            f"the search left {'no unit' if empty else 'every unit'} out, so there is no circuit: "
            + (
                "lower the sparsity's weight, or take more steps or a higher rate; a behaviour "
                "that the model doesn't show can't be found"
                if empty
                else "raise the sparsity's weight, or lower the rate"
            )
        )
    carrier = None
    if objective.masks == 2:
        carrier = Circuit(best.hard("circuit"), owner, notes)
    if out is not None:
        circuit.save(Path(out) / "circuit")
        if carrier is not None:
            carrier.save(Path(out) / "carrier")
    return SearchResult(circuit, carrier, tuple(state.history), state.best_step, state.best_loss)
