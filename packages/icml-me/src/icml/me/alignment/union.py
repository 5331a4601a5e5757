"""Members with different tokenizers: a union of their vocabularies, and texts read by all.

A token is what it writes: tokens with the same bytes are one token of the union. Its ids follow
the first member's ids, then what the second adds, and so on, so that they are the same in every
process.

What is drawn at once is a *piece*: the tokens up to the next complete character. One member writes
a whole piece, since another could not go on with bytes that its own tokens can't split. Piece by
piece ME and the conventional ensemble have the same law: in ME the member that was drawn finishes
the piece; the conventional ensemble weighs the members by how likely they began it (Bayes).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from icml.core.errors import UserError
from icml.me.alignment.streams import ByteStream, TextStream
from icml.me.alignment.token_bytes import token_bytes
from icml.me.alignment.vocabulary import Writer, left_aligned_mask
from icml.me.members import Member
from icml.me.state import MemberState

END = 0
"""The union's one end token, for all end tokens of all members."""


class UnionVocabulary:
    """The union of the members' vocabularies."""

    def __init__(self, members: Sequence[Member]) -> None:
        """Read what each token writes.

        Raises:
            UserError: If a tokenizer is neither byte-level nor SentencePiece with byte tokens.
        """
        self.members = list(members)
        found = [token_bytes(member.tokenizer) for member in members]
        ids: dict[tuple[str, bytes], int] = {("end", b""): END}
        maps = []
        for member, tokens in zip(members, found, strict=True):
            keys = {i: ("text", text) for i, text in tokens.texts.items()}
            keys |= {i: ("special", word.encode()) for i, word in tokens.specials.items()}
            keys |= {i: ("end", b"") for i in member.end_ids}
            keys = {i: keys[i] for i in sorted(keys) if i < member.rows}
            maps.append({i: ids.setdefault(key, len(ids)) for i, key in keys.items()})
        self.size = len(ids)
        self.ends = frozenset([END])
        self.texts = {index: text for (kind, text), index in ids.items() if kind == "text"}
        self.specials = {i: text.decode() for (kind, text), i in ids.items() if kind == "special"}
        self._locals = [torch.tensor(list(each)) for each in maps]
        self._unions = [torch.tensor(list(each.values())) for each in maps]
        # Of tokens that write the same the last one counts: SentencePiece begins with byte tokens.
        self.own_ids = [{union: i for i, union in each.items()} for each in maps]
        self.encoders = [Encoder(m, t.texts) for m, t in zip(members, found, strict=True)]

    def own(self, member: int, logits: Tensor) -> Tensor:
        """Return the logits of the rows that stand for a token."""
        if len(self._locals[member]) == logits.shape[1]:
            return logits
        rest = torch.full_like(logits, -torch.inf)
        kept = self._locals[member].to(logits.device)
        return rest.index_copy(1, kept, logits[:, kept])

    def spread(self, member: int, law: Tensor) -> Tensor:
        """Return a member's law over the union; what is written alike is added up."""
        kept = law[:, self._locals[member].to(law.device)]
        spread = law.new_zeros(len(law), self.size)
        return spread.index_add_(1, self._unions[member].to(law.device), kept)

    def stream(self) -> TextStream:
        """Return the decoder of one row."""
        return ByteStream(self.texts)

    def writer(self, states: Sequence[MemberState], rows: int) -> Writer:
        """Return what hands drawn tokens to the members.

        Raises:
            UserError: If rows of different lengths meet layers with a sliding window.
        """
        if rows > 1:
            for state in states:
                if state.sliding:
                    raise UserError(
                        f"{state.member.name} has layers with a sliding window, which rows of "
                        "different lengths don't allow: give one prompt at a time"
                    )
        return _PieceWriter(self, states, rows)


