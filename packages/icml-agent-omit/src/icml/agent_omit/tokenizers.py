"""Text to token ids by a tokenizer's name."""

from __future__ import annotations

from collections.abc import Callable

from icml.core.models.tokenizers import load_tokenizer

__all__ = ["load_encoder"]


def load_encoder(source: str) -> Callable[[str], list[int]]:
    """Return text to token ids, without special tokens; text that is no Unicode is mended first."""
    tokenizer = load_tokenizer(source)

    def encode(text: str) -> list[int]:
        clean = text.encode("utf-8", "replace").decode("utf-8")
        return tokenizer(clean, add_special_tokens=False)["input_ids"]

    return encode
