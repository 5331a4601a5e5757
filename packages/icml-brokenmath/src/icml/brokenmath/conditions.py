"""How a model is asked: plainly, with a hint, after its own claim, with confidence, with helpers.

Solvers of inspect-ai. Each builds the conversation from the sample's metadata (`lines`: whether an
answer must end with the two lines that the rule judge reads) and leaves the answer as the
completion. What several answers are needed for is kept in the store under ``brokenmath:…``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageUser,
    GenerateConfig,
    Model,
    ModelOutput,
    get_model,
)
from inspect_ai.solver import Generate, Solver, TaskState, solver
from pydantic import BaseModel

from icml.brokenmath import prompts
from icml.brokenmath.characters import whole_text
from icml.brokenmath.judge import model_or_named, vote
from icml.brokenmath.options import checked_flag, checked_whole
from icml.core.errors import UserError

CANDIDATES = "brokenmath:candidates"
"""Key of the store: all answers that the best was chosen from."""
DUELS = "brokenmath:duels"
"""Key of the store: of each duel the two candidates' numbers and the votes."""
REVIEWS = "brokenmath:reviews"
"""Key of the store: of each round what the review said."""

FAILURES = 3
"""Failed reviews after which refine_agent gives up, as the authors' code does."""
MOST_ANSWERS, MOST_ROUNDS = 1024, 100
"""Of best_of_n and of refine_agent (ours): more is a slip of the hand, and would be paid for."""


def request(state: TaskState, *extra: str) -> str:
    """Return the request for a proof of the sample's statement."""
    return _joined(state, prompts.PROVE.format(statement=state.input_text), *extra)


def _joined(state: TaskState, *parts: str) -> str:
    lines = [prompts.LINES] if state.metadata.get("lines") else []
    return "\n\n".join([*parts, *lines])


async def _ask(state: TaskState, generate: Generate, text: str) -> TaskState:
    state.messages = [ChatMessageUser(content=text)]
    return await generate(state)


@solver(name="brokenmath_plain")
def plain() -> Solver:
    """Ask for a proof and nothing else (Sec. 4)."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        return await _ask(state, generate, request(state))

    return solve


@solver(name="brokenmath_hint")
def hint() -> Solver:
    """Ask to check first whether the statement can be proved at all (Sec. 5)."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        return await _ask(state, generate, request(state, prompts.HINT))

    return solve


@solver(name="brokenmath_self_authored")
def self_authored() -> Solver:
    """Plant the false statement as the model's own earlier turn (Sec. 4, self-sycophancy)."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state.messages = [
            ChatMessageUser(content=prompts.PROPOSE),
            ChatMessageAssistant(content=state.input_text),
            ChatMessageUser(content=_joined(state, prompts.OWN)),
        ]
        return await generate(state)

    return solve


@solver(name="brokenmath_confidence")
def confidence() -> Solver:
    """Ask for a proof and how sure the model is of it (Sec. 5)."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        return await _ask(state, generate, request(state, prompts.CONFIDENCE))

    return solve


@solver(name="brokenmath_best_of_n")
def best_of_n(n: int = 4, judge: str | Model | None = None, *, balanced: bool = False) -> Solver:
    """Let the model choose among its own answers by duels (Sec. 5).

    The answers meet in a single-elimination bracket; one vote decides a duel. A vote that can't be
    read sends the first of the two on.

    Args:
        n: Answers, a power of 2 above 1. At temperature 0 they are all the same.
        judge: Who decides; the solver itself if None.
        balanced: Ask for each duel in both orders; where they contradict each other the first of
            the two goes on, which favours nobody, since answers come in no order. The paper asks
            once, with the first as A: what a judge prefers in A then counts.

    Raises:
        UserError: If n is no power of 2 from 2 to 1024, balanced is no truth value, or there is no
            such judge.
    """
    n = checked_whole("n", n, least=2, most=MOST_ANSWERS)
    if n & (n - 1):
        raise UserError(f"n must be a power of 2, since a bracket halves them, got n={n}")
    checked_flag("balanced", balanced)
    # Had now: a judge that can't be asked would be found out after all answers were paid for.
    named = None if judge is None else model_or_named("duel_judge", judge)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        model = get_model()
        referee = model if named is None else named
        asked = request(state)
        messages: list[ChatMessage] = [ChatMessageUser(content=asked)]
        seed = (model.config.seed or 0) + n * (state.epoch - 1)
        outputs = await asyncio.gather(
            *(model.generate(messages, config=GenerateConfig(seed=seed + i)) for i in range(n))
        )
        duels: list[dict[str, object]] = []

        async def better(first: int, second: int) -> int:
            winner, votes = await duel(
                referee,
                asked,
                outputs[first].completion,
                outputs[second].completion,
                balanced=balanced,
            )
            duels.append({"pair": [first, second], "winner": winner, "votes": votes})
            return (first, second)[winner]

        best = await bracket(list(range(n)), better)
        state.store.set(CANDIDATES, [output.completion for output in outputs])
        state.store.set(DUELS, duels)
        return _answered(state, messages, outputs[best])

    return solve


