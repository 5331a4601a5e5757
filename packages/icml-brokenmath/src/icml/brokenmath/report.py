"""Tables and a page from logs: rates, groups, several answers, confidence, the judge's errors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icml.brokenmath.answers import Answers, read_answers
from icml.brokenmath.best_of import fit_beta_binomial, pass_at_n
from icml.brokenmath.categories import BEHAVIOURS, checked
from icml.brokenmath.confidence import confidence_worth
from icml.brokenmath.judge_error import confusion_counts, correct_for_judge
from icml.brokenmath.metrics import RateTable, clustered_sycophancy, grouped_rates, rates
from icml.core.errors import UserError
from icml.core.stats import wilson

Row = dict[str, Any]
SEED = 0
"""Of the bootstraps; a report is the same each time."""


@dataclass(frozen=True)
class Labels:
    """What people say of some answers: from (item's id, epoch) to a behaviour."""

    by_answer: Mapping[tuple[str, int], str]

    @classmethod
    def read(cls, path: Path) -> Labels:
        """Read lines ``{"id": …, "epoch": 1, "category": …}``; the epoch may be left out.

        Raises:
            UserError: If the file can't be read, a line is no such label, or says it twice.
        """
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"cannot read the labels {path}: {error}") from error
        found: dict[tuple[str, int], str] = {}
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                entry = json.loads(line)
                key = (str(entry["id"]), int(entry.get("epoch", 1)))
                (category,) = checked([entry["category"]])
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise UserError(f"line {number} of {path} is no label: {error}") from error
            if key in found or category == "invalid":
                raise UserError(f"line {number} of {path}: one behaviour an answer, got {line}")
            found[key] = category
        if not found:
            raise UserError(f"{path} holds no label")
        return cls(found)


def rate_row(table: RateTable, *, missing: int = 0) -> Row:
    """Return a row of a table of rates; None where no answer could be judged."""
    row: Row = {"n": table.n, "invalid": table.invalid, "missing": missing}
    estimate, low, high = table.sycophancy or (None, None, None)
    row |= {"sycophant": estimate, "sycophant low": low, "sycophant high": high}
    for name in BEHAVIOURS[:-1]:
        row[name] = table.rates[name].estimate if name in table.rates else None
    row |= {"if all invalid": table.bounds[1], "if none": table.bounds[0]}
    return row


def behaviour_rows(logs: Sequence[Answers]) -> list[Row]:
    """Return a row for each log."""
    return [
        {"model": log.model, "condition": log.condition, "judge": log.judge}
        | rate_row(rates(log.categories), missing=log.missing)
        for log in logs
    ]


def group_rows(logs: Sequence[Answers], name: str, group: Callable[[Any], str]) -> list[Row]:
    """Return a row for each group of items in each log; every one shows its n."""
    rows: list[Row] = []
    for log in logs:
        found = grouped_rates(log.categories, [group(row.item) for row in log.rows])
        for key, table in found.items():
            row = {"log": log.label, name: key} | rate_row(table)
            rows.append({k: v for k, v in row.items() if k != "missing"})
    return rows


def solved_rows(logs: Sequence[Answers], utility: Sequence[Answers]) -> list[Row]:
    """Return sycophancy where the same model solves the original, and where it does not."""
    rows: list[Row] = []
    for log in logs:
        solved = {
            row.item.id: row.category
            for other in utility
            if other.model == log.model
            for row in other.rows
            if row.epoch == 1
        }
        if solved:
            names = [solved.get(row.item.id, "not asked") for row in log.rows]
            for key, table in grouped_rates(log.categories, names).items():
                row = {"log": log.label, "original": key} | rate_row(table)
                rows.append({k: v for k, v in row.items() if k != "missing"})
    return rows


def utility_rows(utility: Sequence[Answers]) -> list[Row]:
    """Return the share of originals that each log solves."""
    rows: list[Row] = []
    for log in utility:
        right, wrong = (log.categories.count(name) for name in ("correct", "incorrect"))
        n = right + wrong
        estimate, low, high = wilson(right, n) if n else (None, None, None)
        row: Row = {"model": log.model, "judge": log.judge, "n": n, "invalid": len(log.rows) - n}
        row |= {"missing": log.missing, "utility": estimate, "utility low": low}
        rows.append(row | {"utility high": high})
    return rows


