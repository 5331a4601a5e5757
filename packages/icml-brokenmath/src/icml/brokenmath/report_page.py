"""The report of logs as a run: tables in the terminal, a page, and answers judged again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icml.brokenmath import report as tables
from icml.brokenmath.answers import Answers
from icml.brokenmath.categories import BEHAVIOURS, MEANING
from icml.brokenmath.judge import Judge
from icml.brokenmath.labels import Labels
from icml.brokenmath.log_files import Logs
from icml.brokenmath.rejudge import rejudged
from icml.core.errors import UserError
from icml.core.experiment import Run
from icml.core.folder import config_json
from icml.core.plots import Arm, Bar, Estimate, bars, intervals
from icml.core.report import write_report

TITLE = "Does a model prove what is false?"


@dataclass(frozen=True)
class ReportConfig:
    """What determines a report."""

    logs: list[dict[str, str]]
    """Names and digests."""
    rejudge: str
    """Name of the judge that judged again; empty: the logs' own."""
    votes: int
    """Of a model that judged again; 0: none did."""
    tie_rule: str
    """Of the same; empty: none did."""
    labels: str
    """Digest of the labels; empty: none."""


def build_report(
    given: Logs,
    config: ReportConfig,
    *,
    judge: Judge | None = None,
    labels: Labels | None = None,
    out: Path | None = None,
    fresh: bool = False,
) -> tuple[Path, list[str]]:
    """Write the page of some logs.

    Args:
        given: The logs.
        config: What determines the report.
        judge: Judges the answers again; None keeps the logs' categories.
        labels: People's labels; given, the judge's errors are corrected for.
        out: Folder of the report.
        fresh: Move away what is there.

    Returns:
        The page and the main table as lines.

    Raises:
        UserError: If an answer has no score and isn't judged again, there is nothing to judge
            again, the labels don't fit, or the folder holds another report.
    """
    logs = [log for log in given.logs if log.task == "brokenmath"]
    utility = [log for log in given.logs if log.task != "brokenmath"]
    if judge is not None and not logs:
        raise UserError("only answers to false statements are judged again: give a log of them")
    for log in utility if judge is not None else given.logs:
        log.check_scored()
    if labels is not None:
        labels.pairs(logs)  # before a judge is asked
    fresh = fresh or (judge is None and out is not None and _only_counts(out, config))
    with Run.open("brokenmath", config, size="report", title=TITLE, out=out, fresh=fresh) as run:
        if judge is not None:
            keys = _keys(logs)
            logs = [rejudged(log, judge, run.cell, key=keys[log.digest]) for log in logs]
        for reason in given.left_out:
            run.note(f"Left out: {reason}.")
        _fill(run, logs, utility, labels)
        run.finish()
        page = write_report(run.dir)
    return page, [*_lines(logs, utility), *(f"left out: {each}" for each in given.left_out)]


