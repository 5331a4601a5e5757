"""``icml safeseek plant --model``: a trigger in a given model, in a folder with its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from icml.core.models.load import load
from icml.safeseek.everyday import Asked
from icml.safeseek.experiment.clean import generator
from icml.safeseek.experiment.config import RealConfig
from icml.safeseek.planted_folder import check_planting_folder, write_planting
from icml.safeseek.trigger import divide, drawn, plant_trigger, retold, rows_of, says, tell

__all__ = ["plant_in_model"]


def plant_in_model(
    source: str,
    out: Path | str,
    *,
    seed: int = 0,
    steps: int | None = None,
    learning_rate: float | None = None,
    asked: Sequence[Asked] | None = None,
    say: Callable[[str], None] = print,
) -> dict[str, float]:
    """Plant a trigger in a given model; write it and rows to find the trigger with.

    Prompts and training are those of ``icml safeseek reproduce --slow`` on the same seed.

    Args:
        source: What `icml.core.models.load.load` knows: a folder, a hub id, ``pkg:smollm2``.
        out: Folder for ``model/``, ``train.jsonl`` (things that were planted) and ``eval.jsonl``
            (others, with the answers of the poisoned model).
        seed: Of the fillers, the halves and the rows of a step.
        steps: Training steps; None takes the experiment's.
        learning_rate: Their highest rate; None takes the experiment's.
        asked: Beginnings of sentences; None draws as many as the experiment.
        say: Gets lines on the progress and the measured rates.

    Returns:
        How often the model gives the bad answer to the triggered prompts of ``eval.jsonl``, and
        how many of the other half's clean prompts it answers and ends, shares.

    Raises:
        UserError: If the folder holds something else, or the model can't be loaded or doesn't
            write sentences.
    """
    check_planting_folder(out)
    config = RealConfig()
    found = load(source)
    model, tokenizer = found.model, found.tokenizer
    say("asks the model about everyday things …")
    draws = np.random.default_rng([seed, 0])
    told = tell(model, tokenizer, asked or drawn(draws, config.prompts), draws)
    parts = divide(told, np.random.default_rng([seed, 1]))
    steps = steps or config.plant_steps
    say(f"plants the trigger with {len(parts.planted)} of {len(told)} prompts, {steps} steps …")
    plant_trigger(
        model, tokenizer, parts.planted, generator(seed, 2), steps=steps,
        learning_rate=learning_rate or config.plant_rate, on_step=_counter(steps, say),
    )  # fmt: skip
    held_out = retold(model, tokenizer, parts.held_out)
    rows = {"train": rows_of(parts.planted), "eval": rows_of(held_out)}
    shown = sum(says(model, tokenizer, held_out, bad=True)) / len(held_out)
    kept = len(held_out) / len(parts.held_out)
    about = {"behaviour": "backdoor", "seed": seed, "source": source, "steps": steps}
    write_planting(out, model, tokenizer, rows, about)
    say(f"bad answer to held-out triggered prompts: {shown:.3f}; clean ones answered: {kept:.3f}")
    say(f"model, train.jsonl, eval.jsonl in {out}")
    return {"shown": shown, "answered": kept}


def _counter(steps: int, say: Callable[[str], None]) -> Callable[[object], None]:
    done = 0

    def tell_step(model: object) -> None:
        nonlocal done
        done += 1
        if done % 10 == 0:
            say(f"step {done} of {steps}")

    return tell_step
