"""From ``summary.json`` and ``figures/`` to ``report.html``, and from many runs to an index."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from pydantic import JsonValue, ValidationError

from icml.core.errors import UserError
from icml.core.journal import write_atomic
from icml.core.report import numbers
from icml.core.report.inline import inline
from icml.core.summary import Claim, Figure, Summary, Table

_TEMPLATES = Path(__file__).parent / "templates"


def write_report(run_dir: Path) -> Path:
    """Write ``report.html`` of a finished run; it reads ``summary.json`` and ``figures/`` only.

    The page holds everything it shows: no script, nothing loaded. In a table, the columns
    ``name``, ``name_low`` and ``name_high`` are shown as one, as ``0.283 [0.229, 0.337]``.

    Args:
        run_dir: Folder of the run.

    Returns:
        Path of the page.

    Raises:
        UserError: If the run isn't finished, its summary can't be read, or a figure is missing or
            holds anything else than a drawing of ours.
    """
    summary = read_summary(run_dir)
    html = _environment().get_template("report.html.j2").render(
        summary=summary,
        verdict=Verdict.of(summary.claims),
        figures=[_figure(run_dir, figure, n) for n, figure in enumerate(summary.figures)],
        tables=[_grid(table) for table in summary.tables],
        settings=flatten(summary.config),
    )
    path = run_dir / "report.html"
    write_atomic(path, html)
    return path


def write_index(run_dirs: Sequence[Path], out: Path) -> Path:
    """Write a page with an entry for each run: what was claimed, what came out, the report.

    Args:
        run_dirs: Folders of runs; one without a ``summary.json`` is shown as not finished.
        out: Path of the page. Links to the reports are relative to it.

    Returns:
        ``out``.

    Raises:
        UserError: If a summary can't be read.
    """
    entries = []
    for folder in run_dirs:
        finished = (folder / "summary.json").exists()
        link = Path(os.path.relpath(folder.resolve() / "report.html", out.resolve().parent))
        entries.append((folder, read_summary(folder) if finished else None, link.as_posix()))
    cards = [Card.of(folder, summary, link) for folder, summary, link in entries]
    write_atomic(out, _environment().get_template("index.html.j2").render(cards=cards))
    return out


def read_summary(run_dir: Path) -> Summary:
    """Return what a finished run says.

    Raises:
        UserError: If there is no summary, or it can't be read.
    """
    path = run_dir / "summary.json"
    try:
        return Summary.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise UserError(f"{run_dir} holds no finished run: {path} is missing") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise UserError(f"{path} can't be read: {place}: {first['msg']}") from error


@dataclass(frozen=True)
class Verdict:
    """The outcome of a run in a sentence or two."""

    failed: list[Claim]
    required: str
    reported: str

    @classmethod
    def of(cls, claims: Sequence[Claim]) -> Verdict:
        """Count the claims of either kind."""
        required = [claim for claim in claims if claim.kind == "required"]
        reported = [claim for claim in claims if claim.kind == "reported"]
        return cls(
            failed=[claim for claim in required if not claim.holds],
            required=_tally(required, "required claim", ("holds", "hold"), "failed"),
            reported=_tally(
                reported, "reported claim", ("is supported", "are supported"), "not at this scale"
            ),
        )


def _tally(claims: Sequence[Claim], noun: str, verbs: tuple[str, str], else_: str) -> str:
    good, total = sum(claim.holds for claim in claims), len(claims)
    if not total:
        return f"No {noun}."
    if total == 1:
        return f"The {noun} {verbs[0] if good else else_.replace('not', 'is not supported')}."
    if good == total:
        return f"All {total} {noun}s {verbs[1]}."
    return f"{good} of {total} {noun}s {verbs[good != 1]}, {total - good} {else_}."


@dataclass(frozen=True)
class Card:
    """One run on the index page; ``summary`` is None for a run that isn't finished."""

    folder: str
    link: str
    summary: Summary | None = None
    verdict: Verdict | None = None
    key: Claim | None = None
    """The claim whose number stands for the run: the first reported one, else the first."""

    @classmethod
    def of(cls, folder: Path, summary: Summary | None, link: str) -> Card:
        """Pick what the index says of a run."""
        if summary is None:
            return cls(folder.as_posix(), link)
        ranked = sorted(summary.claims, key=lambda claim: claim.kind != "reported")
        key = ranked[0] if ranked else None
        return cls(folder.as_posix(), link, summary, Verdict.of(summary.claims), key)


class Drawing(NamedTuple):
    """A figure ready for the page: one drawing, or one for wide pages and one for phones."""

    figure: Figure
    wide: Markup
    narrow: Markup | None


def _figure(run_dir: Path, figure: Figure, n: int) -> Drawing:
    path = run_dir / figure.svg
    if not path.resolve().is_relative_to(run_dir.resolve()):
        raise UserError(f"the figure {figure.svg} lies outside {run_dir}")
    narrow = path.with_suffix(".narrow.svg")
    texts = [_drawing(path, f"f{n}w-"), _drawing(narrow, f"f{n}n-") if narrow.exists() else None]
    return Drawing(figure, texts[0] or Markup(""), texts[1])


def _drawing(path: Path, prefix: str) -> Markup:
    try:
        svg = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the figure {path} can't be read: {error}") from error
    # inline() lets shapes, text and references within the figure through, and escapes its text.
    return Markup(inline(svg, prefix=prefix, name=str(path)))  # noqa: S704


class Column(NamedTuple):
    """A shown column: the texts of its cells, and whether they are numbers."""

    name: str
    cells: list[str]
    numeric: bool


class Grid(NamedTuple):
    """A table as it is shown."""

    table: Table
    columns: list[Column]


def _grid(table: Table) -> Grid:
    cells = dict(zip(table.columns, zip(*table.rows, strict=True), strict=False))
    bounds = {
        name: (f"{name}_low", f"{name}_high")
        for name in table.columns
        if {f"{name}_low", f"{name}_high"} <= set(table.columns)
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


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    style = (_TEMPLATES / "report.css").read_text(encoding="utf-8")
    environment.globals["style"] = Markup(style)  # noqa: S704  # our own file
    environment.filters["number"] = numbers.number
    environment.filters["with_interval"] = numbers.with_interval
    environment.filters["duration"] = numbers.duration
    environment.filters["link"] = quote
    return environment
