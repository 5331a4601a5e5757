"""Training runs of a TRL trainer by a recipe: checked first, and on again after a stop.

A package's ``train`` command checks its own parts, then calls `run_recipe` with a function that
builds the trainer and trains.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from icml.core.differences import first_difference
from icml.core.errors import UserError
from icml.core.journal import cannot_write, lock_folder, room_for, write_atomic

if TYPE_CHECKING:
    from transformers import TrainingArguments

__all__ = [
    "check_folder",
    "check_model",
    "is_finished",
    "is_main",
    "last_checkpoint",
    "load_model",
    "run_recipe",
    "say",
    "training_config",
]

RECIPE, RESULT = "recipe.json", "result.json"

ConfigT = TypeVar("ConfigT", bound="TrainingArguments")


def training_config(
    kind: type[ConfigT], training: Mapping[str, Any], out: Path, **changes: Any
) -> ConfigT:
    """Return a trainer's configuration.

    Args:
        kind: ``GRPOConfig``, ``SFTConfig``, or a subclass of one.
        training: Fields of it.
        out: Becomes ``output_dir``.
        changes: Fields that replace those of ``training``.

    Raises:
        UserError: If a field is unknown, all of them listed, or has a value that it can't have.
    """
    known = {field.name for field in fields(kind) if field.init} - {"output_dir"}
    unknown = sorted(set(training) - known)
    if unknown:
        hint = ": give --out" if unknown == ["output_dir"] else ""
        raise UserError(f"training: {kind.__name__} takes no {', '.join(unknown)} here{hint}")
    quiet = {"report_to": [], "disable_tqdm": True, "num_completions_to_print": 0}
    settings: dict[str, Any] = {name: quiet[name] for name in quiet if name in known}
    settings |= {**training, **changes}
    try:
        return kind(str(out), **settings)
    except (TypeError, ValueError, ImportError, OSError) as error:
        raise UserError(f"training: {' '.join(str(error).split())}") from error


def check_model(source: str) -> None:
    """Refuse a model that isn't there, as far as that costs nothing.

    Raises:
        UserError: If the source can't be read, or names a package that isn't installed.
    """
    from icml.core.models.packaged import packaged
    from icml.core.models.source import parse_random, parse_source

    wanted = parse_source(source)
    if wanted.kind == "package":
        packaged(wanted.name).locate()
    elif wanted.kind == "random":
        parse_random(wanted.name)


def load_model(source: str, *, use_cpu: bool) -> tuple[Any, dict[str, Any]]:
    """Return the model for a trainer, and the trainer's further options.

    A folder or a hub id stays a name: TRL loads it, where and in parts, as DeepSpeed wants it.
    """
    from icml.core.models.source import parse_source

    if parse_source(source).kind in ("hub", "local"):
        return source, {}
    from icml.core.models.load import load

    loaded = load(source, device="cpu" if use_cpu else None)
    return loaded.model, {"processing_class": loaded.tokenizer}


def check_folder(recipe: BaseModel, out: Path) -> bool:
    """Refuse a folder that holds another recipe's run.

    Returns:
        Whether it holds a run of this one.

    Raises:
        UserError: If it does, naming the first part that differs, or its recipe is damaged.
    """
    try:
        before = json.loads((out / RECIPE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    except ValueError as error:
        raise UserError(f"{out / RECIPE} is not the recipe of a run ({error})") from error
    if not isinstance(before, dict):
        raise UserError(f"{out / RECIPE} is not the recipe of a run (not a JSON object)")
    different = first_difference(before, recipe.model_dump(mode="json"))
    if different:
        raise UserError(
            f"{out} holds a run of another recipe ({different}): "
            "give another --out, or remove the folder"
        )
    return True


def is_finished(out: Path) -> bool:
    """Say whether the run in ``out`` was trained to its end, and print so."""
    finished = (out / RESULT).exists()
    if finished:
        say(f"finished before: {out}")
    return finished


def run_recipe(
    recipe: BaseModel, out: Path, train: Callable[[Path | None], dict[str, Any]],
    *, command: Sequence[str], started: float,
) -> int:  # fmt: skip
    """Train, and write the run's recipe and result into its folder, which nobody else may use.

    Args:
        recipe: What ``train`` goes by.
        out: Folder of the run.
        train: Takes the checkpoint to continue from, or None; returns the result, ``steps`` in it.
        command: What continues the run after Ctrl-C.
        started: ``time.perf_counter()`` at the beginning.

    Returns:
        Exit status: 0, or 130 after Ctrl-C.

    Raises:
        UserError: If another run has the folder, or it can't be written to. What ``train`` refuses
            before its first checkpoint leaves the folder free for a recipe that is corrected.
    """
    with _claimed(out):
        known = True
        if is_main():
            known = check_folder(recipe, out)  # again: another run may have had it till now
            write_atomic(out / RECIPE, recipe.model_dump_json(indent=2) + "\n")
        try:
            with room_for(out):
                result = train(last_checkpoint(out))
        except KeyboardInterrupt:
            if is_main():
                print(_interrupted(out, command), file=sys.stderr)
            return 130
        except UserError:
            if not known and last_checkpoint(out) is None:
                (out / RECIPE).unlink(missing_ok=True)
            raise
        return _finish(result, out, started)


@contextmanager
def _claimed(out: Path) -> Generator[None]:
    """Hold the folder; of several processes that train together the first one does."""
    if not is_main():
        yield
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = lock_folder(out)
    except OSError as error:
        raise cannot_write(out, error) from error
    try:
        yield
    finally:
        lock.release()


def _interrupted(out: Path, command: Sequence[str]) -> str:
    where = last_checkpoint(out)
    after = f"continues from {where}" if where else "starts again, there is no checkpoint yet"
    return f"interrupted; this {after}:\n  {shlex.join(command)}"


def _finish(result: dict[str, Any], out: Path, started: float) -> int:
    result["seconds"] = round(time.perf_counter() - started, 1)
    if is_main():
        write_atomic(out / RESULT, json.dumps(result, indent=2) + "\n")
    say(f"{result['steps']} steps in {result['seconds']:.0f} s, in {out}")
    return 0


def last_checkpoint(out: Path) -> Path | None:
    """Return the checkpoint of the highest step that was written whole."""
    steps = {p: p.name.removeprefix("checkpoint-") for p in out.glob("checkpoint-*")}
    found = {p: int(s) for p, s in steps.items() if s.isdecimal()}  # not one's own checkpoint-best
    whole = [p for p in found if (p / "trainer_state.json").is_file()]
    return max(whole, key=found.__getitem__, default=None)


def say(text: str) -> None:
    """Print, in the first of several processes."""
    if is_main():
        print(text, flush=True)


def is_main() -> bool:
    """Say whether this is the first of several processes, or the only one."""
    return os.environ.get("RANK", "0") == "0"