def _only_counts(out: Path, config: ReportConfig) -> bool:
    """Whether a folder holds a report of other logs for which nobody judged again.

    Nothing in it was paid for, so that it needn't be asked for before it is moved away.
    """
    try:
        before = json.loads((out / "config.json").read_text(encoding="utf-8"))
        found = before["config"]
        kind = (before["paper"], before["size"], found["rejudge"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return kind == ("brokenmath", "report", "") and found != config_json(config)


def _keys(logs: Sequence[Answers]) -> dict[str, str]:
    """Return by which name each log's verdicts are stored, by its digest: no two have one."""
    names = Counter(log.path.name for log in logs)
    return {
        log.digest: log.path.name
        if names[log.path.name] == 1
        else f"{log.path.name} {log.digest[:16]}"
        for log in logs
    }


def _fill(run: Run, logs: list[Answers], utility: list[Answers], labels: Labels | None) -> None:
    found: list[tuple[str, list[tables.Row], str]] = []
    if logs:
        meaning = "; ".join(f"{name}: {MEANING[name]}" for name in BEHAVIOURS)
        found += [
            ("behaviours", tables.behaviour_rows(logs), f"Shares of n, Wilson 95 %. {meaning}."),
            (
                "competitions",
                tables.group_rows(logs, "competition", lambda item: item.competition or "-"),
                "By competition; intervals are each at 95 %, for their own n.",
            ),
            (
                "kinds",
                tables.group_rows(logs, "kind", lambda item: item.kind or "-"),
                "By how the statement was made false; of verified items by family.",
            ),
            (
                "types",
                tables.group_rows(logs, "type", lambda item: item.question_type or "-"),
                "By type of question.",
            ),
            ("several answers", tables.several_rows(logs), "Several answers to an item."),
            ("confidence", tables.confidence_rows(logs), "Stated confidence against behaviour."),
            (
                "solved",
                tables.solved_rows(logs, utility),
                "By whether the same model solves the original.",
            ),
        ]
        if labels is not None:
            found.append(
                (
                    "corrected",
                    tables.corrected_rows(logs, labels),
                    "Rates corrected for the judge's errors, both sets resampled.",
                )
            )
        _draw(run, logs)
    if utility:
        found.append(("utility", tables.utility_rows(utility), "Original problems solved."))
    for name, rows, caption in found:
        if rows:
            run.table(name, rows, caption=caption)
    for note in tables.notes([*logs, *utility]):
        run.note(note)


def _named(logs: Sequence[Answers]) -> list[tuple[str, Answers]]:
    """Return the logs with labels that differ."""
    seen: dict[str, int] = {}
    found = []
    for log in logs:
        seen[log.label] = seen.get(log.label, 0) + 1
        again = f" ({seen[log.label]})" if seen[log.label] > 1 else ""
        found.append((log.label + again, log))
    return found


def _draw(run: Run, logs: Sequence[Answers]) -> None:
    shares, points = [], []
    for label, log in _named(logs):
        table = tables.rates(log.categories)
        if table.sycophancy is None:
            continue
        shares += [Bar(name, table.rates[name].estimate, label) for name in BEHAVIOURS]
        points.append(Estimate("sycophant", *table.sycophancy, label))
    if not shares:
        return
    roles = ("ours", "other", "other", "baseline")
    arms = [Arm(name, role, name) for name, role in zip(BEHAVIOURS, roles, strict=True)]
    run.figure(
        "behaviours",
        bars(shares, title="What the answers do", arms=arms, x_label="share of the valid answers"),
        caption="Behaviours of the answers that could be judged.",
    )
    run.figure(
        "sycophancy",
        intervals(
            points,
            title="How often a false statement is proved",
            arms=[Arm("sycophant", "ours", "sycophant")],
            x_label="sycophancy (share)",
            note="Wilson 95 %",
        ),
        caption="Sycophancy of each log.",
    )


def _lines(logs: Sequence[Answers], utility: Sequence[Answers]) -> list[str]:
    lines = []
    for label, log in _named(logs):
        row = tables.rate_row(tables.rates(log.categories), missing=log.missing)
        lines.append(f"{label}, judge {log.judge}: {_share(row, 'sycophant')}, {_counted(row)}")
        shares = ", ".join(f"{name} {_percent(row[name])}" for name in BEHAVIOURS[:-1])
        lines.append(f"  {shares}")
    for (label, _), row in zip(_named(utility), tables.utility_rows(utility), strict=True):
        lines.append(f"{label}, judge {row['judge']}: {_share(row, 'utility')}, {_counted(row)}")
    return lines + [f"note: {note}" for note in tables.notes([*logs, *utility])]


def _counted(row: tables.Row) -> str:
    return f"n = {row['n']}, invalid {row['invalid']}, missing {row['missing']}"


def _percent(value: Any) -> str:
    return "-" if value is None else f"{value:.1%}"


def _share(row: tables.Row, name: str) -> str:
    low, high = _percent(row[f"{name} low"]), _percent(row[f"{name} high"])
    return f"{name} {_percent(row[name])} [{low}, {high}]"
