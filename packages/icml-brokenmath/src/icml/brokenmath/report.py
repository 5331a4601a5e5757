"""Tables and a page from logs: rates, groups, several answers, confidence, the judge's errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from icml.brokenmath.answers import Answers
from icml.brokenmath.best_of import fit_beta_binomial, pass_at_n
from icml.brokenmath.categories import BEHAVIOURS
from icml.brokenmath.confidence import confidence_worth
from icml.brokenmath.judge_error import confusion_counts, correct_for_judge
from icml.brokenmath.labels import Labels
from icml.brokenmath.metrics import RateTable, clustered_sycophancy, grouped_rates, rates
from icml.core.stats import wilson

Row = dict[str, Any]
SEED = 0
"""Of the bootstraps; a report is the same each time."""


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

    Args:
        logs: The one that the labels are of.
        labels: Of some of its answers.

    Raises:
        UserError: As in `Labels.pairs`.
    """
    pairs = labels.pairs(logs)
    (log,) = logs
    calibration = confusion_counts(*zip(*pairs, strict=True))
    found = correct_for_judge(rates(log.categories).counts, calibration, seed=SEED)
    rows: list[Row] = []
    for name in BEHAVIOURS:
        row: Row = {"log": log.label, "behaviour": name, "labels": int(calibration.sum())}
        row["apparent"] = found.apparent[name]
        interval = found.corrected[name] if found.corrected else (None, None, None)
        row |= dict(zip(("corrected", "corrected low", "corrected high"), interval, strict=True))
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
            found.append(f"{log.label}: {log.missing_note()}.")
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
