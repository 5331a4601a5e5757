"""Datasets of a recipe: read from the hub, a file or reasoning-gym, and turned into prompts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icml.core.errors import UserError
from icml.gdpo.train.gym import questions
from icml.gdpo.train.recipe import DatasetPart

if TYPE_CHECKING:
    from datasets import Dataset

GYM = "reasoning_gym:"
_COLUMN = re.compile(r"\{(\w+)\}")


def from_hub(part: DatasetPart) -> bool:
    """Tell whether the dataset is downloaded."""
    return not part.source.startswith(GYM) and Path(part.source).suffix not in (".json", ".jsonl")


def load_prompts(part: DatasetPart, *, needs: Mapping[str, str]) -> Dataset:
    """Read a dataset and give it the column ``prompt`` that TRL wants.

    Args:
        part: Of the recipe.
        needs: Maps each column that must be there to what needs it.

    Returns:
        All columns of the source, with ``prompt`` and ``answer`` as the recipe names them. A
        question of reasoning-gym is also there whole, as JSON, in ``entry``.

    Raises:
        UserError: If the source can't be read, is empty or lacks a column.
        MissingExtra: If it is reasoning-gym's and that is not installed.
    """
    dataset = _read(part)
    columns = dataset.column_names
    if not len(dataset):
        raise UserError(f"dataset {part.source} has no rows")
    used = _COLUMN.findall(part.prompt) if part.prompt is not None else ["prompt"]
    wanted = {**dict.fromkeys(used, "the prompt"), **needs}
    if part.answer != "answer" and "answer" in needs:
        wanted[part.answer] = wanted.pop("answer")
    missing = {name: why for name, why in wanted.items() if name not in columns}
    if missing:
        lacks = ", ".join(f"{name!r} (for {why})" for name, why in missing.items())
        raise UserError(
            f"dataset {part.source} has no column {lacks}; there are: {', '.join(columns)}"
        )
    if part.prompt is not None:
        template, system = part.prompt, part.system
        dataset = dataset.map(lambda row: {"prompt": _messages(row, template, system)})
    if part.answer != "answer" and part.answer in columns:
        if "answer" in columns:
            dataset = dataset.remove_columns("answer")
        dataset = dataset.rename_column(part.answer, "answer")
    return dataset


def _messages(row: Mapping[str, Any], template: str, system: str | None) -> list[dict[str, str]]:
    user = _COLUMN.sub(lambda match: str(row[match[1]]), template)
    first = [] if system is None else [{"role": "system", "content": system}]
    return [*first, {"role": "user", "content": user}]


def _read(part: DatasetPart) -> Dataset:
    if part.source.startswith(GYM):
        return _gym(part.source.removeprefix(GYM))
    if not from_hub(part):
        return _file(Path(part.source))
    from datasets import load_dataset

    try:
        found: Any = load_dataset(part.source, part.subset, split=part.split)
    except (OSError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"can't load the dataset {part.source}: {reason}") from error
    return found


def _file(path: Path) -> Dataset:
    from datasets import Dataset

    try:
        text = path.read_text(encoding="utf-8")
        whole = path.suffix == ".json"
        rows = json.loads(text) if whole else [json.loads(x) for x in text.splitlines() if x]
        return Dataset.from_list(rows)
    except OSError as error:
        raise UserError(f"can't read the dataset {path}: {error.strerror}") from error
    except Exception as error:  # of json or of Arrow, which has many kinds
        reason = " ".join(str(error).split())
        raise UserError(f"{path} is not a list of rows with equal columns: {reason}") from error


def _gym(source: str) -> Dataset:
    """Return the questions of ``chain_sum?size=64&seed=0``."""
    entries = questions(source)
    from datasets import Dataset

    return Dataset.from_list(
        [
            {"question": e["question"], "answer": str(e["answer"]), "entry": json.dumps(e)}
            for e in entries
        ]
    )