class Encoder:
    """Turns text into a member's tokens that write exactly this text."""

    def __init__(self, member: Member, texts: dict[int, bytes]) -> None:
        """Take what each of the member's tokens writes."""
        self._member = member
        self._texts = texts

    def encode(self, text: str) -> list[int]:
        """Return ids whose bytes are the text's.

        A tokenizer may add a space in front or normalise letters; then the longest tokens that fit
        are taken from the left.

        Raises:
            UserError: If no tokens write the text.
        """
        wanted = text.encode()
        ids = self._member.tokenizer(text, add_special_tokens=False).input_ids
        if b"".join(self._texts.get(i, b"") for i in ids) == wanted:
            return list(ids)
        return self._longest_first(wanted)

    def _longest_first(self, wanted: bytes) -> list[int]:
        ids, start = [], 0
        while start < len(wanted):
            for end in range(min(len(wanted), start + self._longest), start, -1):
                if wanted[start:end] in self._by_bytes:
                    ids.append(self._by_bytes[wanted[start:end]])
                    start = end
                    break
            else:
                raise UserError(
                    f"{self._member.name} has no token for the bytes "
                    f"{wanted[start : start + 4].hex(' ')}"
                )
        return ids

    @cached_property
    def _by_bytes(self) -> dict[bytes, int]:
        return {text: i for i, text in self._texts.items() if text}

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._by_bytes), default=0)


class _Piece:
    """A row's tokens since the last complete character, and which members follow them."""

    def __init__(self, stream: TextStream, members: int) -> None:
        self.stream = stream
        self.members = members
        self.begin()

    def begin(self) -> None:
        self.tokens: list[int] = []
        self.text = ""
        self.weights: Tensor | None = None
        self.read = [0] * self.members  # tokens of the piece that a member already has


class _PieceWriter:
    """Gives each member a piece in its own tokens once the piece is complete.

    Members that may go on with it (weight > 0) get its tokens at once.
    """

    def __init__(self, union: UnionVocabulary, states: Sequence[MemberState], rows: int) -> None:
        self._union = union
        self._states = states
        self._pieces = [_Piece(union.stream(), len(states)) for _ in range(rows)]

    def weights(self, constant: Tensor) -> Tensor:
        """Return the weights, in rows amid a piece those of its authors."""
        rows = constant.expand(len(self._pieces), -1).clone()
        for row, piece in enumerate(self._pieces):
            if piece.weights is not None:
                rows[row] = piece.weights
        return rows

    def write(self, tokens: Tensor, active: Tensor, weights: Tensor) -> None:
        """Append one token of the union a row."""
        news: list[list[list[int]]] = [[[] for _ in self._pieces] for _ in self._states]
        for row in active.nonzero()[:, 0].tolist():
            added = self._push(row, int(tokens[row]), weights[row])
            for member, ids in enumerate(added):
                news[member][row] = ids
        for state, rows in zip(self._states, news, strict=True):
            lengths = [len(ids) for ids in rows]
            mask = left_aligned_mask(lengths)
            if mask.shape[1]:
                ids = torch.full(mask.shape, state.member.pad_id)
                ids[mask] = torch.tensor([i for each in rows for i in each])
                state.append(ids, mask)

    def _push(self, row: int, token: int, weights: Tensor) -> list[list[int]]:
        """Return the ids that each member gets now."""
        piece = self._pieces[row]
        piece.tokens.append(token)
        if token == END:
            return [[] for _ in self._states]
        piece.text += piece.stream.push(token) + self._union.specials.get(token, "")
        if piece.stream.whole:
            added = [self._finish(row, member) for member in range(len(self._states))]
            piece.begin()
            return added
        piece.weights = weights.clone()
        return [self._follow(row, member) for member in range(len(self._states))]

    def _follow(self, row: int, member: int) -> list[int]:
        piece = self._pieces[row]
        assert piece.weights is not None
        if piece.weights[member] == 0:
            return []
        piece.read[member] += 1
        return [self._union.own_ids[member][piece.tokens[-1]]]

    def _finish(self, row: int, member: int) -> list[int]:
        piece, own = self._pieces[row], self._union.own_ids[member]
        if all(token in own for token in piece.tokens):
            return [own[token] for token in piece.tokens[piece.read[member] :]]
        self._states[member].forget(row, piece.read[member])
        return self._union.encoders[member].encode(piece.text)


def one_hot(members: Tensor, count: int) -> Tensor:
    """Return ``(batch, count)`` weights that are 1 for the given member of each row."""
    return F.one_hot(members, count).to(torch.float64)
