"""What the templates show: a summary's outcome, figures, tables and settings, ready to print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup
from pydantic import JsonValue

from icml.core.errors import UserError
from icml.core.report import numbers
from icml.core.report.inline import inline
from icml.core.summary import Claim, Figure, Summary, Table


def outcome(claims: Sequence[Claim]) -> str:
    """Count in words the claims of either kind that hold."""
    required = [claim.holds for claim in claims if claim.kind == "required"]
    reported = [claim.holds for claim in claims if claim.kind == "reported"]
    counts = [
        (required, "Required claims that hold"),
        (reported, "Reported claims supported at this scale"),
    ]
    return " ".join(f"{what}: {sum(holds)} of {len(holds)}." for holds, what in counts if holds)


class Card(NamedTuple):
    """One run on the index page."""

    summary: Summary
    link: str
    """Address of its report, relative to the index."""

    @property
    def key(self) -> Claim | None:
        """The claim that stands for the run: one that failed, else a reported one, else any."""
        reported = [claim for claim in self.summary.claims if claim.kind == "reported"]
        return next(iter([*self.summary.failed, *reported, *self.summary.claims]), None)


class Drawing(NamedTuple):
    """A figure ready for the page: one drawing, or one for wide pages and one for phones."""

    figure: Figure
    wide: Markup
    narrow: Markup | None


def drawing(run_dir: Path, figure: Figure, n: int) -> Drawing:
    """Read the drawings of the page's n-th figure; one for phones lies beside the SVG or doesn't.

    Raises:
        UserError: If it can't be read, lies outside the run's folder or is no drawing of ours.
    """
    path = run_dir / figure.svg
    if not path.resolve().is_relative_to(run_dir.resolve()):
        raise UserError(f"the figure {figure.svg} lies outside {run_dir}")
    narrow = path.with_suffix(".narrow.svg")
    texts = [_read(path, f"f{n}w-"), _read(narrow, f"f{n}n-") if narrow.exists() else None]
    return Drawing(figure, texts[0] or Markup(""), texts[1])


def _read(path: Path, prefix: str) -> Markup:
    try:
        svg = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the figure {path} can't be read: {error}") from error
    # inline() lets shapes, text and references within the figure through, and escapes its text.
    return Markup(inline(svg, prefix=prefix, name=str(path)))


class Column(NamedTuple):
    """A shown column: the texts of its cells, and whether they are numbers."""

    name: str
    cells: list[str]
    numeric: bool


class Grid(NamedTuple):
    """A table as it is shown."""

    table: Table
    columns: list[Column]


def grid(table: Table) -> Grid:
    """Join each column ``x`` with its ``x low`` and ``x high`` and write all cells as texts."""
    cells = dict(zip(table.columns, zip(*table.rows, strict=True), strict=False))
    bounds = {
        name: (f"{name} low", f"{name} high")
        for name in table.columns
        if {f"{name} low", f"{name} high"} <= set(table.columns)
    }
    hidden = {bound for pair in bounds.values() for bound in pair}
    columns = []
    for name in table.columns:
        if name in hidden:
            continue
        values = cells.get(name, ())
        numeric = any(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
        texts = numbers.column(values)
        if name in bounds:
            lows, highs = (cells.get(bound, ()) for bound in bounds[name])
            triples = zip(values, lows, highs, texts, strict=True)
            texts = [_estimate(value, low, high, text) for value, low, high, text in triples]
        columns.append(Column(name.replace("_", " "), texts, numeric))
    return Grid(table, columns)


def _estimate(value: object, low: object, high: object, text: str) -> str:
    if isinstance(value, float) and isinstance(low, float) and isinstance(high, float):
        return numbers.with_interval(value, (low, high))
    return text


def with_unit(key: str, value: object) -> str:
    """Read a unit off the end of a name: ``memory_gb`` 15.6 is "memory 15.6 GB"."""
    name, _, unit = key.rpartition("_")
    return f"{name} {value} GB" if unit == "gb" else f"{key.replace('_', ' ')} {value}"


def flatten(config: Mapping[str, JsonValue], prefix: str = "") -> list[tuple[str, str]]:
    """Return the settings in order, the names of nested ones dotted.

    Example:
        >>> flatten({"steps": 100, "loss": {"clip": [0.2, 0.28]}})
        [('steps', '100'), ('loss.clip', '0.2, 0.28')]
    """
    result = []
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            result += flatten(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            result.append((prefix + name, ", ".join(str(item) for item in value)))
        else:
            result.append((prefix + name, str(value)))
    return result
