"""A static site of a result set: leaderboard, months, slices, a page a bug, ``results.json``.

No script, nothing loaded from elsewhere, nothing that a page must be served for. Titles, reports
and diffs are hostile text: everything is escaped, and the pages forbid scripts besides. The same
results give the same bytes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from icml.core.errors import UserError
from icml.core.journal import cannot_write
from icml.kenv.cutoff import Gap, ModelCutoff, Rate
from icml.kenv.drawing import NARROW, WIDE, interval_bar, months_chart
from icml.kenv.leaderboard import Slice, Standing, gap_text, slices, standings
from icml.kenv.results import Result, System, as_json
from icml.kenv.show import visible

FORMAT = "icml-kenv dashboard 1"
_TEMPLATES = Path(__file__).with_name("data") / "dashboard"
_SHOWN_TEXT = 12_000
"""Characters of a report or diff on a page; the middle of longer ones is left out."""

_ENTRIES = {"index.html", "bugs.html", "bugs", "results.json", "style.css"}

_KINDS = {
    "plausible": ("plausible", "good"),
    "crash_same": ("same crash", "bad"),
    "crash_other": ("another crash", "bad"),
    "build_failed": ("build failed", "calm"),
    "build_timeout": ("build timed out", "calm"),
    "boot_failed": ("no boot", "calm"),
    "apply_failed": ("does not apply", "calm"),
    "patch_rejected": ("refused", "calm"),
    "patch_invalid": ("no diff", "calm"),
    "patch_empty": ("empty", "calm"),
    "flaky": ("flaky", "calm"),
    "infra_error": ("not tried", "calm"),
}


class BugPage(NamedTuple):
    """One bug with everything that ran on it."""

    id: str
    first: Result
    """Has what all rows say of the bug."""
    report: str
    rows: list[Result]

    @property
    def fixed(self) -> date | None:
        """Day of the developers' fix."""
        return None if self.first.fix_time is None else self.first.fix_time.date()

    def of(self, system: System) -> list[Result]:
        """Return the runs of one system."""
        return [row for row in self.rows if row.system == system]


def write_dashboard(
    rows: Sequence[Result], out: Path, *, models: Mapping[str, ModelCutoff] | None = None
) -> Path:
    """Write the site into a folder of its own.

    Args:
        rows: At least one.
        out: The folder; one that has a dashboard is replaced as a whole.
        models: Knowledge cutoffs by model; a system without one has no gap and no line.

    Returns:
        Path of its first page.

    Raises:
        UserError: If there is no row, ``out`` holds something else than a dashboard, or it cannot
            be written.
    """
    if not rows:
        raise UserError("there is no result to show")
    if out.exists() and (foreign := _foreign(out)):
        raise UserError(
            f"{out} holds something else than a dashboard ({foreign}): name a new folder"
        )
    found = standings(rows, models or {})
    bugs = _bugs(rows)
    draft = out.with_name(f".{out.name}.{os.getpid()}.new")
    try:
        draft.mkdir(parents=True)
        _write_pages(draft, rows, found, bugs)
        shutil.rmtree(out, ignore_errors=True)
        draft.rename(out)
    except OSError as error:
        raise cannot_write(out, error) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return out / "index.html"


def _write_pages(
    folder: Path, rows: Sequence[Result], found: Sequence[Standing], bugs: Sequence[BugPage]
) -> None:
    """Write all files; unlike core's writes they don't wait for the disk: they are made again."""
    systems = [one.system for one in found]
    pages = _Pages(folder, systems=systems, bugs=bugs, rows=rows)
    cuts = [
        ("Crash type", slices(rows, systems, lambda row: [row.crash_type or "unknown"])),
        ("Subsystem", slices(rows, systems, lambda row: row.subsystems or ["unknown"])),
    ]
    pages.write(
        "index.html", "index", standings=found, months=_months(found), slices=cuts,
        calendar=_calendar(rows, systems),
    )  # fmt: skip
    pages.write("bugs.html", "bugs")
    (folder / "bugs").mkdir()
    for bug in bugs:
        pages.write(f"bugs/{bug.id}.html", "bug", bug=bug, root="../")
    (folder / "results.json").write_text(_as_data(found, rows), encoding="utf-8")
    style = files("icml.core.report").joinpath("templates/report.css").read_text("utf-8")
    own = (_TEMPLATES / "dashboard.css").read_text(encoding="utf-8")
    (folder / "style.css").write_text(style + own, encoding="utf-8")


def _foreign(folder: Path) -> str:
    """Name what is not ours to replace, a CNAME or a .git say; empty if there is nothing."""
    if not folder.is_dir() or folder.is_symlink():
        return str(folder)
    entries = {path.relative_to(folder).as_posix() for path in folder.glob("*")}
    entries |= {path.relative_to(folder).as_posix() for path in folder.glob("bugs/*")}
    pages = {name for name in entries if re.fullmatch(r"bugs/[\w-]+\.html", name)}
    others = sorted(entries - pages - _ENTRIES)
    if others or not entries:
        return others[0] if others else ""
    try:
        with (folder / "results.json").open(encoding="utf-8") as file:
            begun = file.read(200)
    except (OSError, UnicodeDecodeError):
        begun = ""
    return "" if begun.startswith(f'{{"format":"{FORMAT}"') else "results.json"


