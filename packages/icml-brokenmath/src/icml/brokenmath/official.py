"""The official data, where the user has it: a data set on the hub, or a copy of its folder.

Its card names the licence; nothing of it comes with this package.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from icml.brokenmath.items import Item, distinct
from icml.core.errors import UserError, require

__all__ = ["SPLIT", "load_official", "read_official"]

SPLIT = "benchmark"
"""The split of the false statements."""
_COLUMNS = {"problem": "statement", "original_problem": "original"}


def load_official(name: str, *, revision: str | None) -> list[Item]:
    """Load a data set with the columns of INSAIT-Institute/BrokenMath.

    Args:
        name: Of a data set on the hub, or a local copy of its folder.
        revision: The commit (40 hex digits): without it the items could change under a result. A
            local folder has none.

    Raises:
        UserError: If the revision is missing, or isn't a commit, the data can't be read, or a row
            is no item.
        MissingExtra: If datasets isn't installed.
    """
    local = Path(name).is_dir()
    if not local and not _is_commit(revision):
        raise UserError(
            f"give the commit of {name} as revision (40 hex digits, from the page of its files), "
            f"got {revision!r}"
        )
    if local and revision is not None:
        raise UserError(f"a local folder has no revision, got {revision!r} for {name}")
    datasets: Any = require("datasets", extra="icml-brokenmath[hf]")
    try:
        rows = datasets.load_dataset(name, split=SPLIT, revision=revision)
    except Exception as error:  # each of its storages has its own
        first = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(f"cannot load the split {SPLIT} of {name}: {first[0][:300]}") from error
    return read_official(rows, name)


def read_official(rows: Iterable[Mapping[str, Any]], source: str) -> list[Item]:
    """Return the items of rows with ``problem_id``, ``problem`` (false) and ``original_problem``.

    ``solution``, ``gold_answer``, ``competition`` and ``question_type`` may be missing.

    Raises:
        UserError: If a row lacks one of the three or holds no text, an id stands twice, a
            statement equals its original, or there is no row.
    """
    found = distinct(_read(rows, source))
    if not found:
        raise UserError(f"{source} holds no row")
    return found


def _read(rows: Iterable[Mapping[str, Any]], source: str) -> Iterator[tuple[str, Item]]:
    for number, row in enumerate(rows, 1):
        place = f"row {number} of {source}"
        missing = [name for name in ("problem_id", *_COLUMNS) if not row.get(name)]
        if missing:
            raise UserError(f"{place} has no {missing[0]}; its columns: {', '.join(row)}")
        fields = {ours: row[theirs] for theirs, ours in _COLUMNS.items()}
        answer = row.get("gold_answer")
        try:
            yield (
                place,
                Item(
                    id=str(row["problem_id"]),
                    solution=row.get("solution") or None,
                    answer=None if answer in (None, "") else str(answer),
                    competition=str(row.get("competition") or ""),
                    question_type=str(row.get("question_type") or "proof"),
                    **fields,
                ),
            )
        except ValidationError as error:
            first = error.errors()[0]
            raise UserError(f"{place}: {first['loc'][0]}: {first['msg']}") from error


def _is_commit(revision: str | None) -> bool:
    return revision is not None and len(revision) == 40 and set(revision) <= set("0123456789abcdef")