def several_rows(logs: Sequence[Answers]) -> list[Row]:
    """Return what several answers to an item say: the bound of the best, and how alike they are.

    The answers are the epochs of an item, or the candidates of a best-of-n whose rules judged all.
    """
    rows: list[Row] = []
    for log in logs:
        sets = []
        for answers in log.by_problem().values():
            each = [c for a in answers for c in (a.candidates or (a.category,))]
            sets.append([category for category in each if category != "invalid"])
        sets = [each for each in sets if each]
        if not sets or max(map(len, sets)) < 2:
            continue
        size = max(map(len, sets))
        full = [each for each in sets if len(each) == size]
        hits, totals = [each.count("sycophant") for each in sets], [len(each) for each in sets]
        flat = [(number, category) for number, each in enumerate(sets) for category in each]
        single = (
            clustered_sycophancy([c for _, c in flat], [n for n, _ in flat], seed=SEED)
            if len(sets) > 1
            else (None, None, None)
        )
        alike = fit_beta_binomial(hits, totals) if 0 < sum(hits) < sum(totals) else None
        row: Row = {"log": log.label, "items": len(sets), "answers": size}
        row |= {"one": single[0], "one low": single[1], "one high": single[2]}
        row["all of them"] = pass_at_n(
            [e.count("sycophant") for e in full], [size] * len(full), size
        )
        row["items with all answers valid"] = len(full)
        row["correlation"] = alike.correlation if alike else None
        row["all, if independent"] = single[0] ** size if single[0] is not None else None
        rows.append(row)
    return rows


def confidence_rows(logs: Sequence[Answers]) -> list[Row]:
    """Return what stated confidence is worth in each log that asked for it."""
    rows: list[Row] = []
    for log in logs:
        if log.condition == "confidence":
            worth = confidence_worth(log.categories, [row.confidence for row in log.rows])
            row: Row = {"log": log.label, "n": worth.n, "left out": worth.left_out}
            rows.append(row | {"AUROC": worth.auroc, "calibration error": worth.ece})
    return rows


def corrected_rows(logs: Sequence[Answers], labels: Labels) -> list[Row]:
    """Return apparent and corrected rates, the judge's errors taken from people's labels.

    Raises:
        UserError: If no answer of a log has a label.
    """
    rows: list[Row] = []
    for log in logs:
        pairs = [
            (labels.by_answer[row.item.id, row.epoch], row.category)
            for row in log.rows
            if (row.item.id, row.epoch) in labels.by_answer
        ]
        if not pairs:
            raise UserError(f"no answer of {log.path} has a label")
        calibration = confusion_counts(*zip(*pairs, strict=True))
        found = correct_for_judge(rates(log.categories).counts, calibration, seed=SEED)
        for name in BEHAVIOURS:
            row: Row = {"log": log.label, "behaviour": name, "labels": int(calibration.sum())}
            row["apparent"] = found.apparent[name]
            interval = found.corrected[name] if found.corrected else (None, None, None)
            row |= dict(
                zip(("corrected", "corrected low", "corrected high"), interval, strict=True)
            )
            rows.append(row | {"condition number": found.condition, "note": found.reason})
    return rows


def notes(logs: Sequence[Answers]) -> list[str]:
    """Return what a reader must know of these logs."""
    found: list[str] = []
    for log in logs:
        failed = sum(bool(row.error) for row in log.rows)
        if failed:
            found.append(f"{log.label}: {failed} samples failed and count as invalid.")
        if log.missing:
            found.append(f"{log.label}: {log.missing} samples are missing: the eval was stopped.")
        if any(row.judge_is_solver for row in log.rows):
            found.append(f"{log.label}: the model judged its own answers.")
        if log.judge == "rule":
            found.append(
                f"{log.label}: the rule judge reads lines that the request asks for, and naming "
                "`disproved` in a request is a hint: its rates are not those of a free answer."
            )
    sizes = {len(log.rows) + log.missing for log in logs if log.task == "brokenmath"}
    if len(sizes) > 1:
        found.append("The logs have different numbers of answers: compare pairs them by item.")
    return found


def log_files(paths: Sequence[Path]) -> list[Path]:
    """Return logs: files as they are given, and of a folder all ``.eval`` files, by name.

    Raises:
        UserError: If a folder holds none.
    """
    found: list[Path] = []
    for path in paths:
        inside = sorted(path.glob("*.eval")) if path.is_dir() else [path]
        if not inside:
            raise UserError(f"the folder {path} holds no .eval log")
        found += inside
    return found


def log_facts(paths: Sequence[Path]) -> list[dict[str, str]]:
    """Return names and digests of logs, which determine a report.

    Raises:
        UserError: If one can't be read.
    """
    found = []
    for path in paths:
        try:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise UserError(f"cannot read the log {path}: {error.strerror}") from error
        found.append({"name": path.name, "sha256": digest})
    return found


def read_logs(paths: Sequence[Path]) -> tuple[list[Answers], list[Answers]]:
    """Return the logs of behaviours and those of the utility.

    Raises:
        UserError: If one can't be read or is given twice.
    """
    if len({path.resolve() for path in paths}) < len(paths):
        raise UserError("a log is given twice")
    logs = [read_answers(path) for path in paths]
    return (
        [log for log in logs if log.task == "brokenmath"],
        [log for log in logs if log.task != "brokenmath"],
    )
