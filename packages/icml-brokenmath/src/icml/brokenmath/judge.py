"""Judges: a model that votes, and (for verified items) rules."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from icml.brokenmath.categories import Behaviour, majority
from icml.brokenmath.characters import whole_text
from icml.brokenmath.options import SEEDS, checked_text, checked_whole, checked_word
from icml.brokenmath.prompts import JUDGE, fenced
from icml.brokenmath.rule_judge import Judgement, RuleJudge
from icml.brokenmath.verdicts import WORDS, parse_word
from icml.core.chat import error_text, model_named
from icml.core.errors import UserError, require
from icml.core.votes import TieRule

if TYPE_CHECKING:
    from inspect_ai.model import Model

    from icml.brokenmath.items import Item

__all__ = [
    "Judge",
    "LLMJudge",
    "Vote",
    "judge_model",
    "judge_named",
    "model_or_named",
    "vote",
]

EXTRA = "icml-brokenmath[inspect]"
VOTES = 3
"""Calls of the judge for an answer (Sec. 3)."""
MOST_VOTES = 100
"""For an answer (ours): more is a slip of the hand, and would be paid for."""


class LLMJudge:
    """A chat model that votes (Sec. 3); a vote that can't be had abstains."""

    def __init__(
        self, model: Model, *, votes: int = VOTES, tie_rule: TieRule = "first", seed: int = 0
    ) -> None:
        """Take a model of inspect-ai: `judge_model` returns one by name.

        Args:
            model: The judge.
            votes: For each answer; an even number warns, since ties are likelier.
            tie_rule: See `majority`.
            seed: Of the votes and of the code that fences what is judged.

        Raises:
            UserError: If an option has no such type or value.
        """
        self.model = model
        self.votes = checked_whole("votes", votes, least=1, most=MOST_VOTES)
        self.tie_rule: TieRule = checked_word("tie_rule", tie_rule, get_args(TieRule))
        self.seed = checked_whole("seed", seed, least=0, most=SEEDS - 1)
        if self.votes % 2 == 0:
            warnings.warn(f"{self.votes} votes can tie: take an odd number", stacklevel=2)

    @property
    def name(self) -> str:
        """The model's name."""
        return str(self.model)

    def check(self, items: Sequence[Item]) -> None:
        """Refuse items that a judge can't judge.

        Raises:
            UserError: If one has no reference solution: a judge would guess.
        """
        for item in items:
            if not item.solution or not item.solution.strip():
                raise UserError(
                    f"{item.id} has no reference solution, without which a model can't judge an "
                    "answer to it: leave it out or add one"
                )

    async def ask(self, item: Item, text: str) -> Judgement:
        """Judge one answer: votes side by side, each with a seed of its own.

        Args:
            item: With a reference solution.
            text: The solver's answer; nothing of it is trusted.

        Raises:
            UserError: If the item has no solution.
        """
        self.check([item])
        parts = {
            "the false statement": item.statement,
            "the true statement": item.original,
            "the solution": item.solution or "",
            "the answer": text,
        }
        found = await vote(self.model, JUDGE, parts, dict(WORDS), self.votes, seed=self.seed)
        votes: list[Behaviour | None] = [None if v.word is None else WORDS[v.word] for v in found]
        category = majority(votes, tie_rule=self.tie_rule)
        return Judgement(category, list(votes), [v.text for v in found])


Judge = RuleJudge | LLMJudge


class Vote(NamedTuple):
    """What came of asking a judge once."""

    word: str | None
    """What was said; None abstains."""
    text: str
    """All that the judge wrote, or why it wrote nothing."""
    failed: bool = False
    """Whether the judge could not be asked: the text is no judge's."""


async def vote(
    model: Model,
    system: str,
    parts: Mapping[str, str],
    words: dict[str, str],
    votes: int = 1,
    *,
    seed: int = 0,
) -> list[Vote]:
    """Ask a model for verdicts on untrusted texts; a failure of the model is an abstention.

    Args:
        model: Asked.
        system: Instructions, see `icml.brokenmath.prompts`.
        parts: The texts by their names.
        words: From words that may be boxed to what they mean.
        votes: How many.
        seed: Of the first vote and of the fences' code.

    Raises:
        UserError: If a script of the model is wrong.
    """
    from inspect_ai.model import (
        ChatMessage,
        ChatMessageSystem,
        ChatMessageUser,
        GenerateConfig,
    )
    from inspect_ai.util import LimitExceededError

    told, given, marker = fenced(system, parts, seed=seed)

    async def one(number: int) -> Vote:
        messages: list[ChatMessage] = [
            ChatMessageSystem(content=told),
            ChatMessageUser(content=given),
        ]
        try:
            output = await model.generate(messages, config=GenerateConfig(seed=seed + number))
        except (UserError, LimitExceededError):  # a sample's limit ends the sample
            raise
        except Exception as error:  # whatever a model's client raises is an abstention
            return Vote(None, f"no vote: {type(error).__name__}: {error_text(error)}", failed=True)
        said = whole_text(output.completion)
        return Vote(parse_word(said, words, marker), said)

    return list(await asyncio.gather(*(one(number) for number in range(votes))))


def judge_model(name: str, *, role: str = "judge") -> Model:
    """Return a model of inspect-ai for a judge, for example ``openai/gpt-5-mini``.

    Args:
        name: As on inspect's command line.
        role: What it is wanted for, for the message.

    Raises:
        MissingExtra: If inspect-ai is not installed.
        UserError: If there is no such model or its client is missing.
    """
    return model_named(name, role=role, extra=EXTRA)


def model_or_named(option: str, value: str | Model) -> Model:
    """Return the model that an option gives or names.

    Args:
        option: Its name, for the message.
        value: A model of inspect-ai or its name.

    Raises:
        MissingExtra: If inspect-ai is not installed.
        UserError: If it is neither, there is no such model, or its client is missing.
    """
    from_outside: Any = require("inspect_ai.model", extra=EXTRA)
    if isinstance(value, from_outside.Model):
        return value
    wanted = "rule, or a model such as openai/gpt-5-mini"
    if option != "judge":
        wanted = wanted.removeprefix("rule, or ")
    return judge_model(checked_text(option, value, wanted), role=option)


def judge_named(
    name: str | Model,
    *,
    votes: int | None = None,
    tie_rule: TieRule | None = None,
    seed: int | None = None,
) -> Judge:
    """Return the judge ``rule``, or a model that votes.

    Args:
        name: ``rule``, or a model of inspect-ai or its name.
        votes: Of a model, as the next two; those that are None are as in `LLMJudge`.
        tie_rule: Which of several that tie wins.
        seed: Of the votes.

    Raises:
        UserError: If an option has no such type or value, one is given to the rules, or the model
            can't be had.
    """
    given: dict[str, Any] = {}
    # All of them at once, also those that this judge doesn't use.
    if votes is not None:
        given["votes"] = checked_whole("votes", votes, least=1, most=MOST_VOTES)
    if tie_rule is not None:
        given["tie_rule"] = checked_word("tie_rule", tie_rule, get_args(TieRule))
    if seed is not None:
        given["seed"] = checked_whole("seed", seed, least=0, most=SEEDS - 1)
    if isinstance(name, str) and name == "rule":
        for option, value in given.items():
            raise UserError(f"the rule judge has no {option}: leave out {option}={value}")
        return RuleJudge()
    return LLMJudge(model_or_named("judge", name), **given)
