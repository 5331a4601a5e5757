"""A synthetic tool-call task with two rewards of different ranges, as in the paper's Sec. 4.1.

The prompt asks for one of 12 tools with one of 24 values; the right answer is one call of that
tool, in a fixed format::

    <bos> verb3 the v17 Q      ->      <call> tool3 ( arg5 = v17 ) </call> <eos>

Format is 0 or 1, correctness runs from -3 to 3: the ranges of the paper's tool-calling rewards.
Demonstrations for a warm start break the format nearly always and the content often, so that
there is something left to learn for both rewards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from icml.core.models.tiny import SPECIAL_TOKENS

__all__ = [
    "BROKEN",
    "CALLS",
    "LONGEST",
    "REPLACED",
    "REWARDS",
    "VOCABULARY",
    "ToolCall",
    "correctness_reward",
    "demonstrations",
    "format_reward",
    "rewards",
    "sample_calls",
]

TOOLS, ARGUMENTS, VALUES = 12, 6, 24

_TOOL = tuple(f"tool{i}" for i in range(TOOLS))
_ARGUMENT = tuple(f"arg{i}" for i in range(ARGUMENTS))
_VALUE = tuple(f"v{i}" for i in range(VALUES))
_VERB = tuple(f"verb{i}" for i in range(TOOLS))
_MARKS = ("Q", "the", "<call>", "</call>", "(", ")", "=")

VOCABULARY = (*SPECIAL_TOKENS, *_MARKS, *_TOOL, *_ARGUMENT, *_VALUE, *_VERB)
"""The words, in the order of their ids."""
REWARDS = ("format", "correctness")
"""The columns of `rewards`."""
LONGEST = 9
"""Tokens of a right answer, its end token included."""

BROKEN = 0.97
"""Share of demonstrations in which one kind of delimiter is missing (ours)."""
REPLACED = 0.35
"""Chance that a content word of a demonstration is drawn anew from its kind (ours)."""

_ID = {word: index for index, word in enumerate(VOCABULARY)}
_DELIMITERS = (("<call>",), ("</call>",), ("(", ")"))
_CONTENT = {1: _TOOL, 3: _ARGUMENT, 5: _VALUE}  # place in the answer -> words that fit there
_KINDS = tuple(frozenset(_ID[word] for word in words) for words in _CONTENT.values())


@dataclass(frozen=True)
class ToolCall:
    """One thing to ask for; a task of `icml.core.rl.loop`."""

    tool: int
    """Which of the 12 tools."""
    value: int
    """Which of the 24 values."""

    @property
    def prompt_ids(self) -> list[int]:
        """The question: five tokens."""
        return _ids("<bos>", _VERB[self.tool], "the", _VALUE[self.value], "Q")

    @property
    def answer(self) -> list[int]:
        """The right answer: `LONGEST` tokens."""
        return list(_answer(self))


CALLS = tuple(ToolCall(tool, value) for tool in range(TOOLS) for value in range(VALUES))
"""All 288 of them."""


def sample_calls(generator: torch.Generator, n: int) -> list[ToolCall]:
    """Draw ``n`` calls, each of `CALLS` equally likely."""
    return [CALLS[i] for i in torch.randint(len(CALLS), (n,), generator=generator).tolist()]


def format_reward(completion: Sequence[int]) -> float:
    """Return 1 if the completion is one well-formed call that ends, of any content; else 0.

    Args:
        completion: Token ids, without padding.
    """
    pattern = _pattern()
    fits = len(completion) == len(pattern) and all(
        token in allowed for token, allowed in zip(completion, pattern, strict=True)
    )
    return float(fits)


def correctness_reward(call: ToolCall, completion: Sequence[int]) -> float:
    """Return -3, -1, 1 or 3: for 0 to 3 of tool, argument and value right, in any format.

    A part is right if the completion names it once and nothing else of its kind.

    Args:
        call: What was asked for.
        completion: Token ids, without padding.
    """
    wanted = _answer(call)
    parts = zip(_CONTENT, _KINDS, strict=True)
    right = [[t for t in completion if t in kind] == [wanted[place]] for place, kind in parts]
    return 6.0 * sum(right) / len(right) - 3.0


def rewards(calls: Sequence[ToolCall], completions: Sequence[Sequence[int]]) -> Tensor:
    """Return both rewards of each completion: ``(completions, 2)``, in the order of `REWARDS`."""
    rows = [
        (format_reward(completion), correctness_reward(call, completion))
        for call, completion in zip(calls, completions, strict=True)
    ]
    return torch.tensor(rows).view(-1, len(REWARDS))


def demonstrations(
    calls: Sequence[ToolCall],
    generator: torch.Generator,
    *,
    broken: float = BROKEN,
    replaced: float = REPLACED,
) -> list[list[int]]:
    """Return an imperfect answer to each call.

    Args:
        calls: What is asked for.
        generator: Source of all randomness.
        broken: Chance that one kind of delimiter, each equally likely, is left out.
        replaced: Chance, for each content word by itself, that it is drawn anew from all words
            of its kind (the right one among them).
    """
    n = len(calls)
    breaks = torch.rand(n, generator=generator) < broken
    missing = torch.randint(len(_DELIMITERS), (n,), generator=generator)
    renewed = torch.rand(n, len(_CONTENT), generator=generator) < replaced
    drawn = torch.rand(n, len(_CONTENT), generator=generator)
    noise = (breaks.tolist(), missing.tolist(), renewed.tolist(), drawn.tolist())
    return [_demonstration(*row) for row in zip(calls, *noise, strict=True)]


def _demonstration(
    call: ToolCall, breaks: bool, missing: int, renewed: list[bool], drawn: list[float]
) -> list[int]:
    answer = call.answer
    for (place, words), renew, where in zip(_CONTENT.items(), renewed, drawn, strict=True):
        if renew:
            answer[place] = _ID[words[int(where * len(words))]]
    left_out = _ids(*_DELIMITERS[missing]) if breaks else []
    return [token for token in answer if token not in left_out]


def _ids(*words: str) -> list[int]:
    return [_ID[word] for word in words]


@cache
def _answer(call: ToolCall) -> tuple[int, ...]:
    # Neighbouring tools take different arguments, and each argument belongs to two tools.
    argument = _ARGUMENT[(5 * call.tool + 2) % ARGUMENTS]
    tool, value = _TOOL[call.tool], _VALUE[call.value]
    return tuple(_ids("<call>", tool, "(", argument, "=", value, ")", "</call>", "<eos>"))


@cache
def _pattern() -> tuple[frozenset[int], ...]:
    """The ids that a well-formed call may have at each place."""
    fixed = _answer(CALLS[0])
    return tuple(
        frozenset(_ids(*_CONTENT[place])) if place in _CONTENT else frozenset({token})
        for place, token in enumerate(fixed)
    )
