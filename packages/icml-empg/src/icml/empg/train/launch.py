"""``icml empg train``: from a checked recipe to a trained model, and on again after a stop."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icml.core.errors import require
from icml.core.rl import recipe_run
from icml.core.rl.recipe_run import check_folder, is_finished, last_checkpoint, run_recipe, say
from icml.empg.train.recipe import Recipe, read_recipe

if TYPE_CHECKING:
    from icml.empg.train.episodes import EpisodeTrainer
    from icml.empg.trainer import EMPGConfig


def train(source: str, *, out: Path | None = None) -> int:
    """Train by a recipe; the same call again continues from the last checkpoint.

    Everything that can be checked is, before a model is loaded or downloaded.

    Args:
        source: The path of a YAML file, or the name of a recipe of ours.
        out: Folder of the run; ``runs/empg/train/<recipe>`` when None.

    Returns:
        Exit status: 0, or 130 after Ctrl-C.

    Raises:
        UserError: If the recipe, the environment or the folder can't be used.
        MissingExtra: If a library is missing that the recipe needs.
    """
    started = time.perf_counter()
    # Their own deprecations, and that rollout_func may change: no recipe can do anything about it.
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers|trl")
    warnings.filterwarnings("ignore", message="You are using 'rollout_func'")
    recipe = read_recipe(source)
    out = out or Path("runs/empg/train") / Path(source).stem
    check_folder(recipe, out)
    if is_finished(out):
        return 0
    _check_parts(recipe)
    config = training_config(recipe, out)
    before = last_checkpoint(out)
    say(f"model        {recipe.model}\nenvironment  BabyAI {recipe.environment.babyai}")
    say(f"continues from {before}" if before else f"starts in {out}")

    def run(before: Path | None) -> dict[str, Any]:
        trainer = _trainer(recipe, config)
        trainer.train(resume_from_checkpoint=str(before) if before else None)
        trainer.save_model()
        return {
            "steps": trainer.state.global_step,
            "cpu_seconds": round(time.process_time(), 1),
            "override_cpu_seconds": round(trainer.override_seconds, 4),
        }

    command = ["icml", "empg", "train", source, "--out", str(out)]
    return run_recipe(recipe, out, run, command=command, started=started)


def training_config(recipe: Recipe, out: Path, **changes: Any) -> EMPGConfig:
    """Return the ``EMPGConfig`` of a recipe.

    Args:
        recipe: The recipe.
        out: Becomes ``output_dir``.
        changes: Fields that replace the recipe's.

    Raises:
        UserError: If a field is unknown, all of them listed, or has a value that it can't have.
    """
    from icml.empg.trainer import EMPGConfig

    return recipe_run.training_config(EMPGConfig, recipe.training, out, **changes)


def _trainer(recipe: Recipe, config: EMPGConfig) -> EpisodeTrainer:
    from datasets import Dataset
    from transformers import PrinterCallback

    from icml.core.rl.rollout import EnvTask
    from icml.core.rl.step_lines import StepLines
    from icml.empg.train.episodes import EpisodeTrainer
    from icml.empg.train.step_lines import HEADS, cells

    place = recipe.environment
    seeds = range(place.first_seed, place.first_seed + place.tasks)
    model, options = recipe_run.load_model(recipe.model, use_cpu=config.use_cpu)
    rows = Dataset.from_dict({"prompt": [EnvTask(seed).key() for seed in seeds]})
    trainer = EpisodeTrainer(model, place, args=config, train_dataset=rows, **options)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(StepLines(HEADS, cells))
    return trainer


def _check_parts(recipe: Recipe) -> None:
    """Refuse a model or level that isn't there, as far as that costs nothing."""
    recipe_run.check_model(recipe.model)
    require("minigrid", extra="icml-empg[babyai]")
    from icml.core.envs.babyai import BabyAI

    BabyAI(recipe.environment.babyai, max_steps=recipe.environment.max_turns).close()
