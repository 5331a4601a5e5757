"""The tasks ``icml/brokenmath`` and ``icml/brokenmath_utility`` of inspect-ai.

::

    inspect eval icml/brokenmath --model openai/… -T condition=hint
    inspect eval icml/brokenmath --model openai/… -T items=mine.jsonl -T judge=openai/… -T votes=3
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageUser, Model
from inspect_ai.solver import Generate, Solver, TaskState, solver

from icml.brokenmath import conditions, prompts
from icml.brokenmath.items import Item, load_items
from icml.brokenmath.judge import Judge, judge_named
from icml.brokenmath.options import checked_text, checked_word
from icml.brokenmath.rule_judge import RuleJudge
from icml.brokenmath.scoring import brokenmath_behaviour, brokenmath_solved
from icml.brokenmath.utility import check_final_answers
from icml.core.chat.refusals import in_a_sentence
from icml.core.errors import UserError
from icml.core.votes import TieRule

Condition = Literal["plain", "hint", "self_authored", "confidence", "best_of_n", "refine_agent"]

_OPTIONS = {"n": "best_of_n", "duel_judge": "best_of_n", "balanced": "best_of_n"}
_OPTIONS |= {"rounds": "refine_agent"}


def condition_solver(condition: Condition, **options: Any) -> Solver:
    """Return the solver of a condition.

    Args:
        condition: Its name.
        **options: ``n``, ``duel_judge`` and ``balanced`` of best_of_n, ``rounds`` of refine_agent;
            those that are None keep their defaults.

    Raises:
        UserError: If the condition is unknown, or doesn't have an option that is given.
    """
    checked_word("condition", condition, get_args(Condition))
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if _OPTIONS[name] != condition:
            raise UserError(f"{name} belongs to condition={_OPTIONS[name]}, got {condition!r}")
    if "duel_judge" in given:
        given["judge"] = given.pop("duel_judge")
    make: Callable[..., Solver] = getattr(conditions, condition)
    return make(**given)


def sample(item: Item, text: str, *, lines: bool) -> Sample:
    """Return what a model gets of an item: a text; the rest is for the judge.

    Args:
        item: The item.
        text: Its false statement, or the original.
        lines: Whether the answer must end with the lines that the rule judge reads.
    """
    facts = {
        "item": item.model_dump(mode="json"),
        "lines": lines,
        "competition": item.competition,
        "question_type": item.question_type,
        "kind": item.kind,
    }
    return Sample(id=item.id, input=text, metadata=facts)


def brokenmath_task(
    items: Sequence[Item],
    *,
    condition: Condition = "plain",
    judge: str | Model = "rule",
    votes: int | None = None,
    tie_rule: TieRule | None = None,
    seed: int | None = None,
    n: int | None = None,
    duel_judge: str | Model | None = None,
    balanced: bool | None = None,
    rounds: int | None = None,
) -> Task:
    """Return the task for items of one's own; see `brokenmath`.

    Raises:
        UserError: If there are no items, an option makes no sense, an item's statement is true, or
            the judge can't judge one of them.
    """
    asked = _judge(items, judge, votes, tie_rule, seed)
    for item in items:
        if item.truth:
            raise UserError(f"the statement of {item.id} is true: there is nothing to disprove")
    answered = condition_solver(
        condition, n=n, duel_judge=duel_judge, balanced=balanced, rounds=rounds
    )
    lines = isinstance(asked, RuleJudge)
    samples = [sample(item, item.statement, lines=lines) for item in items]
    return Task(
        dataset=MemoryDataset(samples, name="brokenmath"),
        solver=answered,
        scorer=brokenmath_behaviour(judge, votes, tie_rule, seed),
        name="brokenmath",
        version=1,
        metadata={"condition": condition, "judge": asked.name},
    )


def _judge(
    items: Sequence[Item],
    judge: str | Model,
    votes: int | None,
    tie_rule: TieRule | None,
    seed: int | None,
) -> Judge:
    if not items:
        raise UserError("the task needs at least one item")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\d+ votes can tie", UserWarning)  # the scorer says it
        asked = judge_named(judge, votes=votes, tie_rule=tie_rule, seed=seed)
    asked.check(items)
    return asked


def _items(items: object, revision: object) -> list[Item]:
    """Load items as a command line names them: what looks like a number arrives as one.

    YAML makes a mapping of ``hf:`` alone, and of ``hf: NAME``.
    """
    if isinstance(items, dict) and list(items) == ["hf"]:
        items = f"hf:{'' if items['hf'] is None else items['hf']}"
    source = checked_text("items", items, "verified, the path of a file, or hf:NAME")
    if isinstance(revision, int) and not isinstance(revision, bool):
        revision = str(revision)
    if revision is not None:
        revision = checked_text("revision", revision, "a commit of 40 hex digits")
    return load_items(source, revision=revision)


@task
def brokenmath(
    *,
    condition: Condition = "plain",
    judge: str = "rule",
    votes: int | None = None,
    tie_rule: TieRule | None = None,
    items: str = "verified",
    revision: str | None = None,
    seed: int | None = None,
    n: int | None = None,
    duel_judge: str | None = None,
    balanced: bool | None = None,
    rounds: int | None = None,
) -> Task:
    """Ask for proofs of false statements (Sec. 3 to 5).

    Args:
        condition: plain, hint, self_authored, confidence, best_of_n or refine_agent.
        judge: rule (verified items alone), or a model that votes, such as openai/gpt-5-mini.
        votes: Of a judging model, 3 by default.
        tie_rule: Of a judging model: first by default, or worst.
        items: verified, a file of items, or hf:… with a revision.
        revision: Of a data set on the hub.
        seed: Of a judging model, 0 by default.
        n: Answers of best_of_n, 4 by default.
        duel_judge: Who chooses in best_of_n; the solver itself by default.
        balanced: Whether best_of_n asks for each duel in both orders.
        rounds: Of refine_agent, 4 by default.
    """
    with in_a_sentence():
        return brokenmath_task(
            _items(items, revision),
            condition=condition,
            judge=judge,
            votes=votes,
            tie_rule=tie_rule,
            seed=seed,
            n=n,
            duel_judge=duel_judge,
            balanced=balanced,
            rounds=rounds,
        )


@solver(name="brokenmath_original")
def original() -> Solver:
    """Ask for the original problem: a proof, or a final answer."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        if state.metadata["question_type"] == "proof":
            text = conditions.request(state)
        else:
            text = prompts.SOLVE.format(problem=state.input_text)
        state.messages = [ChatMessageUser(content=text)]
        return await generate(state)

    return solve


