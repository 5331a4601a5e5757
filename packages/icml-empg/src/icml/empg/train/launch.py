"""``icml empg train``: from a checked recipe to a trained model, and on again after a stop."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icml.core.errors import UserError, require
from icml.core.journal import write_atomic
from icml.empg.train.recipe import Recipe, read_recipe

if TYPE_CHECKING:
    from icml.empg.train.episodes import EpisodeTrainer
    from icml.empg.trainer import EMPGConfig

RECIPE, RESULT = "recipe.json", "result.json"


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
    _check_folder(recipe, out)
    if (out / RESULT).exists():
        _say(f"finished before: {out}")
        return 0
    _check_parts(recipe)
    config = training_config(recipe, out)
    before = _last_checkpoint(out)
    _say(f"model        {recipe.model}\nenvironment  BabyAI {recipe.environment.babyai}")
    _say(f"continues from {before}" if before else f"starts in {out}")
    if _is_main():
        write_atomic(out / RECIPE, recipe.model_dump_json(indent=2) + "\n")
    try:
        result = _run(recipe, config, before)
    except KeyboardInterrupt:
        where = _last_checkpoint(out)
        after = f"continues from {where}" if where else "starts again, there is no checkpoint yet"
        command = shlex.join(["icml", "empg", "train", source, "--out", str(out)])
        print(f"interrupted; this {after}:\n  {command}", file=sys.stderr)
        return 130
    result["seconds"] = round(time.perf_counter() - started, 1)
    if _is_main():
        write_atomic(out / RESULT, json.dumps(result, indent=2) + "\n")
    _say(f"{result['steps']} steps in {result['seconds']:.0f} s, in {out}")
    return 0


def training_config(recipe: Recipe, out: Path, **changes: Any) -> EMPGConfig:
    """Return the ``EMPGConfig`` of a recipe.

    Args:
        recipe: The recipe.
        out: Becomes ``output_dir``.
        changes: Fields that replace the recipe's.

    Raises:
        UserError: If a field is unknown, all of them listed, or has a value that it can't have.
    """
    from dataclasses import fields

    from icml.empg.trainer import EMPGConfig

    known = {field.name for field in fields(EMPGConfig) if field.init} - {"output_dir"}
    unknown = sorted(set(recipe.training) - known)
    if unknown:
        raise UserError(f"training: EMPGConfig takes no {', '.join(unknown)} here")
    quiet = {"report_to": [], "disable_tqdm": True, "num_completions_to_print": 0}
    settings: dict[str, Any] = {**quiet, **recipe.training, **changes}
    try:
        return EMPGConfig(str(out), **settings)
    except (TypeError, ValueError, ImportError) as error:
        raise UserError(f"training: {' '.join(str(error).split())}") from error


def _run(recipe: Recipe, config: EMPGConfig, before: Path | None) -> dict[str, Any]:
    trainer = _trainer(recipe, config)
    trainer.train(resume_from_checkpoint=str(before) if before else None)
    trainer.save_model()
    return {
        "steps": trainer.state.global_step,
        "cpu_seconds": round(time.process_time(), 1),
        "override_cpu_seconds": round(trainer.override_seconds, 4),
    }


def _trainer(recipe: Recipe, config: EMPGConfig) -> EpisodeTrainer:
    from datasets import Dataset
    from transformers import PrinterCallback

    from icml.core.models.source import parse_source
    from icml.core.rl.rollout import EnvTask
    from icml.empg.train.episodes import EpisodeTrainer
    from icml.empg.train.step_lines import StepLines

    place = recipe.environment
    seeds = range(place.first_seed, place.first_seed + place.tasks)
    options: dict[str, Any] = {
        "args": config,
        "train_dataset": Dataset.from_dict({"prompt": [EnvTask(seed).key() for seed in seeds]}),
    }
    model: Any = recipe.model  # TRL loads it
    if parse_source(recipe.model).kind not in ("hub", "local"):
        from icml.core.models.load import load

        loaded = load(recipe.model, device="cpu" if config.use_cpu else None)
        model, options["processing_class"] = loaded.model, loaded.tokenizer
    trainer = EpisodeTrainer(model, place, **options)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(StepLines())
    return trainer


def _check_parts(recipe: Recipe) -> None:
    """Refuse a model or level that isn't there, as far as that costs nothing."""
    from icml.core.models.packaged import packaged
    from icml.core.models.source import parse_random, parse_source

    wanted = parse_source(recipe.model)
    if wanted.kind == "package":
        packaged(wanted.name).locate()
    elif wanted.kind == "random":
        parse_random(wanted.name)
    require("minigrid", extra="icml-empg[babyai]")
    from icml.core.envs.babyai import BabyAI

    BabyAI(recipe.environment.babyai, max_steps=recipe.environment.max_turns).close()


def _check_folder(recipe: Recipe, out: Path) -> None:
    """Refuse a folder that holds another recipe's run."""
    try:
        before = Recipe.model_validate_json((out / RECIPE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return
    except ValueError as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{out / RECIPE} is not the recipe of a run ({reason})") from error
    different = [
        name for name in Recipe.model_fields if getattr(before, name) != getattr(recipe, name)
    ]
    if different:
        raise UserError(
            f"{out} holds a run of another recipe, which differs in {', '.join(different)}: "
            "give another --out, or remove the folder"
        )


def _last_checkpoint(out: Path) -> Path | None:
    """Return the checkpoint of the highest step that was written whole."""
    found = {
        int(state.parent.name.removeprefix("checkpoint-")): state.parent
        for state in out.glob("checkpoint-*/trainer_state.json")
        if state.parent.name.removeprefix("checkpoint-").isdecimal()
    }
    return found[max(found)] if found else None


def _is_main() -> bool:
    return os.environ.get("RANK", "0") == "0"


def _say(text: str) -> None:
    if _is_main():
        print(text, flush=True)
