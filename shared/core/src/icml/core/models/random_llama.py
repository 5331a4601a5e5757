"""Random Llamas of any size, with a tokenizer of bytes: nothing is downloaded."""

from __future__ import annotations

from typing import Any

from icml.core.errors import require
from icml.core.models.local import ModelAndTokenizer
from icml.core.models.source import RandomModel


def build(sizes: RandomModel) -> ModelAndTokenizer:
    """Build the model of a ``random:llama`` source on the CPU, in float32 and eval mode.

    Raises:
        MissingExtra: If transformers is not installed.
    """
    from icml.core.models.tiny import causal_lm

    model = causal_lm(
        sizes.vocab,
        d=sizes.hidden,
        layers=sizes.layers,
        heads=sizes.heads,
        ctx=sizes.ctx,
        seed=sizes.seed,
    )
    return ModelAndTokenizer(model, byte_tokenizer(sizes.vocab))


def byte_tokenizer(vocab: int) -> Any:
    """Build a tokenizer with one token for each byte of UTF-8.

    A vocabulary of 247 or more holds all bytes that occur in UTF-8, so that every text comes back
    from its ids. A smaller one begins with printable ASCII and has ``<unk>`` for the rest.

    Args:
        vocab: Tokens at most, at least 5: ``<pad>``, ``<bos>``, ``<eos>``, ``<unk>``, then bytes.

    Returns:
        A ``transformers.PreTrainedTokenizerFast``.

    Raises:
        MissingExtra: If transformers is not installed.
    """
    from icml.core.models.tiny import SPECIAL_TOKENS

    transformers = require("transformers", extra="icml-core[hf]")
    tokenizers = require("tokenizers", extra="icml-core[hf]")
    shown = _shown_bytes()
    letters = [shown[byte] for byte in _utf8_bytes()][: vocab - len(SPECIAL_TOKENS)]
    pad, bos, eos, unk = SPECIAL_TOKENS
    ids = {token: index for index, token in enumerate((*SPECIAL_TOKENS, *letters))}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(ids, [], unk_token=unk))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False
    )
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=pad,
        bos_token=bos,
        eos_token=eos,
        unk_token=unk,
        clean_up_tokenization_spaces=False,
    )


def _utf8_bytes() -> list[int]:
    """Return the bytes that occur in UTF-8, printable ASCII first."""
    printable = range(0x20, 0x7F)
    rest = [byte for byte in range(0xF5) if byte not in printable and byte not in (0xC0, 0xC1)]
    return [*printable, *rest]


def _shown_bytes() -> list[str]:
    """Return the character that stands for each byte in byte-level vocabularies (GPT-2's rule).

    Bytes that are printable in Latin-1 stand for themselves, the others take the code points from
    256 on, in order.
    """
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    shifted = iter(range(0x100, 0x200))
    return [chr(byte) if byte in plain else chr(next(shifted)) for byte in range(0x100)]
