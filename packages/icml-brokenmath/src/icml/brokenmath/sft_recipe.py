"""``icml brokenmath sft``: from a checked recipe to a fine-tuned model (Sec. 5)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from icml.brokenmath.sft import KINDS
from icml.brokenmath.sft_data import data_lines, training_data
from icml.brokenmath.sft_tokens import encode, thoughtless, writes_thoughts
from icml.brokenmath.sft_train import check_training, train
from icml.core.errors import UserError, require
from icml.core.journal import write_atomic
from icml.core.models.local import check_folder as check_checkpoint
from icml.core.models.source import parse_source
from icml.core.rl.recipe import Part, parse_recipe, recipe_text
from icml.core.rl.recipe_run import (
    check_folder,
    check_model,
    is_finished,
    is_main,
    last_checkpoint,
    run_recipe,
    say,
    training_config,
)

if TYPE_CHECKING:
    from datasets import Dataset
    from trl import SFTConfig

__all__ = ["DATA", "DataPart", "SFTRecipe", "read_sft_recipe", "sft"]

DATA = "data.jsonl"
"""In the folder of a run: the examples."""
Share = Annotated[float, Field(ge=0, le=1)]


class DataPart(Part):
    """What is learnt; see `icml.brokenmath.sft_data.training_data`."""

    n: Annotated[int, Field(ge=1)]
    """Examples."""
    adv_frac: Share
    """Share of false statements."""
    proof_frac: Share = 1.0
    """Share of proofs among the rest; the others are final answers."""
    seed: int = 0
    """Of the choice and the order, and of items that are made."""
    answers: tuple[str, ...] = ()
    """Logs of inspect, or folders of them."""
    items: str | None = None
    """A file of verified items."""
    keep_out: tuple[str, ...] = ()
    """Files of items that are tested on; the frozen set is kept out always."""
    empty_thoughts: bool = False
    """Whether a model whose chat template writes thoughts may learn answers without any."""

    @model_validator(mode="after")
    def _one_source(self) -> DataPart:
        if self.answers and self.items is not None:
            raise ValueError("give answers or items, not both")
        return self


class SFTRecipe(Part):
    """A run of ``SFTTrainer``."""

    model: Annotated[str, Field(min_length=1)]
    """A hub id, a folder, or what ``icml.core.models.load`` knows, as ``pkg:smollm2``."""
    data: DataPart
    training: dict[str, Any] = Field(default_factory=dict)
    """Fields of ``SFTConfig``."""
    version: Literal[1] = 1
    """Of this format."""


def read_sft_recipe(
    source: str,
    *,
    model: str | None = None,
    answers: Sequence[str] = (),
    items: str | None = None,
) -> SFTRecipe:
    """Read and check a recipe.

    Args:
        source: The path of a YAML file, or the name of a recipe of ours.
        model: Replaces the recipe's.
        answers: Logs in place of what the recipe learns from.
        items: Or a file of verified items.

    Raises:
        UserError: If there is no such file or name, if it is no recipe (the message lists
            everything that is wrong), or both answers and items are given.
    """
    recipe = parse_recipe(SFTRecipe, recipe_text(source, "icml.brokenmath"), source)
    if answers and items is not None:
        raise UserError("give --answers or --items, not both")
    changes: dict[str, Any] = {} if model is None else {"model": model}
    if answers or items is not None:
        learnt = {"answers": tuple(answers), "items": items}
        changes["data"] = recipe.data.model_copy(update=learnt)
    return recipe.model_copy(update=changes)


def sft(
    source: str,
    *,
    model: str | None = None,
    answers: Sequence[str] = (),
    items: str | None = None,
    out: Path | None = None,
) -> int:
    """Fine-tune by a recipe; the same call again continues from the last checkpoint.

    Everything that can be checked is, before a model is loaded.

    Args:
        source: See `read_sft_recipe`, as of the next three.
        model: Replaces the recipe's.
        answers: Logs in place of what the recipe learns from.
        items: Or a file of verified items.
        out: Folder of the run, and of the model; ``runs/brokenmath/sft/<recipe>`` when None.

    Returns:
        Exit status: 0, or 130 after Ctrl-C.

    Raises:
        UserError: If the recipe, the data, the model's chat template or the folder can't be used.
        MissingExtra: If a library is missing.
    """
    require("trl", extra="icml-brokenmath[sft]")
    from trl import SFTConfig

    from icml.core.models.tokenizers import load_tokenizer

    started = time.perf_counter()
    # Their own deprecations: no recipe can do anything about them.
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers|trl")
    recipe = read_sft_recipe(source, model=model, answers=answers, items=items)
    out = out or Path("runs/brokenmath/sft") / Path(source).stem
    begun = check_folder(recipe, out)
    if is_finished(out):
        return 0
    check_training(recipe.training)
    config = _config(training_config(SFTConfig, recipe.training, out))
    check_model(recipe.model)
    if (model_source := parse_source(recipe.model)).kind == "local":
        check_checkpoint(Path(model_source.name))
    data = training_data(**recipe.data.model_dump(exclude={"empty_thoughts"}))
    text = data_lines(data.rows)
    if begun:
        _check_data(text, out)
    tokenizer = load_tokenizer(recipe.model)
    rows = encode(data.rows, tokenizer, config.max_length)
    unwritten = _check_thoughts(data.rows, tokenizer, recipe)
    before = last_checkpoint(out)
    kinds = list(data.rows["kind"])
    shares = ", ".join(f"{kinds.count(kind)} {kind}" for kind in KINDS if kind in kinds)
    say(f"model  {recipe.model}\ndata   {shares}: {data.source}")
    if data.left_out:
        say(f"       {data.left_out} answers are to problems of the test, and left out")
    for note in data.notes:
        say(f"       {note}")
    if unwritten:
        say(f"       {unwritten} answers lose their thoughts: the chat template doesn't write them")
    say(f"continues from {before}" if before else f"starts in {out}")

    def run(before: Path | None) -> dict[str, Any]:
        if is_main():
            write_atomic(out / DATA, text)
        return train(recipe.model, rows, config, before)

    command = ["icml", "brokenmath", "sft", source]
    command += [] if model is None else ["--model", model]
    command += ["--answers", *answers] if answers else []
    command += [] if items is None else ["--items", items]
    return run_recipe(recipe, out, run, command=[*command, "--out", str(out)], started=started)


def _config(config: SFTConfig) -> SFTConfig:
    """Set that answers alone are learnt, unless the recipe says otherwise."""
    if config.assistant_only_loss:
        raise UserError("training: leave assistant_only_loss out: answers alone are learnt anyway")
    if config.completion_only_loss is None:
        config.completion_only_loss = True
    return config


def _check_data(text: str, out: Path) -> None:
    """Refuse to go on with other examples than the run began with.

    Raises:
        UserError: If the folder's examples are others: logs or items have changed since.
    """
    path = out / DATA
    try:
        same = path.read_text(encoding="utf-8") == text
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"can't read {path}: {error}") from error
    if not same:
        raise UserError(
            f"{path} holds other examples than the recipe gives now, its logs or items have "
            "changed: give another --out, or remove the folder"
        )


def _check_thoughts(rows: Dataset, tokenizer: Any, recipe: SFTRecipe) -> int:
    """Return how many answers' thoughts the model's chat template has no place for.

    Raises:
        UserError: If the model would learn to think nothing, and the recipe doesn't want that.
    """
    kind, empty = writes_thoughts(tokenizer), thoughtless(rows)
    if kind == "always" and empty and not recipe.data.empty_thoughts:
        raise UserError(
            f"{empty} of {len(rows)} answers hold no thoughts, around which the chat template of "
            f"{recipe.model} writes its marks all the same: the model would learn to think "
            "nothing; give logs whose provider tells the reasoning, or set data.empty_thoughts"
        )
    return len(rows) - empty if kind == "never" else 0
