"""One vocabulary for the whole ensemble: the members' own, or the union of different ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from icml.core.errors import UserError
from icml.me.alignment.streams import ByteStream, TextStream, WordStream
from icml.me.alignment.token_bytes import token_bytes, writes_without_loss
from icml.me.members import Member
from icml.me.state import MemberState

DROPPED_MASS = 1e-6
"""Probability that rows behind the common vocabulary may have (the plan's value)."""


class Vocabulary(Protocol):
    """What the ensemble draws its tokens from."""

    size: int
    ends: frozenset[int]
    """Tokens that end a text."""

    def own(self, member: int, logits: Tensor) -> Tensor:
        """Return a member's logits without rows that stand for no token."""
        ...

    def spread(self, member: int, law: Tensor) -> Tensor:
        """Return a member's law ``(batch, its tokens)`` as ``(batch, size)``."""
        ...

    def stream(self) -> TextStream | None:
        """Return the decoder of one row; None without tokenizers."""
        ...

    def writer(self, states: Sequence[MemberState], rows: int) -> Writer:
        """Return what hands drawn tokens to the members."""
        ...


class Writer(Protocol):
    """Hands the tokens that were drawn to every member."""

    def write(self, tokens: Tensor, active: Tensor, weights: Tensor) -> None:
        """Append one token a row.

        Args:
            tokens: ``(batch,)`` of the ensemble's vocabulary.
            active: ``(batch,)``; the other rows have ended.
            weights: ``(batch, members)``: who can have drawn the token, and how likely.
        """
        ...

    def weights(self, constant: Tensor) -> Tensor:
        """Return ``(batch, members)`` weights for the next token, given those of a new piece."""
        ...


class SharedVocabulary:
    """The members' common vocabulary: tokens are handed on as they are."""

    def __init__(self, members: Sequence[Member]) -> None:
        """Cut all to the shortest."""
        self._members = list(members)
        self.size = min(member.rows for member in members)
        self.ends = frozenset(i for m in members for i in m.end_ids if i < self.size)
        self._streams = _stream_maker(members[0].tokenizer)

    def own(self, member: int, logits: Tensor) -> Tensor:
        """Return the logits of the common tokens.

        Raises:
            UserError: If the rows that are cut off have more than `DROPPED_MASS`.
        """
        kept = logits[:, : self.size]
        if logits.shape[1] > self.size:
            mass = 1 - (kept.float().logsumexp(1) - logits.float().logsumexp(1)).exp()
            if float(mass.max()) > DROPPED_MASS:
                raise UserError(
                    f"{self._members[member].name} gives {float(mass.max()):.1e} of its "
                    f"probability to rows behind the common {self.size} tokens, at most "
                    f"{DROPPED_MASS:g} can be cut off: use align='text'"
                )
        return kept

    def spread(self, member: int, law: Tensor) -> Tensor:
        """Return the law as it is."""
        return law

    def stream(self) -> TextStream | None:
        """Return the decoder of one row; None without tokenizers."""
        return self._streams()

    def writer(self, states: Sequence[MemberState], rows: int) -> Writer:
        """Return what hands drawn tokens to the members."""
        return _CopyWriter(states)


class _CopyWriter:
    """Gives every member the same token."""

    def __init__(self, states: Sequence[MemberState]) -> None:
        self._states = states

    def write(self, tokens: Tensor, active: Tensor, weights: Tensor) -> None:
        """Append one token a row to every member."""
        mask = None if bool(active.all()) else active.unsqueeze(1)
        for state in self._states:
            state.append(tokens.unsqueeze(1), mask)

    def weights(self, constant: Tensor) -> Tensor:
        """Return the weights as they are: every token is a piece of its own."""
        return constant


def _stream_maker(tokenizer: object) -> Callable[[], TextStream | None]:
    if tokenizer is None:
        return lambda: None
    if not writes_without_loss(tokenizer):
        return lambda: WordStream(tokenizer)
    texts: dict[int, bytes] = {}

    def make() -> TextStream:
        if not texts:  # 50 ms for 49 thousand tokens: only where a text is followed
            texts.update(token_bytes(tokenizer).texts)
        return ByteStream(texts)

    return make


def left_aligned_mask(lengths: Sequence[int]) -> Tensor:
    """Return ``(rows, longest)``, True in each row's last ``lengths[row]`` places."""
    longest = max(lengths, default=0)
    places = torch.arange(longest)
    return places >= longest - torch.tensor(list(lengths)).unsqueeze(1)
