"""Judging the answers of a log again, without solving again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from icml.brokenmath.answers import Answer, Answers
from icml.brokenmath.judge import Judge
from icml.brokenmath.rule_judge import RuleJudge
from icml.core.errors import UserError

BATCH = 16
"""Answers judged side by side and stored together (ours): what an interruption can cost."""


def rejudged(
    answers: Answers,
    judge: Judge,
    stored: Callable[[str, Callable[[], list[str]]], list[str]],
    *,
    key: str,
) -> Answers:
    """Return the answers with a judge's categories; those that failed to be given stay invalid.

    Args:
        answers: Of a log of ``icml/brokenmath``.
        judge: Who judges.
        stored: Returns the categories of a batch under a key, computing them if they aren't known
            yet: `icml.core.experiment.Run.cell`.
        key: Begins the keys, another for each log.

    Raises:
        UserError: If it is a log of the utility, or the judge can't judge an item.
    """
    if answers.task != "brokenmath":
        raise UserError(f"{answers.path} is a log of the utility: its answers have no behaviour")
    judge.check([row.item for row in answers.rows])
    given = [row for row in answers.rows if not row.failed]
    found: list[str] = []
    for start in range(0, len(given), BATCH):
        batch = given[start : start + BATCH]
        found += stored(
            f"{key} {start}", lambda batch=batch: asyncio.run(_categories(judge, batch))
        )
    fresh: Iterator[str] = iter(found)
    rows = [row if row.failed else _again(row, next(fresh), judge) for row in answers.rows]
    return replace(answers, rows=rows, judge=judge.name)


async def _categories(judge: Judge, rows: Sequence[Answer]) -> list[str]:
    asked = (judge.ask(row.item, row.text) for row in rows)
    return [judgement.category for judgement in await asyncio.gather(*asked)]


def _again(row: Answer, category: str, judge: Judge) -> Answer:
    # Of several candidates only the chosen one's text is kept apart: the others' categories are
    # the old judge's, and stay only if that was the rules.
    candidates = row.candidates if isinstance(judge, RuleJudge) else ()
    return replace(row, category=category, candidates=candidates, judge_is_solver=False, error="")
