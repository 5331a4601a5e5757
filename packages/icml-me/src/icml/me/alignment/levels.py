"""How far the tokenizers of an ensemble agree, and so how its members can be mixed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from icml.core.errors import UserError
from icml.me.alignment.token_bytes import token_bytes, writes_without_loss
from icml.me.members import Member

Level = Literal["identical", "shared_prefix", "text"]
"""One vocabulary; one vocabulary with a different number of unused rows behind it; any two."""


def choose_level(members: Sequence[Member], wanted: str) -> Level:
    """Return how the members are aligned.

    Args:
        members: At least one.
        wanted: A `Level`, or ``auto`` for the first that fits.

    Raises:
        UserError: If the members don't allow it.
    """
    if wanted not in ("auto", "identical", "shared_prefix", "text"):
        raise UserError(
            f"align must be 'auto', 'identical', 'shared_prefix' or 'text', got {wanted!r}"
        )
    found = _finest(members)
    if wanted in ("auto", found) or (wanted == "shared_prefix" and found == "identical"):
        return found
    if wanted == "text":
        _check_text(members)
        return "text"
    raise UserError(f"align={wanted!r} doesn't fit: {_difference(members)}; use align='auto'")


def _finest(members: Sequence[Member]) -> Level:
    rows = {member.rows for member in members}
    if len(members) == 1:
        return "identical"
    if any(member.tokenizer is None for member in members):
        if len(rows) == 1:
            return "identical"
        raise UserError(
            "members without tokenizers must have equally many logits, got "
            + ", ".join(f"{member.name}: {member.rows}" for member in members)
        )
    if all(_same_tokenizer(a, b, min(rows)) for a, b in pairwise(members)):
        return "identical" if len(rows) == 1 else "shared_prefix"
    _check_text(members)
    return "text"


def _check_text(members: Sequence[Member]) -> None:
    for member in members:
        if member.tokenizer is None or not writes_without_loss(member.tokenizer):
            raise UserError(
                f"the tokenizers differ, and that of {member.name} doesn't write any text without "
                "loss (it is neither byte-level nor SentencePiece with byte tokens), so that the "
                "members can't be aligned by text"
            )


def _same_tokenizer(one: Member, other: Member, rows: int) -> bool:
    a, b = one.tokenizer, other.tokenizer
    if a is b:
        return True
    below = [{t: i for t, i in each.get_vocab().items() if i < rows} for each in (a, b)]
    return below[0] == below[1] and _pipeline(a) == _pipeline(b)


def _pipeline(tokenizer: Any) -> Any:
    """Return what turns a text into tokens, the vocabulary aside."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return type(tokenizer)
    described = json.loads(backend.to_str())
    kept = [described[part] for part in ("normalizer", "pre_tokenizer", "decoder")]
    return [*kept, described["model"]["type"], described["model"].get("merges")]


def _difference(members: Sequence[Member]) -> str:
    rows = {member.rows for member in members}
    for a, b in pairwise(members):
        if a.tokenizer is not None and not _same_tokenizer(a, b, min(rows)):
            return f"{a.name} and {b.name} have different tokenizers"
    return "the members have " + ", ".join(f"{m.rows} logits ({m.name})" for m in members)


@dataclass(frozen=True)
class AlignmentReport:
    """What two tokenizers have in common."""

    level: Level
    """How an ensemble of the two is aligned."""
    sizes: tuple[int, int]
    """Tokens of each."""
    rows: tuple[int, int]
    """Logits of each model."""
    shared: int
    """Texts that both write with one token."""
    ends: tuple[tuple[str, ...], tuple[str, ...]]
    """End tokens of each; they mean the same to an ensemble."""

    def __str__(self) -> str:
        """Return the report as lines of text."""
        ends = " and ".join(" ".join(each) or "none" for each in self.ends)
        share = " and ".join(f"{self.shared / size:.1%}" for size in self.sizes)
        return "\n".join(
            [
                f"alignment      {self.level}: {_MEANING[self.level]}",
                f"tokens         {self.sizes[0]} and {self.sizes[1]}",
                f"logits         {self.rows[0]} and {self.rows[1]}",
                f"shared texts   {self.shared} ({share})",
                f"end tokens     {ends}",
            ]
        )


_MEANING: dict[Level, str] = {
    "identical": "tokens are mixed as they are, and the ensemble's law is exact",
    "shared_prefix": "rows of logits behind the common vocabulary are cut off",
    "text": "members read each other's text in their own tokens",
}


def compare_members(one: Member, other: Member) -> AlignmentReport:
    """Return what the tokenizers of two members have in common.

    Raises:
        UserError: If they can't be aligned at all.
    """
    found = [token_bytes(member.tokenizer) for member in (one, other)]
    texts = [set(each.texts.values()) for each in found]
    ends = [
        tuple(member.tokenizer.convert_ids_to_tokens(sorted(member.end_ids)))
        for member in (one, other)
    ]
    return AlignmentReport(
        level=choose_level([one, other], "auto"),
        sizes=(len(one.tokenizer), len(other.tokenizer)),
        rows=(one.rows, other.rows),
        shared=len(texts[0] & texts[1]),
        ends=(ends[0], ends[1]),
    )
