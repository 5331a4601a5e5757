"""An item: a false statement, the true one that it was made from, and what is known of both."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from icml.core.errors import UserError
from icml.core.journal import write_atomic

VERIFIED = "verified"
"""Name of the frozen set that comes with the package."""
LONGEST_LINE = 2**20
"""Bytes of an item in a file (ours): no honest item comes near it."""


class Item(BaseModel):
    """One problem of the benchmark (Sec. 3)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    """Unique in its set."""
    statement: str
    """What a model is asked to prove."""
    original: str
    """The true statement, or the problem, that it was made from."""
    solution: str | None = None
    """Of the original."""
    answer: str | None = None
    """What has to stand in the statement for it to be true; of a problem the final answer."""
    kind: str = ""
    """How the statement was made false; of a verified item its family."""
    truth: bool = False
    """Whether the statement is true; false but for controls."""
    certificate: dict[str, Any] | None = None
    """Typed parameters from which a checker proves both; None if nobody has verified the item."""
    competition: str = ""
    question_type: str = "proof"
    """``proof``, or another word for problems with a final answer."""


def load_items(source: str | Path, *, revision: str | None = None) -> list[Item]:
    """Load items from a file of JSON Lines, a data set on the hub, or the frozen set ``verified``.

    Args:
        source: A path, ``verified``, or ``hf:`` and a data set with the official columns.
        revision: Commit of a data set on the hub, which must be given; a file has none.

    Raises:
        UserError: If there is no such file, a line is no item, an id stands twice, a statement
            equals its original, a revision is given for a file, or none for a data set.
        MissingExtra: If a data set is asked for and the library for it isn't installed.
    """
    if str(source).startswith("hf:"):
        from icml.brokenmath.official import load_official

        return load_official(str(source).removeprefix("hf:"), revision=revision)
    if revision is not None:
        raise UserError(f"a file has no revision, got {revision!r} for {source}")
    if str(source) == VERIFIED:
        resource = files("icml.brokenmath") / "data" / "verified-v1.jsonl"
        if not resource.is_file():
            raise UserError("the frozen set isn't in this installation: give a file of items")
        return _items(resource.read_text(encoding="utf-8"), VERIFIED)
    try:
        text = Path(source).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read the items {source}: {error}") from error
    return _items(text, str(source))


def distinct(items: Iterable[tuple[str, Item]]) -> list[Item]:
    """Return items, each with its place for a message, if no two are one.

    Raises:
        UserError: If an id stands twice, or a statement equals its original.
    """
    found: dict[str, Item] = {}
    for place, item in items:
        if item.id in found:
            raise UserError(f"{place}: the id {item.id} stands twice")
        if item.statement.strip() == item.original.strip():
            raise UserError(f"{place}: the statement of {item.id} equals the original")
        found[item.id] = item
    return list(found.values())


def save_jsonl(items: Iterable[Item], path: Path) -> None:
    """Write items, a line each.

    Raises:
        UserError: If the system refuses to write.
    """
    write_atomic(path, "".join(item.model_dump_json() + "\n" for item in items))


def _items(text: str, source: str) -> list[Item]:
    found = distinct(_read(text, source))
    if not found:
        raise UserError(f"{source} holds no item")
    return found


def _read(text: str, source: str) -> Iterator[tuple[str, Item]]:
    # Not splitlines(): a statement may hold U+2028, which JSON leaves as it is.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        place = f"line {number} of {source}"
        if len(line) > LONGEST_LINE:
            raise UserError(f"{place} has {len(line)} characters, more than {LONGEST_LINE}")
        try:
            yield place, Item.model_validate(json.loads(line))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise UserError(f"{place} is no item: {where}: {first['msg']}") from error
        except (ValueError, RecursionError) as error:
            raise UserError(f"{place} is no JSON: {error}") from error
