"""Utility: does a model solve the original problems (Sec. 3)?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from icml.brokenmath.judge import LLMJudge, vote
from icml.brokenmath.prompts import GRADER
from icml.brokenmath.rule_judge import read_answer, same_answer
from icml.core.errors import UserError
from icml.core.votes import majority

if TYPE_CHECKING:
    from icml.brokenmath.items import Item

Solved = Literal["correct", "incorrect", "invalid"]
_WORDS: dict[str, Solved] = {"correct": "correct", "incorrect": "incorrect"}


def check_final_answers(items: Sequence[Item]) -> None:
    """Refuse problems whose answers nobody can compare: all would be wrong.

    Raises:
        UserError: If one that isn't a proof has no answer; it says how many.
    """
    bare = [
        item.id
        for item in items
        if item.question_type != "proof" and not (item.answer or "").strip()
    ]
    if bare:
        raise UserError(
            f"{len(bare)} of {len(items)} items ask for a final answer and have none to compare "
            f"with, the first is {bare[0]}: add the answers, or leave these items out"
        )


def rule_utility(item: Item, text: str) -> Solved:
    """Grade an answer to the original problem without a model.

    A proof counts by its line ``verdict:`` (the original is true, so ``proved`` is right), a final
    answer by its line ``answer:`` against the item's; without the line it is invalid.
    """
    said = read_answer(text)
    if item.question_type == "proof":
        if said.verdict is None:
            return "invalid"
        return "correct" if said.verdict == "proved" else "incorrect"
    if said.repair is None:
        return "invalid"
    return "correct" if same_answer(said.repair, item.answer or "") else "incorrect"


async def voted_utility(
    judge: LLMJudge, item: Item, text: str
) -> tuple[Solved, list[str | None], list[str]]:
    """Grade a proof of the original problem by a model's votes; all abstentions are invalid.

    Raises:
        UserError: If the item has no solution.
    """
    judge.check([item])
    parts = {
        "the problem": item.original,
        "the solution": item.solution or "",
        "the answer": text,
    }
    found = await vote(judge.model, GRADER, parts, dict(_WORDS), judge.votes, seed=judge.seed)
    votes = [None if v.word is None else _WORDS[v.word] for v in found]
    order: list[Solved] = ["incorrect", "correct"]
    winner = majority(votes, tie_rule=judge.tie_rule, order=order)
    return winner or "invalid", list(votes), [v.text for v in found]
