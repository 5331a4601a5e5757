"""Cut completions logs, as TRL writes them, into generation batches."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from hashlib import sha256
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from icml.core.errors import UserError
from icml.gdpo.audit.readers import SUFFIXES, Row, read_rows

STEP, PROMPT, COMPLETION, ADVANTAGE = "step", "prompt", "completion", "advantage"
"""Columns of TRL's log next to the rewards; each may be absent."""

_MISSING = ("", "nan", "null", "none", "na")


class LoggedBatch(NamedTuple):
    """One generation batch of a log.

    Attributes:
        source: File, and step if there is one, that it was read from.
        step: Training step, None where the log has no such column.
        rewards: ``(completions, rewards)``; NaN is missing.
        advantages: ``(completions,)`` as logged, NaN where missing; None without such a column.
        has_prompts: Whether there was a prompt column to check the groups against.
    """

    source: str
    step: int | None
    rewards: list[list[float]]
    advantages: list[float] | None
    has_prompts: bool


class Log(NamedTuple):
    """The generation batches of a log.

    Attributes:
        batches: Each once, in order.
        found: Number of batches in the log, repeated ones included.
    """

    batches: list[LoggedBatch]
    found: int


def trl_logged_batches() -> list[LoggedBatch]:
    """Return three generation batches of a real run with the advantages that TRL 1.16 logged.

    The rewards are ``ans``, ``fmt`` and ``length``, in groups of 8; the file
    ``icml/gdpo/data/trl_logged_batch.json`` says how they were made.

    Example:
        >>> [len(batch.rewards) for batch in trl_logged_batches()]
        [16, 16, 16]
    """
    name = "trl_logged_batch.json"
    text = files("icml.gdpo").joinpath("data", name).read_text(encoding="utf-8")
    return [
        LoggedBatch(f"{name} step {b['step']}", b["step"], b["rewards"], b["advantages"], False)
        for b in json.loads(text)["batches"]
    ]


def read_log(paths: Sequence[Path], rewards: Sequence[str], *, group_size: int) -> Log:
    """Read the generation batches of a log.

    A batch is a run of rows with one ``step`` in one file (the whole file without that column).
    TRL writes a batch again at each optimisation step that uses it: a batch whose rows equal
    those of the batch before, but for the step, is dropped. Groups are runs of ``group_size``
    rows.

    Args:
        paths: Parquet, JSON Lines or CSV files, or folders of such files (read in the order of
            their names).
        rewards: Columns that hold rewards: numbers, or null, empty or NaN where missing.
        group_size: Completions in a group, >= 1.

    Raises:
        UserError: If a file can't be read, has no such column, holds something other than a
            finite number where a number belongs, or does not fit the group size.
    """
    if group_size < 1:
        raise UserError(f"group size must be at least 1 completion, got {group_size}")
    if not rewards or len(set(rewards)) < len(rewards):
        raise UserError(f"reward columns must be named, each once, got {list(rewards)}")
    batches: list[LoggedBatch] = []
    found, previous = 0, ""
    for path in _files(paths):
        for source, step, rows in _runs(path, rewards):
            found += 1
            _check_groups(rows, source, group_size)
            fingerprint = _fingerprint(rows)
            if fingerprint != previous:
                batches.append(_batch(rows, source, step, rewards))
            previous = fingerprint
    if not batches:
        raise UserError(f"no completions in {', '.join(map(str, paths)) or 'no file'}")
    return Log(batches, found)


def _files(paths: Sequence[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(p for p in path.iterdir() if p.suffix in SUFFIXES)
            if not inside:
                raise UserError(f"{path}: no {', '.join(SUFFIXES)} file in this folder")
            found += inside
        elif path.suffix in SUFFIXES:
            found.append(path)
        else:
            raise UserError(f"{path}: a log ends in {', '.join(SUFFIXES)}, or is a folder of such")
    return found


def _runs(path: Path, rewards: Sequence[str]) -> Iterator[tuple[str, int | None, list[Row]]]:
    """Yield (source, step, rows) for each run of rows with the same step."""
    columns, rows = read_rows(path, [*rewards, STEP, PROMPT, COMPLETION, ADVANTAGE])
    for name in rewards:
        if name not in columns:
            there = ", ".join(columns) or "none (the file is empty)"
            raise UserError(f"{path}: no column {name!r}; there are: {there}")
    steps = [_step(row.get(STEP), f"{path} row {i}") for i, row in enumerate(rows, 1)]
    for step, run in groupby(zip(steps, rows, strict=True), key=lambda pair: pair[0]):
        source = str(path) if step is None else f"{path} step {step}"
        yield source, step, [row for _, row in run]


def _check_groups(rows: Sequence[Row], source: str, group_size: int) -> None:
    if len(rows) % group_size:
        raise UserError(
            f"{source}: {len(rows)} completions are not a multiple of the group size {group_size}"
        )
    for start in range(0, len(rows), group_size):
        first = rows[start].get(PROMPT)
        for i in range(start + 1, start + group_size):
            if rows[i].get(PROMPT) != first:
                raise UserError(
                    f"{source}: the prompt changes at completion {i + 1}, inside a group of "
                    f"{group_size}; is the group size right?"
                )


def _fingerprint(rows: Sequence[Row]) -> str:
    """Hash everything but the step."""
    digest = sha256()
    for row in rows:
        kept = {name: value for name, value in row.items() if name != STEP}
        digest.update(json.dumps(kept, sort_keys=True, default=str).encode())
    return digest.hexdigest()


def _batch(
    rows: Sequence[Row], source: str, step: int | None, rewards: Sequence[str]
) -> LoggedBatch:
    table = [
        [_number(row.get(name), f"{source}, completion {i}, column {name!r}") for name in rewards]
        for i, row in enumerate(rows, 1)
    ]
    advantages = None
    if any(ADVANTAGE in row for row in rows):
        advantages = [
            _number(row.get(ADVANTAGE), f"{source}, completion {i}, column {ADVANTAGE!r}")
            for i, row in enumerate(rows, 1)
        ]
    return LoggedBatch(source, step, table, advantages, all(PROMPT in row for row in rows))


def _number(value: Any, where: str) -> float:
    """Return a finite float, or NaN where the value is missing."""
    if value is None or (isinstance(value, str) and value.strip().lower() in _MISSING):
        return math.nan
    if not isinstance(value, str | int | float | Decimal):
        raise UserError(f"{where}: {str(value)[:40]!r} is not a number")
    try:
        number = float(value)
    except ValueError as error:
        raise UserError(f"{where}: {str(value)[:40]!r} is not a number") from error
    except OverflowError as error:
        raise UserError(f"{where}: the number is too large") from error
    if math.isinf(number):
        raise UserError(f"{where}: a reward or advantage must be finite, got {number}")
    return number


def _step(value: Any, where: str) -> int | None:
    number = _number(value, f"{where}, column {STEP!r}")
    if math.isnan(number):
        return None
    if number % 1:
        raise UserError(f"{where}, column {STEP!r}: {number} is not a whole number")
    return int(number)
