"""Embeddings: those of a model's tokens, and those of whole sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from icml.core.errors import UserError
from icml.core.models.load import LoadedModel, load

__all__ = ["SentenceEncoder", "input_embeddings", "sentence_encoder"]

_MAX_TOKENS = 256  # sentence_bert_config.json of all-MiniLM-L6-v2


def input_embeddings(model: Any) -> Tensor:
    """Return the embedding of every token, before any scaling that the model adds (Gemma's).

    Args:
        model: A model of transformers.

    Returns:
        ``(vocabulary, width)``, without gradients, of the model's number type. It is the weight
        itself and no copy. The vocabulary may have more rows than the tokenizer has tokens.
    """
    return model.get_input_embeddings().weight.detach()


@dataclass(frozen=True)
class SentenceEncoder:
    """Turns texts into vectors whose dot products are cosines; made by `sentence_encoder`."""

    loaded: LoadedModel

    @property
    def width(self) -> int:
        """Length of a vector."""
        return self.loaded.model.config.hidden_size

    @torch.inference_mode()
    def encode(self, texts: Sequence[str], *, batch_size: int = 32) -> Tensor:
        """Return one vector a text: the mean over its tokens, at unit length.

        A text's vector does not depend on the others, but for rounding.

        Args:
            texts: Texts; of each the first 256 tokens count.
            batch_size: Texts read at once, >= 1; those of like length go together.

        Returns:
            ``(texts, width)`` float32 on the CPU.

        Raises:
            TypeError: If ``texts`` is a single text.
            ValueError: If ``batch_size`` is below 1.
        """
        if isinstance(texts, str):
            raise TypeError("texts must be a list of texts, got one text: put it in a list")
        if batch_size < 1:
            raise ValueError(f"batch_size must be >= 1, got {batch_size}")
        vectors = torch.zeros(len(texts), self.width)
        by_length = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        for start in range(0, len(texts), batch_size):
            rows = by_length[start : start + batch_size]
            vectors[rows] = self._embed([texts[row] for row in rows]).cpu()
        return vectors

    def _embed(self, texts: list[str]) -> Tensor:
        inputs = self.loaded.tokenizer(
            texts, padding=True, truncation=True, max_length=_MAX_TOKENS, return_tensors="pt"
        ).to(self.loaded.spec.device)
        states = self.loaded.model(**inputs).last_hidden_state
        mask = inputs.attention_mask[:, :, None]
        return F.normalize((states * mask).sum(1) / mask.sum(1), dim=1)


def sentence_encoder(
    source: str | Path = "pkg:minilm", *, device: str | torch.device | None = None
) -> SentenceEncoder:
    """Load a sentence encoder; all-MiniLM-L6-v2 comes in a package.

    Args:
        source: As of `icml.core.models.load.load`; an encoder that was trained, as MiniLM was, to
            be averaged over its tokens.
        device: As torch names it; None takes the best there is.

    Raises:
        ModelNotInstalled: If the package is missing; the message has the command.
        UserError: If the source is unknown, or the model generates text.
    """
    loaded = load(source, dtype="float32", device=device)
    if loaded.model.can_generate():
        raise UserError(f"{source} is a model that generates text, a plain encoder is wanted")
    return SentenceEncoder(loaded)
