"""What an experiment found: claims, tables, figures and notes, each checked as it is stated."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Literal, Protocol, overload

from icml.core.journal import cannot_write, to_json
from icml.core.summary import Cell, Claim, Figure, Table

if TYPE_CHECKING:
    from icml.core.stats import Interval

FIGURES = "figures"


class Drawing(Protocol):
    """What :mod:`icml.core.plots` returns."""

    def save(self, folder: Path, name: str) -> object:
        """Write ``<name>.svg`` and ``<name>.csv`` into ``folder``."""
        ...


class Findings:
    """Collects the findings of one run."""

    def __init__(self, folder: Path) -> None:
        """Start with none; ``folder`` is where ``figures/`` goes."""
        self._folder = folder
        self._claims: dict[str, Claim] = {}
        self._tables: dict[str, Table] = {}
        self._figures: dict[str, Figure] = {}
        self._notes: list[str] = []

    @overload
    def claim(
        self,
        id: str,
        statement: str,
        *,
        estimate: Interval,
        holds: bool,
        kind: Literal["required", "reported"] = "required",
        paper: str | None = None,
    ) -> Claim: ...
    @overload
    def claim(
        self,
        id: str,
        statement: str,
        *,
        value: float,
        interval: tuple[float, float] | None,
        holds: bool,
        kind: Literal["required", "reported"] = "required",
        paper: str | None = None,
    ) -> Claim: ...
    def claim(
        self,
        id: str,
        statement: str,
        *,
        estimate: Interval | None = None,
        value: float | None = None,
        interval: tuple[float, float] | EllipsisType | None = ...,
        holds: bool,
        kind: Literal["required", "reported"] = "required",
        paper: str | None = None,
    ) -> Claim:
        """State something that the run shows or fails to show.

        Args:
            id: Unique in the run.
            statement: One sentence in words.
            estimate: What was measured, with its limits; or else both of:
            value: What was measured.
            interval: Its lower and upper end (which may be infinite), None where it is exact.
            holds: Whether the statement is true of this run.
            kind: ``required`` for mechanism and exactness, ``reported`` for what this small run
                says about the paper's performance claim.
            paper: What the paper reports for it.

        Raises:
            ValueError: If the id is taken, a number is NaN, the interval is not two numbers in
                order, or what was measured is not given in one of the two ways.
        """
        _refuse_taken("claim", id, self._claims)
        if estimate is not None and value is None and interval is ...:
            value, interval = estimate.estimate, (estimate.low, estimate.high)
        elif estimate is not None or value is None or isinstance(interval, EllipsisType):
            raise ValueError(
                f"claim {id!r} needs either an estimate, or a value and its interval (None where "
                "it is exact)"
            )
        if interval is not None and len(interval) != 2:
            raise ValueError(f"claim {id!r} has interval {interval}: give (low, high) alone")
        ends = None if interval is None else (float(interval[0]), float(interval[1]))
        if math.isnan(value) or (ends is not None and any(map(math.isnan, ends))):
            raise ValueError(f"claim {id!r} has a NaN: value {value}, interval {ends}")
        if ends is not None and ends[0] > ends[1]:
            raise ValueError(f"claim {id!r} has interval {ends}: the lower end comes first")
        self._claims[id] = Claim(
            id=id,
            statement=statement,
            value=float(value),
            interval=ends,
            holds=bool(holds),
            kind=kind,
            paper=paper,
        )
        return self._claims[id]

    def table(self, name: str, rows: Sequence[Mapping[str, Cell]], *, caption: str) -> None:
        """Add a table; the keys of its first row are the columns.

        The report shows the columns ``x``, ``x low`` and ``x high`` as one, with an interval.

        Raises:
            ValueError: If the name is taken, there is no row, or a row has other keys.
            TypeError: If a cell is not a string, number, boolean or None.
        """
        _refuse_taken("table", name, self._tables)
        if not rows:
            raise ValueError(f"table {name!r} has no rows")
        columns = list(rows[0])
        cells: list[list[Cell]] = []
        for number, row in enumerate(rows):
            if row.keys() != rows[0].keys():
                raise ValueError(
                    f"row {number} of table {name!r} has columns {list(row)}, "
                    f"the first row has {columns}"
                )
            where = f"row {number} of table {name!r}"
            cells.append([_table_cell(row[column], f"{where}, {column!r}") for column in columns])
        self._tables[name] = Table(name=name, caption=caption, columns=columns, rows=cells)

    def figure(self, name: str, figure: Drawing, *, caption: str) -> None:
        """Save a figure and the CSV it was drawn from into ``figures/``.

        Raises:
            ValueError: If the name is taken or cannot be a file name.
            UserError: If the system refuses to write.
        """
        _refuse_taken("figure", name, self._figures)
        folder = self._folder / FIGURES
        stem = file_name(name)
        try:
            folder.mkdir(exist_ok=True)
            figure.save(folder, stem)
        except OSError as error:
            raise cannot_write(folder / stem, error) from error
        paths = {kind: f"{FIGURES}/{stem}.{kind}" for kind in ("svg", "csv")}
        for path in paths.values():
            if not (self._folder / path).is_file():
                raise ValueError(f"the figure {name!r} did not save {path}")
        self._figures[name] = Figure(name=name, caption=caption, svg=paths["svg"], csv=paths["csv"])

    def note(self, text: str) -> None:
        """Say what this small experiment does not show."""
        self._notes.append(text)


def file_name(name: str) -> str:
    """Return ``name`` if it is one plain file name.

    Raises:
        ValueError: If it has other characters than letters, digits and ``_ - = + .`` or starts
            with a dot.
    """
    if not re.fullmatch(r"[\w=+-][\w.=+-]*", name, re.ASCII):
        raise ValueError(
            f"{name!r} cannot be a file name: use letters, digits and _ - = + . (not first)"
        )
    return name


def _refuse_taken(what: str, name: str, taken: Mapping[str, object]) -> None:
    if not name:
        raise ValueError(f"a {what} needs a name")
    if name in taken:
        raise ValueError(f"the {what} {name!r} is there already")


def _table_cell(value: Cell, where: str) -> Cell:
    cell = to_json(value, where)
    if isinstance(cell, list | dict):
        raise TypeError(f"{where} is a {type(cell).__name__}; one number or string wanted")
    return cell
