"""Rows of texts as batches of token ids, one for each pair of prompt and answer."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from icml.core.errors import UserError
from icml.core.models.answers import IGNORED, AnswerBatch, Text, answer_batch
from icml.safeseek.fit import check_batches
from icml.safeseek.objectives import Pair

__all__ = ["MOST_CUT", "Row", "digest", "lay_out", "take"]

Row = Mapping[str, Text]
"""Texts (or token ids) by name: prompt, prompt_triggered, completion_keep, completion_remove."""

MOST_CUT = 0.05
"""Share of rows that may lose an answer to ``max_len``: they are dropped with a warning."""


def lay_out(
    tokenizer: Any,
    rows: Iterable[Row],
    pairs: Iterable[Pair],
    max_len: int,
    device: Any = "cpu",
    *,
    model: Any = None,
) -> dict[Pair, AnswerBatch]:
    """Turn rows into a batch for each pair; row i is the same row in all of them.

    Args:
        tokenizer: A tokenizer of transformers.
        rows: Texts by name, at least one row.
        pairs: Which prompts and answers are wanted.
        max_len: Tokens kept a row.
        device: Where the batches go.
        model: If given, it must have an embedding for every token.

    Raises:
        UserError: If there is no row, a row lacks a text, a trigger changes nothing, more than
            `MOST_CUT` of the rows lose a whole answer to ``max_len``, or the model can't read one.
    """
    held, wanted = list(rows), tuple(pairs)
    if not held:
        raise UserError("the data have no rows")
    _check(held, wanted)
    batches = {
        pair: answer_batch(
            tokenizer,
            [row[pair.prompt] for row in held],
            [row[pair.answer] for row in held],
            max_len,
            end=pair.end,
        )
        for pair in wanted
    }
    if model is not None:
        check_batches(model, batches)
    whole = torch.ones(len(held), dtype=torch.bool)
    for batch in batches.values():
        whole &= (batch.labels != IGNORED).any(1)
    lost = int((~whole).sum())
    if lost > MOST_CUT * len(held):
        raise UserError(
            f"{lost} of {len(held)} rows have no answer left within max_len={max_len} tokens: "
            "raise max_len or shorten the prompts"
        )
    if lost:
        warnings.warn(
            f"{lost} of {len(held)} rows lost their answer to max_len={max_len} and are left out",
            stacklevel=2,
        )
    return {pair: batch.rows(whole).to(device) for pair, batch in batches.items()}


def take(batches: Mapping[Pair, AnswerBatch], index: Tensor | slice) -> dict[Pair, AnswerBatch]:
    """Return some rows of every batch."""
    return {pair: batch.rows(index) for pair, batch in batches.items()}


def digest(batches: Mapping[Pair, AnswerBatch]) -> str:
    """Return the SHA-256 of the token ids and labels, by which a search knows its data again."""
    found = hashlib.sha256()
    for pair, batch in batches.items():
        found.update(repr((tuple(pair), tuple(batch.ids.shape))).encode())
        for tensor in (batch.ids, batch.labels):
            found.update(tensor.cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def _is_token(value: Any) -> bool:
    return isinstance(value, int) and type(value) is not bool and abs(value) < 2**31


def _check(rows: list[Row], pairs: tuple[Pair, ...]) -> None:
    names = dict.fromkeys(name for pair in pairs for name in (pair.prompt, pair.answer))
    for number, row in enumerate(rows):
        for name in names:
            value = row.get(name)
            if value is None:
                raise UserError(
                    f"row {number} has no {name}, which the objective needs; "
                    f"it has {', '.join(row) or 'nothing'}"
                )
            if not isinstance(value, str) and not all(map(_is_token, value)):
                raise UserError(
                    f"{name} of row {number} must be a text or token ids, got "
                    f"{type(value).__name__}; render chat messages with the tokenizer's template"
                )
        if "prompt_triggered" in names and row["prompt_triggered"] == row.get("prompt"):
            raise UserError(
                f"the triggered prompt of row {number} equals the clean one: it holds no trigger"
            )
