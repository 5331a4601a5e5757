"""``icml gdpo train``: from a checked recipe to a trained model, and on again after a stop."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icml.core.errors import UserError
from icml.core.journal import write_atomic
from icml.gdpo.train.named_rewards import reward_functions
from icml.gdpo.train.prompts import from_hub, load_prompts
from icml.gdpo.train.recipe import Recipe, read_recipe

if TYPE_CHECKING:
    from datasets import Dataset

    from icml.gdpo.rewards import RewardFunction
    from icml.gdpo.trainer import GDPOConfig, GDPOTrainer

RECIPE, RESULT = "recipe.json", "result.json"


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
    if (out / RESULT).exists() and not _differs(recipe, out):
        _say(f"finished before: {out}")
        return 0
    rewards = reward_functions(recipe, allow_import=allow_import)
    _check_model(recipe.model)
    _check_folder(recipe, out)
    # What is at hand is checked before TRL is imported, which takes long; what is downloaded, after
    # that has been said.
    at_hand = None if from_hub(recipe.dataset) else _prompts(recipe)
    config = training_config(recipe, out)
    _say("\n".join(_announcement(recipe, out)))
    dataset = _prompts(recipe) if at_hand is None else at_hand
    if _is_main():
        write_atomic(out / RECIPE, recipe.model_dump_json(indent=2) + "\n")
    try:
        result = _run(recipe, rewards, config, dataset, before=_last_checkpoint(out))
    except KeyboardInterrupt:
        command = ["icml", "gdpo", "train", source, "--out", str(out)]
        command += ["--allow-import"] if allow_import else []
        where = _last_checkpoint(out)
        after = f"continues from {where}" if where else "starts again, there is no checkpoint yet"
        print(f"interrupted; this {after}:\n  {shlex.join(command)}", file=sys.stderr)
        return 130
    result |= {"seconds": round(time.perf_counter() - started, 1)}
    if _is_main():
        write_atomic(out / RESULT, json.dumps(result, indent=2) + "\n")
        _say(f"{result['steps']} steps in {result['seconds']:.0f} s, in {out}")
    return 0


def training_config(recipe: Recipe, out: Path, **changes: Any) -> GDPOConfig:
    """Return the ``GDPOConfig`` of a recipe.

    Args:
        recipe: The recipe.
        out: Becomes ``output_dir``.
        changes: Fields that replace the recipe's.

    Raises:
        UserError: If a field is unknown, all of them listed, or has a value that it can't have.
    """
    from dataclasses import fields

    from icml.gdpo.trainer import GDPOConfig

    known = {field.name for field in fields(GDPOConfig) if field.init} - {"output_dir"}
    unknown = sorted(set(recipe.training) - known)
    if unknown:
        hint = ": give --out" if unknown == ["output_dir"] else ""
        raise UserError(f"training: GDPOConfig takes no {', '.join(unknown)} here{hint}")
    quiet = {"report_to": [], "disable_tqdm": True, "num_completions_to_print": 0}
    settings: dict[str, Any] = {**quiet, **recipe.training, **changes}
    try:
        return GDPOConfig(str(out), **settings)
    except (TypeError, ValueError, ImportError) as error:
        raise UserError(f"training: {' '.join(str(error).split())}") from error


def _check_model(source: str) -> None:
    """Refuse a model that isn't there, as far as that costs nothing."""
    from icml.core.models.packaged import packaged
    from icml.core.models.source import parse_random, parse_source

    wanted = parse_source(source)
    if wanted.kind == "package":
        packaged(wanted.name).locate()
    elif wanted.kind == "random":
        parse_random(wanted.name)


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
    checkpoint = _last_checkpoint(out)
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
    from icml.gdpo.train.step_lines import StepLines, peak_memory_mb

    trainer = _trainer(recipe, rewards, config, dataset)
    trainer.add_callback(StepLines(trainer.reward_func_names))
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

    from icml.core.models.source import parse_source
    from icml.gdpo.trainer import GDPOTrainer

    options: dict[str, Any] = {"train_dataset": dataset}
    model: Any = recipe.model  # TRL loads it: where and in parts, as DeepSpeed wants it
    if parse_source(recipe.model).kind not in ("hub", "local"):
        from icml.core.models.load import load

        loaded = load(recipe.model, device="cpu" if config.use_cpu else None)
        model, options["processing_class"] = loaded.model, loaded.tokenizer
    trainer = GDPOTrainer(model, rewards, config, **options)
    trainer.remove_callback(PrinterCallback)
    return trainer


def _check_folder(recipe: Recipe, out: Path) -> None:
    """Refuse a folder that holds another recipe's run."""
    different = _differs(recipe, out)
    if different:
        raise UserError(
            f"{out} holds a run of another recipe, which differs in {different}: "
            "give another --out, or remove the folder"
        )


def _differs(recipe: Recipe, out: Path) -> str:
    """Return the first part in which the folder's recipe differs, empty if none does."""
    try:
        before = json.loads((out / RECIPE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ""
    except ValueError as error:
        raise UserError(f"{out / RECIPE} is not the recipe of a run ({error})") from error
    if not isinstance(before, dict):
        raise UserError(f"{out / RECIPE} is not the recipe of a run (not a JSON object)")
    now = json.loads(recipe.model_dump_json())
    for part in now:
        if now[part] != before.get(part):
            inside = now[part] if isinstance(now[part], dict) else {}
            old = before.get(part) if isinstance(before.get(part), dict) else {}
            keys = [k for k in {**old, **inside} if old.get(k) != inside.get(k)]
            return f"{part}.{keys[0]}" if keys else part
    return ""


def _last_checkpoint(out: Path) -> Path | None:
    steps = {p: p.name.removeprefix("checkpoint-") for p in out.glob("checkpoint-*")}
    found = {p: int(s) for p, s in steps.items() if s.isdecimal()}  # not one's own checkpoint-best
    whole = [p for p in found if (p / "trainer_state.json").is_file()]
    return max(whole, key=found.__getitem__, default=None)


def _is_main() -> bool:
    return os.environ.get("RANK", "0") == "0"


def _say(text: str) -> None:
    if _is_main():
        print(text, flush=True)
