"""A member while it generates: its cache, and the tokens that it hasn't read yet.

The saving of ME is here. A token is appended to every member, which costs nothing; a member that
is drawn reads all it has missed in one forward pass (Sec. 3: lazy catch-up).
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from icml.core.errors import UserError
from icml.core.models.steps import forward_step, new_cache
from icml.me.members import Member


class MemberState:
    """One member's reading of a batch of texts."""

    def __init__(self, member: Member, ids: Tensor, mask: Tensor) -> None:
        """Begin with prompts that are not read yet.

        Args:
            member: The model.
            ids: ``(batch, tokens)``.
            mask: ``(batch, tokens)``, False where there is no token.
        """
        self.member = member
        self.ids = ids.to(member.device)
        self.mask = mask.to(member.device)
        self.calls = 0
        self.tokens = 0
        self.seconds = 0.0
        self._whole = bool(mask.all())
        self._cache: Any = None
        self._read = 0  # columns in the cache

    @property
    def lengths(self) -> Tensor:
        """Tokens of each row, read or not, ``(batch,)``."""
        return self.mask.sum(1)

    @property
    def pending(self) -> int:
        """Tokens of all rows that have not been read."""
        return int(self.mask[:, self._read :].sum())

    @property
    def sliding(self) -> bool:
        """Whether a layer forgets what is further away than a window."""
        return any(new_cache(self.member.model).is_sliding)

    def append(self, ids: Tensor, mask: Tensor | None = None) -> None:
        """Add tokens to be read later.

        Args:
            ids: ``(batch, new tokens)``.
            mask: ``(batch, new tokens)``, False where a row has no token; by default all have.
        """
        ids = ids.to(self.member.device)
        whole = mask is None or bool(mask.all())
        new = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.to(ids.device)
        self.ids = torch.cat([self.ids, ids], 1)
        self.mask = torch.cat([self.mask, new], 1)
        self._whole = self._whole and whole

    def forget(self, row: int, count: int) -> None:
        """Take back a row's last tokens, read or not: their places are never looked at again."""
        if count:
            places = self.mask[row].nonzero()[-count:, 0]
            self.mask[row, places] = False
            self._whole = False

    def next_logits(self) -> Tensor:
        """Read what is pending in one forward pass and return the logits of what follows.

        Returns:
            ``(batch, vocabulary)``. Rows without pending tokens hold nothing of use.

        Raises:
            UserError: If the member's logits are NaN or infinite.
        """
        start = perf_counter()
        if self._cache is None:
            self._cache = new_cache(self.member.model)
        count = self.pending if not self._whole else self.ids[:, self._read :].numel()
        logits = forward_step(
            self.member.model,
            self.ids[:, self._read :],
            self._cache,
            attention_mask=None if self._whole else self.mask.long(),
        )
        rows = self.mask[:, -1]
        if not bool(torch.isfinite(logits.amax(1))[rows].all()):
            raise UserError(
                f"{self.member.name} gives logits that are NaN or infinite: its weights are "
                "damaged, or its number type is too small"
            )
        self._read = self.ids.shape[1]
        self.calls += 1
        self.tokens += count
        self.seconds += perf_counter() - start
        return logits
