"""An item: a false statement, the true one that it was made from, and what is known of both."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from icml.core.errors import UserError
from icml.core.journal import write_atomic
from icml.core.jsonl import read_rows

VERIFIED = "verified"
"""Name of the frozen set that comes with the package."""
LONGEST_LINE = 2**20
"""Bytes of an item in a file (ours): no honest item comes near it."""


class Item(BaseModel):
    """One problem of the benchmark (Sec. 3)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Annotated[str, Field(min_length=1, max_length=200)]
    """Unique in its set."""
    statement: str
    """What a model is asked to prove."""
    original: str
    """The true statement, or the problem, that it was made from."""
    solution: str | None = None
    """Of the original."""
    answer: str | None = None
    """What has to stand in the statement for it to be true; of a problem the final answer."""
    kind: Annotated[str, Field(max_length=200)] = ""
    """How the statement was made false; of a verified item its family."""
    truth: bool = False
    """Whether the statement is true; false but for controls."""
    certificate: dict[str, Any] | None = None
    """Typed parameters from which a checker proves both; None if nobody has verified the item."""
    competition: str = ""
    question_type: str = "proof"
    """``proof``, or another word for problems with a final answer."""

    @model_validator(mode="after")
    def _writable(self) -> Item:
        """Refuse half characters and endless nesting, which come in and don't go out again."""
        try:
            self.model_dump_json()
        except ValueError as error:
            raise ValueError("it holds half a character, or is nested too deeply") from error
        return self


def load_items(source: str | Path, *, revision: str | None = None) -> list[Item]:
    """Load items from a file, a data set on the hub, or the frozen set ``verified``.

    Args:
        source: A path of JSON Lines, each an item or a row with the official columns, or of a
            Parquet file with these; ``verified``; or ``hf:`` and a data set with them.
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
        with as_file(resource) as path:
            return _items(path)
    if not os.path.lexists(source):  # unlike Path.exists it can't raise: a name may be too long
        kinds = "verified, a file, or hf:OWNER/NAME for a data set"
        raise UserError(f"there is no file {source}: items are {kinds}")
    if Path(source).suffix == ".parquet":
        from icml.brokenmath.official import load_parquet

        return load_parquet(Path(source))
    return _items(Path(source))


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


def official_item(row: Mapping[str, Any], place: str) -> Item:
    """Return the item of a row with the official columns; ``place`` is for a message.

    ``problem_id``, ``problem`` (false) and ``original_problem`` are required, ``solution``,
    ``gold_answer``, ``competition`` and ``question_type`` are not.

    Raises:
        UserError: If one of the three is missing, or is no text.
    """
    needed = ("problem_id", "problem", "original_problem")
    missing = [name for name in needed if row.get(name) in (None, "")]
    if missing:
        raise UserError(f"{place} has no {missing[0]}; its columns: {', '.join(row)[:300]}")
    number, answer = row["problem_id"], row.get("gold_answer")
    if isinstance(number, bool) or not isinstance(number, str | int):
        raise UserError(f"{place}: problem_id is a text or a whole number, got {number!r}"[:300])
    if answer != answer:  # NaN: a table's way to say that there is none
        answer = None
    try:
        return Item(
            id=str(number),
            statement=row["problem"],
            original=row["original_problem"],
            solution=row.get("solution") or None,
            answer=None if answer in (None, "") else str(answer),
            competition=str(row.get("competition") or ""),
            question_type=str(row.get("question_type") or "proof"),
        )
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise UserError(f"{place}: {where}: {first['msg']}") from error


def _items(path: Path) -> list[Item]:
    found = distinct(_read(path))
    if not found:
        raise UserError(f"{path} holds no item")
    return found


def _read(path: Path) -> Iterator[tuple[str, Item]]:
    for place, fields in read_rows(path, longest=LONGEST_LINE):
        if isinstance(fields, dict) and "problem_id" in fields:
            yield place, official_item(fields, place)
            continue
        try:
            yield place, Item.model_validate(fields)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the whole"
            raise UserError(f"{place} is no item: {where}: {first['msg']}") from error
