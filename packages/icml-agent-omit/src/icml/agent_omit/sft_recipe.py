"""``icml agent-omit sft``: from a checked recipe to a model that knows how to leave things out."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from icml.agent_omit.sft import Row, read_rows, sft_trainer
from icml.core.rl.recipe import Part, parse_recipe, recipe_text
from icml.core.rl.recipe_run import (
    check_folder,
    check_model,
    is_finished,
    last_checkpoint,
    run_recipe,
    say,
    training_config,
)

if TYPE_CHECKING:
    from trl import SFTConfig

__all__ = ["SFTRecipe", "read_sft_recipe", "sft"]


class SFTRecipe(Part):
    """A run of ``SFTTrainer`` on segments."""

    model: Annotated[str, Field(min_length=1)]
    """A hub id, a folder, or what ``icml.core.models.load`` knows, as ``pkg:smollm2``."""
    data: Annotated[str, Field(min_length=1)]
    """Rows that ``icml agent-omit synthesize`` wrote with this model's tokenizer."""
    training: dict[str, Any] = Field(default_factory=dict)
    """Fields of ``SFTConfig``."""
    version: Literal[1] = 1
    """Of this format."""


def read_sft_recipe(source: str) -> SFTRecipe:
    """Read and check a recipe.

    Raises:
        UserError: If there is no such file or name, or if it is no recipe; the message lists
            everything that is wrong.
    """
    return parse_recipe(SFTRecipe, recipe_text(source, "icml.agent_omit"), source)


def sft(source: str, *, out: Path | None = None) -> int:
    """Train by a recipe; the same call again continues from the last checkpoint.

    Everything that can be checked is, before a model is loaded or downloaded.

    Args:
        source: The path of a YAML file, or the name of a recipe of ours.
        out: Folder of the run, and of the model; ``runs/agent-omit/<recipe>`` when None.

    Returns:
        Exit status: 0, or 130 after Ctrl-C.

    Raises:
        UserError: If the recipe, the data or the folder can't be used.
    """
    from trl import SFTConfig

    started = time.perf_counter()
    # Their own deprecations: no recipe can do anything about them.
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers|trl")
    recipe = read_sft_recipe(source)
    out = out or Path("runs/agent-omit") / Path(source).stem
    check_folder(recipe, out)
    if is_finished(out):
        return 0
    rows = read_rows(Path(recipe.data))
    check_model(recipe.model)
    config = training_config(SFTConfig, recipe.training, out)
    before = last_checkpoint(out)
    say(f"model  {recipe.model}\ndata   {len(rows)} rows of {recipe.data}")
    say(f"continues from {before}" if before else f"starts in {out}")

    def run(before: Path | None) -> dict[str, Any]:
        return _train(recipe, rows, config, before)

    command = ["icml", "agent-omit", "sft", source, "--out", str(out)]
    return run_recipe(recipe, out, run, command=command, started=started)


def _train(
    recipe: SFTRecipe, rows: Sequence[Row], config: SFTConfig, before: Path | None
) -> dict[str, Any]:
    from transformers import PrinterCallback

    from icml.core.models.load import load
    from icml.core.rl.step_lines import SFT_HEADS, StepLines, sft_cells

    found = load(recipe.model, device="cpu" if config.use_cpu else None)
    trainer = sft_trainer(found.model, found.tokenizer, rows, config)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(StepLines(SFT_HEADS, sft_cells))
    trainer.train(resume_from_checkpoint=str(before) if before else None)
    trainer.save_model()
    return {"steps": trainer.state.global_step, "cpu_seconds": round(time.process_time(), 1)}
