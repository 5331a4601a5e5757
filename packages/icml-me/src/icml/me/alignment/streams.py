"""The text of a row while its tokens come in: every token is decoded once.

Bytes of a character that is not complete yet are held back.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Any, Protocol


class TextStream(Protocol):
    """Turns tokens into text as they come."""

    def push(self, token: int) -> str:
        """Take a token and return the text that it completes."""
        ...

    @property
    def whole(self) -> bool:
        """Whether no bytes are held back."""
        ...


class ByteStream:
    r"""Text from tokens whose bytes are known; bytes that are no UTF-8 give U+FFFD.

    Example:
        >>> stream = ByteStream({0: b"\xf0\x9f", 1: b"\x98\x80"})
        >>> stream.push(0), stream.whole, stream.push(1)
        ('', False, '😀')
    """

    def __init__(self, texts: Mapping[int, bytes]) -> None:
        """Begin a text.

        Args:
            texts: What each token writes; tokens that are not there write nothing.
        """
        self._texts = texts
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        """Take a token and return the text that it completes."""
        if token in self._texts:
            return self._decoder.decode(self._texts[token])
        return self._decoder.decode(b"", final=True)  # nothing goes on after a control token

    @property
    def whole(self) -> bool:
        """Whether no bytes are held back."""
        return not self._decoder.getstate()[0]


class WordStream:
    """Text from a tokenizer of whole words: each is decoded together with the one before it."""

    whole = True

    def __init__(self, tokenizer: Any) -> None:
        """Begin a text."""
        self._tokenizer = tokenizer
        self._before: list[int] = []

    def push(self, token: int) -> str:
        """Take a token and return its text, with what separates it from the one before."""
        text = self._decode([*self._before, token])[len(self._decode(self._before)) :]
        self._before = [token] if text else self._before
        return text

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True)
