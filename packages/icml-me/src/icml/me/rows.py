"""The rows of a batch as they grow: new tokens, their text, and why each ended."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import Tensor

from icml.me.alignment.streams import TextStream
from icml.me.result import FinishReason


class Rows:
    """What has been written so far."""

    def __init__(
        self,
        prompts: Tensor,
        *,
        pad_id: int,
        streams: Sequence[TextStream] | None,
        stop: Sequence[str] = (),
        listen: Callable[[Tensor], Any] | None = None,
    ) -> None:
        """Begin with nothing but the prompts.

        Args:
            prompts: ``(batch, tokens)`` ids.
            pad_id: What stands behind a row's end.
            streams: One decoder a row; None where nobody needs the text.
            stop: Texts that end a row.
            listen: Is told each step's tokens, ``(batch,)``.
        """
        self.prompts = prompts.cpu()
        self.count = len(prompts)
        self.pad_id = pad_id
        self.active = torch.ones(self.count, dtype=torch.bool)
        self.reasons: list[FinishReason] = ["length"] * self.count
        self._streams = streams
        self._stop = tuple(stop)
        self._listen = listen
        self._tokens: list[Tensor] = []
        self._members: list[Tensor] = []
        self._pieces: list[list[str]] = [[] for _ in range(self.count)]
        self._tails = [""] * self.count  # the end of each text, where a stop string may be
        self._cuts: dict[int, int] = {}  # characters behind a text's stop, the stop's included

    @property
    def steps(self) -> int:
        """Tokens that the longest row was given."""
        return len(self._tokens)

    def add(self, tokens: Tensor, members: Tensor | None) -> None:
        """Take one token a row, ``(batch,)``, and its author; rows that have ended skip theirs."""
        nobody = torch.full((self.count,), -1)
        authors = nobody if members is None else torch.where(self.active, members, nobody)
        self._tokens.append(tokens)
        self._members.append(authors)
        if self._streams is not None:
            for row in self.active.nonzero()[:, 0].tolist():
                self._hear(row, self._streams[row].push(int(tokens[row])))
        if self._listen is not None:
            self._listen(tokens)

    def ended(self, ends: Collection[int]) -> Tensor:
        """Return which rows' last token ends a text, or completes a stop string, ``(batch,)``."""
        ended = torch.isin(self._tokens[-1], torch.tensor(sorted(ends), dtype=torch.long))
        if self._stop:
            for row in self.active.nonzero()[:, 0].tolist():
                ended[row] |= self._stopped(row)
        return ended

    def _hear(self, row: int, fresh: str) -> None:
        longest = max(map(len, self._stop), default=1)
        self._pieces[row].append(fresh)
        # No more than can be part of a stop string that ends within the fresh text.
        self._tails[row] = self._tails[row][-(longest - 1) :] * (longest > 1) + fresh

    def _stopped(self, row: int) -> bool:
        tail = self._tails[row]
        places = [place for stop in self._stop if (place := tail.find(stop)) >= 0]
        if places:
            self._cuts[row] = len(tail) - min(places)
        return bool(places)

    def text(self, row: int) -> str:
        """Return a row's new text, up to its stop string."""
        text = "".join(self._pieces[row])
        return text[: len(text) - self._cuts.get(row, 0)]

    def end(self, rows: Tensor, reason: FinishReason) -> None:
        """End those of the rows ``(batch,)`` that are active."""
        for row in (rows & self.active).nonzero()[:, 0].tolist():
            self.reasons[row] = reason
        self.active = self.active & ~rows

    def close(self) -> None:
        """Forget a step that was interrupted halfway."""
        del self._tokens[len(self._members) :]

    def new_tokens(self) -> Tensor:
        """Return the new tokens, ``(batch, steps)``."""
        return torch.stack(self._tokens, 1) if self._tokens else self.prompts[:, :0]

    def sequences(self) -> Tensor:
        """Return prompts and new tokens, ``(batch, prompt + steps)``."""
        return torch.cat([self.prompts, self.new_tokens()], 1)

    def authors(self) -> Tensor:
        """Return who wrote each new token, ``(batch, steps)``; -1 for nobody or all."""
        return torch.stack(self._members, 1) if self._members else self.prompts[:, :0].clone()
