"""Prompts with their answers in one batch: how likely a model finds these, and which it gives.

An answer's tokens follow its prompt's, each tokenized by itself: that is what generation sees, and
no token stands on both sides of the border.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from icml.core.errors import UserError
from icml.core.models.logprobs import sequence

__all__ = ["IGNORED", "AnswerBatch", "Text", "answer_batch", "exact_match", "sequence_nll"]

IGNORED = -100
"""Label of a token that is not part of an answer; cross-entropy of torch leaves it out."""

Text = str | Sequence[int]
"""A text, or its token ids where they are known, those of a chat template say."""


@dataclass(frozen=True)
class AnswerBatch:
    """Prompts and answers, padded on the right."""

    ids: Tensor
    """Token ids ``(rows, tokens)``, int64."""
    mask: Tensor
    """Booleans ``(rows, tokens)``, False for padding: an attention mask."""
    labels: Tensor
    """Token ids ``(rows, tokens)`` of the answers at their own places, `IGNORED` elsewhere."""
    cut: Tensor
    """Booleans ``(rows,)``: the row was longer than ``max_len`` tokens and lost its end."""

    @property
    def truncated(self) -> int:
        """Rows that lost their end."""
        return int(self.cut.sum())

    @property
    def empty(self) -> int:
        """Rows that lost the whole answer."""
        return int((self.labels == IGNORED).all(1).sum())

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.ids.shape[0]

    def to(self, device: Any) -> AnswerBatch:
        """Return the batch on another device."""
        return AnswerBatch(*(x.to(device) for x in (self.ids, self.mask, self.labels, self.cut)))

    def rows(self, index: Tensor | slice) -> AnswerBatch:
        """Return some rows, without the columns that only others need."""
        mask = self.mask[index]
        width = int(mask.sum(1).max()) if len(mask) else 0
        return AnswerBatch(
            self.ids[index][:, :width], mask[:, :width], self.labels[index][:, :width],
            self.cut[index],
        )  # fmt: skip


def answer_batch(
    tokenizer: Any,
    prompts: Sequence[Text],
    answers: Sequence[Text],
    max_len: int,
    *,
    end: bool = True,
) -> AnswerBatch:
    """Lay out prompts with their answers.

    Args:
        tokenizer: A tokenizer of transformers. A prompt gets its special tokens, an answer none;
            a space between the two belongs to the answer.
        prompts: Texts, or token ids that are taken as they are; none empty.
        answers: As many; texts or token ids, none empty.
        max_len: Tokens kept a row, from the start, >= 2; see `AnswerBatch.truncated`, `empty`.
        end: Whether the end-of-text token is the answer's last.

    Raises:
        UserError: If there is no row, the numbers differ, a prompt or an answer has no token,
            ``max_len`` is below 2, or the tokenizer has no end-of-text token and ``end`` is set.

    Example:
        >>> from icml.core.models.tiny import word_tokenizer
        >>> batch = answer_batch(word_tokenizer(["a", "b", "c"]), ["a b", "a"], ["c", "c"], 8)
        >>> batch.labels.tolist()
        [[-100, -100, 6, 2], [-100, 6, 2, -100]]
    """
    _check(tokenizer, prompts, answers, max_len, end)
    rows = []
    for number, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        before = _tokens(tokenizer, prompt, special=True)
        after = _tokens(tokenizer, answer, special=False)
        if not before or not after:
            what = "prompt" if not before else "answer"
            raise UserError(f"the {what} of row {number} has no token: give it a text")
        rows.append((before, [*after, tokenizer.eos_token_id] if end else after))
    width = min(max(len(before) + len(after) for before, after in rows), max_len)
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
    ids = torch.full((len(rows), width), pad)
    labels = torch.full((len(rows), width), IGNORED)
    lengths = torch.tensor([len(before) + len(after) for before, after in rows])
    for row, (before, after) in enumerate(rows):
        kept = torch.tensor([*before, *after][:width])
        ids[row, : len(kept)] = kept
        labels[row, len(before) : len(kept)] = kept[len(before) :]
    return AnswerBatch(
        ids,
        torch.arange(width) < lengths[:, None],
        labels,
        lengths > width,
    )


def sequence_nll(
    model: Any, batch: AnswerBatch, *, mean: bool = False, batch_size: int | None = None
) -> Tensor:
    """Return how unlikely a model finds each answer, given its prompt; gradients flow.

    Args:
        model: A causal model; ``model(ids).logits`` is ``(batch, tokens, vocabulary)``.
        batch: From `answer_batch`, on the model's device.
        mean: Divide by the number of the answer's tokens.
        batch_size: Rows read at once, >= 1; None reads all at once.

    Returns:
        -log p in nats, ``(rows,)``, at least float32; 0 for a row whose answer was cut off.

    Raises:
        ValueError: If ``batch_size`` is below 1.
    """
    parts = []
    for part in _parts(batch, batch_size):
        marked = part.labels != IGNORED
        found = -sequence(model, part.ids, marked).sum(1)
        parts.append(found / marked.sum(1).clamp(min=1) if mean else found)
    return torch.cat(parts)


@torch.no_grad()
def exact_match(model: Any, batch: AnswerBatch, *, batch_size: int | None = 64) -> Tensor:
    """Return which answers greedy decoding gives, token for token.

    Greedy decoding gives an answer exactly if each of its tokens is the likeliest after those
    before it, so one forward pass decides, without generating.

    Args:
        model: A causal model; ``model(ids).logits`` is ``(batch, tokens, vocabulary)``.
        batch: From `answer_batch`, on the model's device. Its end tokens count where it has them.
        batch_size: Rows read at once, >= 1; None reads all at once.

    Returns:
        Booleans ``(rows,)``; False for a row that lost its end.

    Raises:
        ValueError: If ``batch_size`` is below 1.
    """
    parts = []
    for part in _parts(batch, batch_size):
        targets = part.labels[:, 1:]
        columns = (targets != IGNORED).any(0).nonzero().squeeze(1)
        wanted = targets[:, columns]
        marked = wanted != IGNORED
        right = _logits(model, part.ids, columns).argmax(-1) == wanted
        parts.append((right | ~marked).all(1) & ~part.cut)
    return torch.cat(parts)


def _logits(model: Any, ids: Tensor, columns: Tensor) -> Tensor:
    """Return the logits at some positions; models of transformers make no others."""
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        return model(input_ids=ids, use_cache=False, logits_to_keep=columns).logits
    return model(ids).logits[:, columns]


def _parts(batch: AnswerBatch, batch_size: int | None) -> Iterator[AnswerBatch]:
    if batch_size is None:
        batch_size = len(batch)
    if batch_size < 1:
        raise ValueError(f"batch_size must be >= 1 row, got {batch_size}")
    return (batch.rows(slice(i, i + batch_size)) for i in range(0, len(batch), batch_size))


def _tokens(tokenizer: Any, text: Text, *, special: bool) -> list[int]:
    if isinstance(text, str):
        return list(tokenizer(text, add_special_tokens=special).input_ids)
    return list(text)


def _check(
    tokenizer: Any, prompts: Sequence[Text], answers: Sequence[Text], max_len: int, end: bool
) -> None:
    if len(prompts) != len(answers) or not prompts:
        raise UserError(
            "as many answers as prompts are wanted and at least one, "
            f"got {len(prompts)} prompts and {len(answers)} answers"
        )
    if max_len < 2:
        raise UserError(f"max_len must be >= 2 tokens, a prompt's and an answer's, got {max_len}")
    if end and tokenizer.eos_token_id is None:
        raise UserError("the tokenizer has no end-of-text token: set its eos_token, or end=False")
