"""The bytes that each token of a tokenizer writes.

Two families write every text without loss: byte-level BPE (GPT-2's alphabet of printable
characters that stand for bytes) and SentencePiece with byte tokens (``▁`` for a space, ``<0xE2>``
for a byte).
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from icml.core.errors import UserError

_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")


class TokenBytes(NamedTuple):
    """What a vocabulary writes."""

    texts: dict[int, bytes]
    """Bytes of each token that writes text."""
    specials: dict[int, str]
    """Tokens that control (end, roles of a chat, …): shown as these words, no part of a text."""


def token_bytes(tokenizer: Any) -> TokenBytes:
    """Return what each token writes.

    Args:
        tokenizer: A fast tokenizer of transformers.

    Raises:
        UserError: If it is neither byte-level nor SentencePiece with byte tokens.
    """
    specials, texts = {}, {}
    for index, token in tokenizer.added_tokens_decoder.items():
        if token.special:
            specials[index] = token.content
        else:
            texts[index] = token.content.encode()
    read = _reader(tokenizer)
    for token, index in tokenizer.get_vocab().items():
        if index not in specials and index not in texts:
            texts[index] = read(token)
    return TokenBytes(dict(sorted(texts.items())), specials)


def writes_without_loss(tokenizer: Any) -> bool:
    """Tell whether `token_bytes` knows the tokenizer's family."""
    return _family(tokenizer) is not None


def _reader(tokenizer: Any) -> Any:
    family = _family(tokenizer)
    if family is None:
        raise UserError(
            "text alignment needs tokenizers that write any text without loss, byte-level or "
            f"SentencePiece with byte tokens, and {type(tokenizer).__name__} is neither"
        )
    if family == "bytes":
        alphabet = _byte_alphabet()
        return lambda token: b"".join(
            bytes([alphabet[c]]) if c in alphabet else c.encode() for c in token
        )
    return _sentencepiece_bytes


def _family(tokenizer: Any) -> str | None:
    decoder = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
    if decoder is None:
        return None
    described = json.loads(decoder.__getstate__())
    kinds = [part["type"] for part in described.get("decoders", [described])]
    if "ByteLevel" in kinds:
        return "bytes"
    spaces = "Metaspace" in kinds or '"▁"' in json.dumps(described, ensure_ascii=False)
    return "sentencepiece" if spaces and "ByteFallback" in kinds else None


def _sentencepiece_bytes(token: str) -> bytes:
    found = _BYTE_TOKEN.fullmatch(token)
    return bytes([int(found[1], 16)]) if found else token.replace("▁", " ").encode()


def _byte_alphabet() -> dict[str, int]:
    """Return the byte that each character of a byte-level vocabulary stands for.

    Bytes that are printable in Latin-1 stand for themselves, the others are written with the code
    points from 256 on, in order.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    shifted = iter(range(0x100, 0x200))
    return {chr(b) if b in printable else chr(next(shifted)): b for b in range(0x100)}
