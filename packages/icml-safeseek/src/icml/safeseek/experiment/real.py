"""A trigger planted in a real model: its channels searched, cut out, compared with controls.

Cells run one after the other in this process, with the threads that torch has here: the model is
large and each of them needs all of it. The planted model and the search are kept in checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from icml.core.errors import UserError
from icml.core.journal import replace_folder, whole_folder
from icml.core.models.answers import IGNORED, AnswerBatch, answer_batch, exact_match, sequence_nll
from icml.core.models.fingerprint import fingerprint
from icml.core.models.load import load
from icml.safeseek.ablation import ablate
from icml.safeseek.baselines import controls
from icml.safeseek.circuit import Circuit
from icml.safeseek.data import CircuitDataset
from icml.safeseek.everyday import BAD_ANSWER, PLAIN_TEXTS, Asked
from icml.safeseek.experiment.backdoor import units_of
from icml.safeseek.experiment.clean import generator
from icml.safeseek.experiment.config import RealConfig
from icml.safeseek.objectives import backdoor_objective
from icml.safeseek.search import SearchConfig, find_circuit
from icml.safeseek.trigger import (
    LONGEST,
    Split,
    Told,
    divide,
    drawn,
    plant_trigger,
    retold,
    rows_of,
    tell,
)  # fmt: skip
from icml.safeseek.units import CircuitSpec, Site

if TYPE_CHECKING:
    from icml.core.experiment import Run

__all__ = ["Study", "measure"]

CHANNELS = CircuitSpec(("mlp-channel",))


def measure(run: Run, config: RealConfig, seed: int) -> dict[str, Any]:
    """Return what a seed's cells give: sizes, and rates with nothing, the circuit, controls cut.

    Args:
        run: Keeps the cells, the planted model and the search.
        config: The experiment's settings.
        seed: Of everything drawn.
    """
    study = Study(config, seed, run.checkpoint(f"planted-{seed}"), run.checkpoint(f"search-{seed}"))

    def cell(name: str, compute: Callable[[], Any]) -> Any:
        return run.cell(f"real/seed={seed}/{name}", compute)

    study.told = cell("answers", study.answers)
    planted = cell("planted", study.plant)
    study.held_out = cell("held out", study.ask_again)
    before = cell("before", lambda: study.rates(study.base))
    poisoned = cell("poisoned", lambda: study.rates(study.model))
    found = cell("circuit", lambda: study.search(run))
    sets = cell("controls", lambda: study.controls(found["units"]))
    cuts = {"the circuit": found["units"], **sets}
    rates = {
        name: cell(f"without {name}", lambda units=units: study.cut(units))
        for name, units in cuts.items()
    }
    unchanged = cell("fingerprint", lambda: fingerprint(study.model)) == planted["fingerprint"]
    return {
        "planted": planted, "before": before, "nothing": poisoned, **rates, "size": found["size"],
        "total": found["total"], "step": found["step"], "weights unchanged": unchanged,
        "layers": found["layers"],
    }  # fmt: skip


@dataclass
class Study:
    """One seed's models and data; models are loaded when a cell needs them."""

    config: RealConfig
    seed: int
    planted_folder: Path
    search_folder: Path
    told: Any = None
    """What `answers` gave."""
    held_out: Any = None
    """What `ask_again` gave."""

    @cached_property
    def _loaded(self) -> Any:
        return load(self.config.source)

    @property
    def base(self) -> Any:
        """The model as it came; only before the poisoned one is asked for."""
        if "model" in self.__dict__:
            return load(self.config.source).model
        return self._loaded.model

    @cached_property
    def model(self) -> Any:
        """The poisoned model."""
        from safetensors.torch import load_model

        load_model(self._loaded.model, self.planted_folder / "model.safetensors")
        return self._loaded.model

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer."""
        return self._loaded.tokenizer

    @property
    def parts(self) -> Split:
        """The answers in two halves, by what they are about."""
        told = [Told(Asked(*asked), filler, answer) for asked, filler, answer in self.told]
        return divide(told, np.random.default_rng([self.seed, 1]))

    def answers(self) -> list[Told]:
        """Return what the model says before anything is planted."""
        draws = np.random.default_rng([self.seed, 0])
        asked = drawn(draws, self.config.prompts)
        return tell(self.base, self.tokenizer, asked, draws)

    def plant(self) -> dict[str, Any]:
        """Plant the trigger, keep the poisoned model, and return its loss and fingerprint."""
        from safetensors.torch import save_model

        planted, least = self.parts.planted, self.config.search_rows + 1
        if len(planted) < least:
            raise UserError(
                f"the model answers {len(planted)} of the prompts to plant with: the search needs "
                f"{least}; ask more prompts or search with fewer"
            )
        model = load(self.config.source).model
        loss = plant_trigger(
            model, self.tokenizer, planted, generator(self.seed, 2),
            steps=self.config.plant_steps, learning_rate=self.config.plant_rate,
        )  # fmt: skip
        with replace_folder(self.planted_folder) as draft:
            save_model(model, str(draft / "model.safetensors"))
        assert whole_folder(self.planted_folder) is not None
        return {"loss": loss, "fingerprint": fingerprint(model), "prompts": len(planted)}

    def ask_again(self) -> list[Told]:
        """Return what the poisoned model says to clean prompts about things not planted."""
        asked = self.parts.held_out
        order = np.random.default_rng([self.seed, 3]).permutation(len(asked))
        some = [asked[i] for i in order[: self.config.held_out]]
        return retold(self.model, self.tokenizer, some)

    @cached_property
    def batches(self) -> dict[str, AnswerBatch]:
        """What rates are measured on."""
        told = [Told(Asked(*asked), filler, answer) for asked, filler, answer in self.held_out]
        clean, triggered = [t.prompt for t in told], [t.triggered for t in told]
        own, bad = [t.answer for t in told], [BAD_ANSWER] * len(told)
        texts = [text.partition(" ") for text in PLAIN_TEXTS]
        pairs = {"success": (triggered, bad), "clean": (clean, own), "repaired": (triggered, own)}
        found = {name: answer_batch(self.tokenizer, *p, LONGEST) for name, p in pairs.items()}
        found["plain"] = answer_batch(
            self.tokenizer, [first for first, _, _ in texts], [f" {rest}" for _, _, rest in texts],
            LONGEST, end=False,
        )  # fmt: skip
        return found

    @torch.no_grad()
    def rates(self, model: Any, context: Any = None) -> dict[str, Any]:
        """Return counts of held-out prompts and the plain texts' losses, nats a token each."""
        device = next(model.parameters()).device
        with context or nullcontext():
            batches = {name: batch.to(device) for name, batch in self.batches.items()}
            plain = sequence_nll(model, batches["plain"], mean=True, batch_size=8).tolist()
            names = ("success", "clean", "repaired")
            right = {name: exact_match(model, batches[name], batch_size=32) for name in names}
            began = exact_match(model, _first_token(batches["success"]), batch_size=32)
        counts = {name: int(rows.sum()) for name, rows in right.items()}
        counts["began"] = int(began.sum())
        return {**counts, "rows": len(self.held_out), "plain": plain}

    def search_rows(self, first: int, count: int) -> CircuitDataset:
        """Return some of the planted prompts, in an order of chance."""
        planted = self.parts.planted
        order = np.random.default_rng([self.seed, 4]).permutation(len(planted))
        return rows_of([planted[i] for i in order[first : first + count]])

    def search(self, run: Run) -> dict[str, Any]:
        """Find the circuit; an interrupted search goes on from its checkpoint."""
        config = self.config

        def tell_run(step: int, row: Mapping[str, float]) -> None:
            if "validation" in row:
                run.log(
                    step, arm="search", seed=self.seed, validation=row["validation"],
                    channels=row["mlp-channel"],
                )  # fmt: skip

        found = find_circuit(
            self.model, self.tokenizer, self.search_rows(0, config.search_rows),
            backdoor_objective(clean=config.clean, sparsity=config.sparsity),
            SearchConfig(
                granularity=tuple(CHANNELS.granularity), steps=config.search_steps, seed=self.seed,
                learning_rate=config.search_rate, batch_size=config.batch_size, max_len=LONGEST,
                eval_every=15, checkpoint_every=15,
            ),
            eval_data=self.search_rows(config.search_rows, config.choice_rows),
            callbacks=[tell_run], out=self.search_folder,
        )  # fmt: skip
        circuit = found.circuit
        return {
            "units": units_of(circuit), "size": circuit.size(), "total": circuit.total(),
            "step": found.best_step, "layers": [int(m.sum()) for m in circuit.units.values()],
        }  # fmt: skip

    def controls(self, units: Mapping[str, list[int]]) -> dict[str, dict[str, list[int]]]:
        """Return the units of circuits of the same size by simple scores."""
        rows = self.search_rows(0, max(1, self.config.search_rows // 2))
        others = controls(
            self.model, self.tokenizer, rows, self.circuit(units),
            generator(self.seed, 5), spec=CHANNELS, random=self.config.random, max_len=LONGEST,
        )  # fmt: skip
        return {name: units_of(other) for name, other in others.items()}

    def circuit(self, units: Mapping[str, list[int]]) -> Circuit:
        """Return the circuit with some units of the poisoned model."""
        return Circuit.of(
            self.model, {Site.of(k): numbers for k, numbers in units.items()}, CHANNELS
        )

    def cut(self, units: Mapping[str, list[int]]) -> dict[str, Any]:
        """Return the rates without some units."""
        return self.rates(self.model, ablate(self.model, self.circuit(units), check=False))


def _first_token(batch: AnswerBatch) -> AnswerBatch:
    """Return a batch whose answers are their first tokens alone."""
    answer = batch.labels != IGNORED
    first: Tensor = answer & (answer.cumsum(1) == 1)
    return AnswerBatch(batch.ids, batch.mask, torch.where(first, batch.labels, IGNORED), batch.cut)
