"""From ``summary.json`` and ``figures/`` to ``report.html``, and from many runs to an index."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from icml.core.journal import write_atomic
from icml.core.report import numbers
from icml.core.report.views import Card, drawing, flatten, grid, outcome, with_unit
from icml.core.summary import read_summary

_TEMPLATES = Path(__file__).parent / "templates"


def write_report(run_dir: Path) -> Path:
    """Write ``report.html`` of a finished run; it reads ``summary.json`` and ``figures/`` only.

    The page holds everything it shows: no script, nothing loaded. In a table, the columns
    ``name``, ``name low`` and ``name high`` are shown as one, as ``0.283 [0.229, 0.337]``.

    Args:
        run_dir: Folder of the run.

    Returns:
        Path of the page.

    Raises:
        UserError: If the run isn't finished, its summary can't be read, or a figure is missing or
            holds anything else than a drawing of ours.
    """
    summary = read_summary(run_dir)
    path = run_dir / "report.html"
    page = _render(
        "report.html.j2",
        summary=summary,
        figures=[drawing(run_dir, figure, n) for n, figure in enumerate(summary.figures)],
        tables=[grid(table) for table in summary.tables],
        machine=[with_unit(key, value) for key, value in summary.hardware.items()],
        settings=flatten(summary.config),
    )
    write_atomic(path, page)
    return path


def write_index(run_dirs: Sequence[Path], out: Path) -> Path:
    """Write a page with an entry for each run: what was claimed, what came out, the report.

    Args:
        run_dirs: Folders of finished runs.
        out: Path of the page. Links to the reports are relative to it.

    Returns:
        ``out``.

    Raises:
        UserError: If a run isn't finished or its summary can't be read.
    """
    cards = []
    for folder in run_dirs:
        link = Path(os.path.relpath(folder.resolve() / "report.html", out.resolve().parent))
        cards.append(Card(read_summary(folder), link.as_posix()))
    write_atomic(out, _render("index.html.j2", cards=cards))
    return out


def _render(template: str, **values: object) -> str:
    style = Markup((_TEMPLATES / "report.css").read_text(encoding="utf-8"))
    return _environment().get_template(template).render(style=style, **values)


@cache
def _environment() -> Environment:
    """Escape everything but the style sheet and what `inline` has checked."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["outcome"] = outcome
    environment.filters["number"] = numbers.number
    environment.filters["with_interval"] = numbers.with_interval
    environment.filters["duration"] = numbers.duration
    environment.filters["link"] = quote
    return environment