def utility_task(
    items: Sequence[Item],
    *,
    judge: str | Model = "rule",
    votes: int | None = None,
    tie_rule: TieRule | None = None,
    seed: int | None = None,
) -> Task:
    """Return the task of the original problems; see `brokenmath_utility`.

    Raises:
        UserError: As in `brokenmath_task`, or if the final answer of a problem isn't known.
    """
    asked = _judge(items, judge, votes, tie_rule, seed)
    check_final_answers(items)
    lines = isinstance(asked, RuleJudge)
    samples = [sample(item, item.original, lines=lines) for item in items]
    return Task(
        dataset=MemoryDataset(samples, name="brokenmath_utility"),
        solver=original(),
        scorer=brokenmath_solved(judge, votes, tie_rule, seed),
        name="brokenmath_utility",
        version=1,
        metadata={"condition": "original", "judge": asked.name},
    )


@task
def brokenmath_utility(
    *,
    judge: str = "rule",
    votes: int | None = None,
    tie_rule: TieRule | None = None,
    items: str = "verified",
    revision: str | None = None,
    seed: int | None = None,
) -> Task:
    """Ask for the original, true problems (Sec. 3): what refusing everything would cost.

    Args:
        judge: rule (verified items alone), or a model that grades proofs.
        votes: Of a judging model, 3 by default.
        tie_rule: Of a judging model: first by default, or worst.
        items: verified, a file of items, or hf:… with a revision.
        revision: Of a data set on the hub.
        seed: Of a judging model, 0 by default.
    """
    with in_a_sentence():
        return utility_task(
            _items(items, revision),
            judge=judge,
            votes=votes,
            tie_rule=tie_rule,
            seed=seed,
        )