def _bugs(rows: Sequence[Result]) -> list[BugPage]:
    """Group by bug, the newest fix first."""
    found: dict[str, list[Result]] = {}
    for row in rows:
        found.setdefault(row.bug, []).append(row)
    pages = [
        BugPage(bug, own[0], next((r.report for r in own if r.report), ""), sorted(own, key=_order))
        for bug, own in found.items()
    ]
    return sorted(pages, key=lambda p: (p.fixed is None, -(p.fixed or date.min).toordinal(), p.id))


def _order(row: Result) -> tuple[Any, ...]:
    return (*row.system, row.run)


def _months(found: Sequence[Standing]) -> list[tuple[Standing, Markup, Markup]]:
    """Draw the months of each system on one common axis."""
    days = [month for one in found for month, *_ in one.months]
    if not days:
        return []

    def draw(one: Standing, size: Any) -> Markup:
        cutoff = None if one.cutoff is None else one.cutoff.cutoff
        return months_chart(
            one.months, first=min(days), last=max(days), cutoff=cutoff, size=size,
            label=f"{one.system.text}: shares of plausible and of equivalent patches by the month "
            f"of the fix, {len(one.months)} months; the table of months has the numbers",
        )  # fmt: skip

    return [(one, draw(one, WIDE), draw(one, NARROW)) for one in found if one.months]


def _calendar(rows: Sequence[Result], systems: Sequence[System]) -> list[Slice]:
    dated = [row for row in rows if row.fix_time is not None]
    return slices(dated, systems, lambda row: [f"{row.fix_time:%Y-%m}"], by_value=True)


def _as_data(found: Sequence[Standing], rows: Sequence[Result]) -> str:
    """Return all numbers of the pages and the rows without their long texts."""
    systems = [
        {
            **one.system._asdict(),
            "plausible": _rate_data(one.plausible),
            "equivalent": _rate_data(one.equivalent),
            "bugs_in_all": one.bugs,
            "pass_at_k": {str(k): v._asdict() for k, v in one.pass_at.items()},
            "cutoff": None if one.cutoff is None else one.cutoff.model_dump(mode="json"),
            "gaps_of_equivalent": [_gap_data(gap) for gap in one.gaps],
            "months": [
                [month.isoformat()[:7], _rate_data(rate), _rate_data(same)]
                for month, rate, same in one.months
            ],
        }
        for one in found
    ]
    compact = json.dumps(systems, separators=(",", ":"))
    lines = ",\n".join(as_json(row, without=("report", "diff")) for row in rows)
    return f'{{"format":"{FORMAT}",\n"systems":{compact},\n"rows":[\n{lines}\n]}}\n'


def _rate_data(rate: Rate) -> dict[str, float]:
    estimate, low, high = (round(value, 6) for value in rate.interval)
    return {"estimate": estimate, "low": low, "high": high, "bugs": rate.bugs, "runs": rate.runs}


def _gap_data(gap: Gap) -> dict[str, Any]:
    limits = None if gap.difference is None else [round(v, 6) for v in gap.difference]
    return {
        "grace_days": gap.grace_days,
        "estimate_low_high": limits,
        "before": None if gap.before is None else _rate_data(gap.before),
        "after": None if gap.after is None else _rate_data(gap.after),
        "shown": gap.shown,
        "refused": gap.refused,
    }


class _Pages:
    """Writes pages that share what all of them know."""

    def __init__(self, folder: Path, **common: object) -> None:
        self.folder, self.common = folder, common

    def write(self, name: str, template: str, *, root: str = "", **values: object) -> None:
        made = _environment().get_template(f"{template}.html.j2")
        text = made.render(**self.common, **values, root=root, page=template)
        (self.folder / name).write_text(text, encoding="utf-8")


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
    environment.filters |= {
        "percent": lambda share: f"{100 * share:.0f} %",
        "limits": lambda found: f"{100 * found.low:.0f}–{100 * found.high:.0f}",
        "points": lambda share: f"{100 * share:+.0f}".replace("-", "−"),
        "kind": lambda kind: _KINDS[kind][0],
        "tone": lambda kind: _KINDS[kind][1],
        "bar": interval_bar,
        "gap": gap_text,
        "plain": plain,
        "difflines": _diff_lines,
    }
    return environment


def plain(text: str) -> str:
    """Shorten a long text in its middle and replace what no page should hold: controls.

    Direction overrides could make a line read as another one.
    """
    if len(text) > _SHOWN_TEXT:
        left = len(text) - _SHOWN_TEXT
        head, tail = text[: _SHOWN_TEXT * 2 // 3], text[-_SHOWN_TEXT // 3 :]
        text = f"{head}\n[… {left} characters left out …]\n{tail}"
    return visible(text)


def _diff_lines(diff: str) -> list[tuple[str, str]]:
    """Return pairs of class and line."""
    names = {"+": "add", "-": "del", "@": "at"}
    return [(names.get(line[:1], ""), line) for line in plain(diff).rstrip().split("\n")]
