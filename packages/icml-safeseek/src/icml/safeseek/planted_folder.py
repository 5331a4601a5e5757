"""The folder that planting writes: a model, and rows to find what was planted in it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from icml.core.journal import replace_folder
from icml.safeseek.outputs import check_replaceable, file_names, recorded_names

__all__ = ["check_planting_folder", "write_planting"]

RECORD = "planted.json"


def check_planting_folder(out: Path | str) -> None:
    """Refuse a folder that holds something else than an earlier planting, or can't be written.

    Raises:
        UserError: If it does, or can't.
    """
    check_replaceable(out, recorded_names(out, RECORD))


def write_planting(
    out: Path | str,
    model: Any,
    tokenizer: Any,
    files: Mapping[str, Iterable[Mapping[str, Any]]],
    about: Mapping[str, Any],
) -> None:
    """Write ``model/``, JSON Lines, and ``planted.json`` with what was planted, all or nothing.

    Args:
        out: The folder; what was there is replaced: look with `check_planting_folder` first.
        model: The model with what was planted.
        tokenizer: Its tokenizer.
        files: Rows by the name of the file, without ``.jsonl``.
        about: JSON values that say what was planted.

    Raises:
        UserError: If the system doesn't allow it.
    """
    with replace_folder(out) as draft:
        model.save_pretrained(draft / "model")
        tokenizer.save_pretrained(draft / "model")
        for name, rows in files.items():
            lines = "".join(json.dumps(dict(row)) + "\n" for row in rows)
            (draft / f"{name}.jsonl").write_text(lines, encoding="utf-8")
        record = {**about, "files": file_names(draft)}
        (draft / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
