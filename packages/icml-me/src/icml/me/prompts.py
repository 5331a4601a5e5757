"""Prompts in each member's tokens: texts, conversations, or ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from icml.core.errors import UserError
from icml.me.alignment.vocabulary import left_aligned_mask
from icml.me.members import Member

Conversation = Sequence[Mapping[str, str]]
"""Messages with ``role`` and ``content``, for the members' chat templates."""
Prompts = str | Sequence[str] | Conversation | Sequence[Conversation] | Tensor
"""One text or several, one conversation or several, or ids ``(tokens,)`` or ``(batch, tokens)``."""


class Padded(NamedTuple):
    """Rows of ids, padded on the left."""

    ids: Tensor
    """``(batch, tokens)``."""
    mask: Tensor
    """``(batch, tokens)``, False for padding."""


def encode(prompts: Prompts, members: Sequence[Member], *, by_text: bool) -> list[Padded]:
    """Return the prompts in each member's tokens.

    Args:
        prompts: See `Prompts`.
        members: Where all share a vocabulary, the first one's tokenizer serves for all.
        by_text: Whether the members have vocabularies of their own.

    Raises:
        UserError: If there is no prompt, an empty one has no begin token to start from, ids are
            out of range, one is longer than a window, or the members can't read this form.
    """
    if isinstance(prompts, Tensor):
        rows = [_ids(prompts, members, by_text=by_text)] * len(members)
    else:
        texts = _one_or_many(prompts)
        readers = members if by_text else members[:1]
        rows = [[_encode_one(text, member) for text in texts] for member in readers]
        rows = rows if by_text else rows * len(members)
    padded = [pad_left(each, member.pad_id) for each, member in zip(rows, members, strict=True)]
    for each, member in zip(padded, members, strict=True):
        check_window(int(each.mask.sum(1).max()), member)
    return padded


def pad_left(rows: Sequence[Sequence[int]], pad_id: int) -> Padded:
    """Return rows of ids as one matrix."""
    mask = left_aligned_mask([len(row) for row in rows])
    ids = torch.full(mask.shape, pad_id)
    ids[mask] = torch.tensor([i for row in rows for i in row], dtype=torch.long)
    return Padded(ids, mask)


def _one_or_many(prompts: Any) -> list[Any]:
    if isinstance(prompts, str) or (prompts and isinstance(prompts[0], Mapping)):
        return [prompts]
    if not prompts:
        raise UserError("there is no prompt")
    return list(prompts)


def _ids(prompts: Tensor, members: Sequence[Member], *, by_text: bool) -> list[list[int]]:
    if by_text:
        raise UserError("ids mean different texts to members with different tokenizers: give texts")
    ids = prompts.unsqueeze(0) if prompts.dim() == 1 else prompts
    size = min(member.rows for member in members)
    if ids.dim() != 2 or not ids.numel():
        raise UserError(
            f"prompt ids must be (tokens,) or (batch, tokens), none empty, got {tuple(ids.shape)}"
        )
    if int(ids.min()) < 0 or int(ids.max()) >= size:
        raise UserError(f"prompt ids must be in [0, {size}), got {int(ids.min())} to {ids.max()}")
    return ids.tolist()


def _encode_one(prompt: Any, member: Member) -> list[int]:
    tokenizer = member.tokenizer
    if tokenizer is None:
        raise UserError(f"{member.name} has no tokenizer: give it one, or prompts as ids")
    if isinstance(prompt, str):
        ids = list(tokenizer(prompt).input_ids)
    else:
        ids = _encode_conversation(prompt, member)
    if ids:
        return ids
    if tokenizer.bos_token_id is None:
        raise UserError(
            f"the prompt is empty and {member.name} has no begin token to start from: give a text"
        )
    return [tokenizer.bos_token_id]


def _encode_conversation(messages: Conversation, member: Member) -> list[int]:
    if not getattr(member.tokenizer, "chat_template", None):
        raise UserError(f"{member.name} has no chat template: give the prompt as a text")
    text = member.tokenizer.apply_chat_template(
        [dict(message) for message in messages], tokenize=False, add_generation_prompt=True
    )
    return list(member.tokenizer(text, add_special_tokens=False).input_ids)


def check_window(length: int, member: Member) -> None:
    """Refuse a prompt that leaves a member no room to write.

    Raises:
        UserError: With both lengths.
    """
    if length >= member.window:
        raise UserError(
            f"a prompt has {length} tokens, and {member.name} can read {member.window} with what "
            "it writes: shorten the prompt"
        )
