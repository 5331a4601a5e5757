r"""Reward functions on text that a recipe may name, with TRL's signature.

A completion's answer is what stands in its last ``<answer>…</answer>``, else in its last
``\boxed{…}``, else the number in a last sentence like ``The answer is 5.``
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from icml.gdpo.train.gym import verify

_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_SENTENCE = re.compile(r"\banswer is:? *\$?([-+]?\d[\d,]*(?:\.\d+)?)\.?\s*$", re.IGNORECASE)
_ENDS_IN_TAGS = re.compile(r"(?:(?!<answer>).)*<answer>[^<>]+</answer>\s*", re.DOTALL)
_BOX = "\\boxed{"


def extract_answer(text: str) -> str | None:
    r"""Return a completion's answer, None where it gives none.

    Example:
        >>> extract_answer("2 + 3 is <answer> 5 </answer>"), extract_answer("The answer is 5.")
        ('5', '5')
    """
    tagged = _TAGGED.findall(text)
    if tagged:
        return tagged[-1].strip()
    start = text.rfind(_BOX)
    if start < 0:
        sentence = _SENTENCE.search(text)
        return sentence[1] if sentence else None
    inside, depth = text[start + len(_BOX) :], 1
    for i, character in enumerate(inside):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return inside[:i].strip()
    return None


def answer(
    completions: Sequence[Any],
    answer: Sequence[Any],
    entry: Sequence[str] | None = None,
    **columns: Any,
) -> list[float]:
    """Reward a right answer with 1: equal numbers, or equal text but for spaces.

    Args:
        completions: Texts or conversations.
        answer: The right answers; of GSM8K's the part behind ``####`` counts.
        entry: Questions of reasoning-gym as JSON, whose own verifiers then give the reward, from
            0 to 1.
        columns: Unused.
    """
    given = [extract_answer(text) for text in map(_text, completions)]
    if entry is not None:
        return [verify(g, json.loads(e)) for g, e in zip(given, entry, strict=True)]
    right = [str(gold).rpartition("####")[2].strip() for gold in answer]
    return [float(g is not None and _same(g, r)) for g, r in zip(given, right, strict=True)]


def format(completions: Sequence[Any], **columns: Any) -> list[float]:
    """Reward with 1 a completion that ends in ``The answer is 5.`` or its only ``<answer>``."""
    texts = [_text(completion) for completion in completions]
    return [float(bool(_ENDS_IN_TAGS.fullmatch(t) or _SENTENCE.search(t))) for t in texts]


def integer(completions: Sequence[Any], **columns: Any) -> list[float]:
    """Reward with 1 an answer that is a whole number, right or wrong."""
    given = [extract_answer(_text(c)) or "" for c in completions]
    return [float(bool(re.fullmatch(r"[-+]?\d+", g))) for g in given]


def length(
    completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], *, at_most: int, **_: Any
) -> list[float]:
    """Reward with 1 a completion of at most ``at_most`` tokens."""
    return [float(len(ids) <= at_most) for ids in completion_ids]


def _text(completion: Any) -> str:
    """Return the text of a completion, which is a string or a list of messages."""
    if isinstance(completion, str):
        return completion
    return "".join(str(message.get("content") or "") for message in completion)


def _same(given: str, right: str) -> bool:
    first, second = _number(given), _number(right)
    if first is not None and second is not None:
        return first == second
    return "".join(given.split()) == "".join(right.split())


def _number(text: str) -> Decimal | None:
    try:
        number = Decimal(text.replace(",", "").lstrip("$").strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
