"""Read the rows of a Parquet, JSON Lines or CSV file that comes from elsewhere.

Nothing in a file is evaluated. What can't be read is refused with one sentence that names the
file and the place.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from icml.core.errors import UserError

Row = Mapping[str, Any]

CSV_FIELD = 64 * 2**20
"""Longest CSV field in characters (ours): the csv module's 131 072 is less than a long answer."""


class Rows(NamedTuple):
    """Rows of a file.

    Attributes:
        columns: Names of all columns in the file.
        rows: The wanted columns of each row; one that is absent from a row is absent here.
    """

    columns: list[str]
    rows: list[Row]


def read_rows(path: Path, wanted: Sequence[str]) -> Rows:
    """Read the ``wanted`` columns of a file, as far as it has them.

    Args:
        path: File whose suffix is one of ``SUFFIXES``.
        wanted: Names of columns.

    Raises:
        UserError: If the file can't be read as its suffix says or names a wanted column twice.
    """
    try:
        return _READERS[path.suffix](path, wanted)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or _short(error)}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text (byte {error.start})") from error


def _read_parquet(path: Path, wanted: Sequence[str]) -> Rows:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Without threads: Arrow's pools can abort a process that ends right after a read.
        with path.open("rb") as handle, pq.ParquetFile(handle, pre_buffer=False) as file:
            columns = file.schema_arrow.names
            _refuse_twins(path, columns, wanted)
            kept = [name for name in columns if name in wanted]
            table = file.read(columns=kept, use_threads=False)
            return Rows(columns, table.to_pylist())
    except (pa.ArrowException, OSError) as error:
        # A damaged page surfaces as an OSError without a number, unlike a missing file.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise UserError(f"{path}: not a readable Parquet file ({_short(error)})") from error


def _read_jsonl(path: Path, wanted: Sequence[str]) -> Rows:
    columns: dict[str, None] = {}
    rows: list[Row] = []
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            record = _json_object(line, f"{path} line {number}")
            columns |= dict.fromkeys(record)
            rows.append({name: record[name] for name in wanted if name in record})
    return Rows(list(columns), rows)


def _json_object(line: str, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    # Besides bad syntax: a number of more digits than Python converts, and nesting too deep.
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not readable JSON ({_short(error)})") from error
    if not isinstance(record, dict):
        raise UserError(f"{where}: not a JSON object with one completion")
    return record


def _read_csv(path: Path, wanted: Sequence[str]) -> Rows:
    with path.open(encoding="utf-8-sig", newline="") as file, _long_fields():
        reader = csv.reader(file, strict=True)
        try:
            columns = next(reader, [])
            _refuse_twins(path, columns, wanted)
            places = [(name, columns.index(name)) for name in wanted if name in columns]
            return Rows(columns, list(_csv_rows(path, reader, len(columns), places)))
        except csv.Error as error:
            raise UserError(f"{path} line {reader.line_num}: not readable CSV ({error})") from error


def _csv_rows(
    path: Path, cells: Iterable[list[str]], width: int, places: Sequence[tuple[str, int]]
) -> Iterator[Row]:
    for number, row in enumerate(cells, 1):
        if row and len(row) != width:
            raise UserError(f"{path} row {number}: {len(row)} cells under {width} column names")
        if row:
            yield {name: row[place] for name, place in places}


@contextmanager
def _long_fields() -> Generator[None]:
    before = csv.field_size_limit(CSV_FIELD)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _refuse_twins(path: Path, columns: Sequence[str], wanted: Sequence[str]) -> None:
    for name in wanted:
        if columns.count(name) > 1:
            raise UserError(f"{path}: two columns are named {name!r}")


def _short(error: BaseException) -> str:
    """Return the first line of a message: some libraries append pages."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


_READERS = {".parquet": _read_parquet, ".jsonl": _read_jsonl, ".csv": _read_csv}

SUFFIXES = tuple(_READERS)
