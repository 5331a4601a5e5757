"""The official data, where the user has it: on the hub, in a copy of its folder, or in a file.

Its card names the licence; nothing of it comes with this package.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from icml.brokenmath.items import Item, distinct, official_item
from icml.core.errors import UserError, require

__all__ = ["SPLIT", "load_official", "load_parquet", "read_official"]

SPLIT = "benchmark"
"""The split of the false statements."""


def load_official(name: str, *, revision: str | None) -> list[Item]:
    """Load a data set with the columns of INSAIT-Institute/BrokenMath.

    Args:
        name: Of a data set on the hub, or a local copy of its folder.
        revision: The commit (40 hex digits): without it the items could change under a result. A
            local folder has none.

    Raises:
        UserError: If there is no name, the revision is missing, or isn't a commit, the data can't
            be read, or a row is no item.
        MissingExtra: If datasets isn't installed.
    """
    if not name.strip():
        raise UserError("hf: names no data set: write hf:OWNER/NAME, or hf: and a local folder")
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


def load_parquet(path: Path) -> list[Item]:
    """Load a Parquet file with the official columns, as the hub's page of files offers it.

    Raises:
        UserError: If the file can't be read, or a row is no item.
        MissingExtra: If pyarrow, which comes with datasets, isn't installed.
    """
    parquet: Any = require("pyarrow.parquet", extra="icml-brokenmath[hf]")
    try:
        # As an open file: a name could be an address of another storage.
        with path.open("rb") as file:
            rows = parquet.read_table(file).to_pylist()
    except (OSError, ValueError) as error:  # pyarrow's own are among them
        first = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(f"cannot read the items {path}: {first[0][:300]}") from error
    return read_official(rows, str(path))


def read_official(rows: Iterable[Mapping[str, Any]], source: str) -> list[Item]:
    """Return the items of rows with the official columns; see `icml.brokenmath.items`.

    Raises:
        UserError: If a row lacks a column or holds no text, an id stands twice, a statement
            equals its original, or there is no row.
    """
    places = ((f"row {number} of {source}", row) for number, row in enumerate(rows, 1))
    found = distinct((place, official_item(row, place)) for place, row in places)
    if not found:
        raise UserError(f"{source} holds no row")
    return found


def _is_commit(revision: str | None) -> bool:
    return revision is not None and len(revision) == 40 and set(revision) <= set("0123456789abcdef")
