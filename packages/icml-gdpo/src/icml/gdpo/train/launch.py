"""``icml gdpo train``: from a checked recipe to a trained model, and on again after a stop."""

from __future__ import annotations

import time
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icml.core.rl import recipe_run
from icml.core.rl.recipe_run import check_folder, is_finished, last_checkpoint, run_recipe, say
from icml.gdpo.train.named_rewards import reward_functions
from icml.gdpo.train.prompts import from_hub, load_prompts
from icml.gdpo.train.recipe import Recipe, read_recipe

if TYPE_CHECKING:
    from datasets import Dataset

    from icml.gdpo.rewards import RewardFunction
    from icml.gdpo.trainer import GDPOConfig, GDPOTrainer


def train(source: str, *, out: Path | None = None, allow_import: bool = False) -> int:
    """Train by a recipe; the same call again continues from the last checkpoint.

    Everything that can be checked is, before a model is loaded or downloaded.

    Args:
        source: The path of a YAML file, or the name of a recipe of ours.
        out: Folder of the run; ``runs/gdpo/train/<recipe>`` when None.
        allow_import: Whether reward functions may be imported, which runs their code.

    Returns:
        Exit status: 0, or 130 after Ctrl-C.

    Raises:
        UserError: If the recipe, the dataset or the folder can't be used.
        MissingExtra: If a library is missing that the recipe needs.
    """
    started = time.perf_counter()
    # Their own deprecations, which no recipe can do anything about.
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers|trl")
    recipe = read_recipe(source)
    out = out or Path("runs/gdpo/train") / Path(source).stem
    check_folder(recipe, out)
    if is_finished(out):
        return 0
    rewards = reward_functions(recipe, allow_import=allow_import)
    recipe_run.check_model(recipe.model)
    # What is at hand is checked before TRL is imported, which takes long; what is downloaded, after
    # that has been said.
    at_hand = None if from_hub(recipe.dataset) else _prompts(recipe)
    config = training_config(recipe, out)
    say("\n".join(_announcement(recipe, out)))
    dataset = _prompts(recipe) if at_hand is None else at_hand

    def run(before: Path | None) -> dict[str, Any]:
        return _run(recipe, rewards, config, dataset, before=before)

    command = ["icml", "gdpo", "train", source, "--out", str(out)]
    command += ["--allow-import"] if allow_import else []
    return run_recipe(recipe, out, run, command=command, started=started)


def training_config(recipe: Recipe, out: Path, **changes: Any) -> GDPOConfig:
    """Return the ``GDPOConfig`` of a recipe.

    Args:
        recipe: The recipe.
        out: Becomes ``output_dir``.
        changes: Fields that replace the recipe's.

    Raises:
        UserError: If a field is unknown, all of them listed, or has a value that it can't have.
    """
    from icml.gdpo.trainer import GDPOConfig

    return recipe_run.training_config(GDPOConfig, recipe.training, out, **changes)


def _prompts(recipe: Recipe) -> Dataset:
    return load_prompts(recipe.dataset, needs=_needs(recipe))


def _needs(recipe: Recipe) -> dict[str, str]:
    named = {part.reward for part in recipe.rewards} | {part.on for part in recipe.rewards}
    return {"answer": "the reward answer"} if "answer" in named else {}


def _announcement(recipe: Recipe, out: Path) -> list[str]:
    from icml.core.models.source import parse_source

    wanted = [f"model {recipe.model}"] if parse_source(recipe.model).kind == "hub" else []
    if from_hub(recipe.dataset):
        subset = f" ({recipe.dataset.subset})" if recipe.dataset.subset else ""
        wanted.append(f"dataset {recipe.dataset.source}{subset}")
    fetched = f"from the Hugging Face hub, unless cached: {', '.join(wanted)}"
    checkpoint = last_checkpoint(out)
    return [
        f"model    {recipe.model}",
        f"dataset  {recipe.dataset.source}",
        f"rewards  {', '.join(part.reward for part in recipe.rewards)}",
        f"downloads {fetched}" if wanted else "nothing is downloaded",
        f"continues from {checkpoint}" if checkpoint else f"starts in {out}",
    ]


def _run(
    recipe: Recipe,
    rewards: list[RewardFunction],
    config: GDPOConfig,
    dataset: Dataset,
    *,
    before: Path | None,
) -> dict[str, Any]:
    from icml.core.rl.step_lines import StepLines
    from icml.gdpo.train.step_lines import AFTER, cells, heads, peak_memory_mb

    trainer = _trainer(recipe, rewards, config, dataset)
    names = trainer.reward_func_names
    lines = StepLines(heads(names), partial(cells, rewards=names), after=AFTER)
    trainer.add_callback(lines)
    trainer.train(resume_from_checkpoint=str(before) if before else None)
    trainer.save_model()
    return {
        "steps": trainer.state.global_step,
        "cpu_seconds": round(time.process_time(), 1),
        "peak_memory_mb": peak_memory_mb(),
        "override_cpu_seconds": round(trainer.override_seconds, 4),
    }


def _trainer(
    recipe: Recipe, rewards: list[RewardFunction], config: GDPOConfig, dataset: Dataset
) -> GDPOTrainer:
    from transformers import PrinterCallback

    from icml.gdpo.trainer import GDPOTrainer

    model, options = recipe_run.load_model(recipe.model, use_cpu=config.use_cpu)
    trainer = GDPOTrainer(model, rewards, config, train_dataset=dataset, **options)
    trainer.remove_callback(PrinterCallback)
    return trainer