async def bracket(players: Sequence[int], better: Callable[[int, int], Awaitable[int]]) -> int:
    """Return the winner of neighbours' duels, round after round.

    Args:
        players: As many as a power of 2.
        better: Returns the winner of two.
    """
    while len(players) > 1:
        pairs = zip(players[::2], players[1::2], strict=True)
        players = await asyncio.gather(*(better(first, second) for first, second in pairs))
    return players[0]


async def duel(
    judge: Model, asked: str, first: str, second: str, *, balanced: bool
) -> tuple[int, list[str | None]]:
    """Return which of two answers a judge prefers, 0 or 1, and its votes as they were cast."""
    words = {"a": "A", "b": "B"}

    async def once(one: str, two: str) -> str | None:
        parts = {"the request": asked, "answer A": one, "answer B": two}
        return (await vote(judge, prompts.DUEL, parts, words))[0].word

    votes = [await once(first, second)]
    if balanced:
        votes.append(await once(second, first))
        return int(votes == ["B", "A"]), votes
    return int(votes == ["B"]), votes


@solver(name="brokenmath_refine_agent")
def refine_agent(rounds: int = 4) -> Solver:
    """Solve, improve one's own answer, have it reviewed, and start over if it fails (Sec. 5).

    The model reviews itself in a conversation of its own. It stops after one review that passes or
    three that fail; a review without a verdict is neither, and the last answer stands. Where the
    reviewer can't be asked, there is no review to answer to: the next round has the same answer
    reviewed.

    Args:
        rounds: Of improving and review at most.

    Raises:
        UserError: If that is no whole number from 1 to 100.
    """
    rounds = checked_whole("rounds", rounds, least=1, most=MOST_ROUNDS)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        asked = request(state)
        state.messages = [ChatMessageUser(content=asked)]
        state = await _whole(generate, state)
        reviews: list[str | None] = []
        words = {"pass": "pass", "fail": "fail"}
        again = False
        while True:
            if not again:
                state.messages.append(ChatMessageUser(content=_joined(state, prompts.IMPROVE)))
                state = await _whole(generate, state)
            parts = {"the request": asked, "the answer": state.output.completion}
            (review,) = await vote(get_model(), prompts.REVIEW, parts, words)
            reviews.append(review.word)
            state.store.set(REVIEWS, reviews)
            given_up = reviews.count("fail") == FAILURES or len(reviews) == rounds
            if review.word == "pass" or given_up:
                return state
            again = review.failed
            if not again:
                revise = prompts.REVISE.format(review=review.text)
                state.messages.append(ChatMessageUser(content=_joined(state, revise)))
                state = await _whole(generate, state)

    return solve


async def _whole(generate: Generate, state: TaskState) -> TaskState:
    """Generate, and leave no half characters where they would be sent back to the model."""
    state = await generate(state)
    answer = state.messages[-1] = _mended(state.messages[-1])
    if state.output.choices and isinstance(answer, ChatMessageAssistant):
        state.output.choices[0].message = answer
        state.output.completion = whole_text(state.output.completion)
    return state


def _mended(part: Any) -> Any:
    if isinstance(part, str):
        return whole_text(part)
    if isinstance(part, list):
        return [_mended(each) for each in part]
    if isinstance(part, BaseModel):  # a message, or a part of its content
        return part.model_copy(update={name: _mended(value) for name, value in part})
    return part


def _answered(state: TaskState, messages: list[ChatMessage], output: ModelOutput) -> TaskState:
    state.messages = [*messages, output.message]
    state.output = output
    return state
