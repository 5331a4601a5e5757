"""Usage summed by what it was for."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import NamedTuple


class Usage(NamedTuple):
    """What calls have used."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Read and written together."""
        return self.input_tokens + self.output_tokens


class Ledger:
    """Sums usage by tag; each call counts under the innermost tag that it was made in."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._sums: dict[str, Usage] = {}
        self._tag: ContextVar[str] = ContextVar("ledger tag", default="")
        self._lock = Lock()

    @contextmanager
    def tag(self, name: str) -> Generator[None]:
        """Book what is used inside, also in tasks started inside, under a name.

        Example:
            >>> ledger = Ledger()
            >>> with ledger.tag("node:critic"):
            ...     ledger.add(input_tokens=20, output_tokens=5)
            >>> ledger.by_tag()["node:critic"].tokens
            25
        """
        before = self._tag.set(name)
        try:
            yield
        finally:
            self._tag.reset(before)

    def add(self, *, input_tokens: int, output_tokens: int) -> None:
        """Book one call under the current tag, the empty one outside of all tags."""
        tag = self._tag.get()
        with self._lock:
            calls, read, written = self._sums.get(tag, Usage())
            self._sums[tag] = Usage(calls + 1, read + input_tokens, written + output_tokens)

    def by_tag(self) -> dict[str, Usage]:
        """Return the sums, in the order in which the tags were first used."""
        with self._lock:
            return dict(self._sums)

    def total(self) -> Usage:
        """Return the sum over all tags."""
        sums = self.by_tag().values()
        return Usage(*(sum(column) for column in zip(*sums, strict=True))) if sums else Usage()
