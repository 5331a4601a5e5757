"""Generation in steps: key-value caches, logits of new tokens, and what the next is drawn from.

Everything goes through the public cache of transformers, so a step may be one token or many, with
rows of any lengths in one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from icml.core.errors import require

__all__ = ["Warp", "forward_step", "new_cache", "next_distributions", "warp"]

Warp = Callable[[Tensor], Tensor]
"""Turns logits ``(..., vocabulary)`` into probabilities of the same shape."""


def new_cache(model: Any) -> Any:
    """Return an empty key-value cache that fits a model.

    Args:
        model: A decoder of transformers.

    Returns:
        A ``transformers.DynamicCache``; sliding-window layers keep their window only.

    Raises:
        TypeError: If the model is no decoder of transformers.
    """
    transformers = require("transformers", extra="icml-core[hf]")
    if not isinstance(model, transformers.GenerationMixin) or model.config.is_encoder_decoder:
        raise TypeError(f"a decoder of transformers is wanted, got {type(model).__name__}")
    return transformers.DynamicCache(config=model.config)


@torch.no_grad()
def forward_step(
    model: Any,
    ids: Tensor,
    cache: Any,
    *,
    attention_mask: Tensor | None = None,
    position_ids: Tensor | None = None,
    last_only: bool = True,
) -> Tensor:
    """Read new tokens into a cache and return the logits of what follows, without gradients.

    Args:
        model: A decoder of transformers.
        ids: ``(batch, new tokens)``, at least one.
        cache: Made by `new_cache`; it is extended by the new tokens.
        attention_mask: ``(batch, tokens in the cache + new tokens)``, 0 for padding. Padding may
            stand on the left and, where no layer has a sliding window, between steps; it takes
            no position. Its own logits mean nothing.
        position_ids: ``(batch, new tokens)``; by default the number of tokens before each, those
            that ``attention_mask`` leaves out not counted.
        last_only: Apply the output layer to the last new token alone, which saves most of the
            time and memory of a long prompt.

    Returns:
        ``(batch, vocabulary)`` with ``last_only``, else ``(batch, new tokens, vocabulary)``.

    Raises:
        ValueError: If a shape does not fit.
    """
    if ids.ndim != 2 or not ids.shape[1]:
        raise ValueError(f"ids must be (batch, new tokens >= 1), got {tuple(ids.shape)}")
    if attention_mask is not None:
        wanted = (ids.shape[0], cache.get_seq_length() + ids.shape[1])
        if attention_mask.shape != wanted:
            raise ValueError(
                "attention_mask must cover the cache and the new tokens, "
                f"{wanted}, got {tuple(attention_mask.shape)}"
            )
        if position_ids is None:
            positions = attention_mask.long().cumsum(1) - 1
            position_ids = positions.clamp(min=0)[:, -ids.shape[1] :]
    output = model(
        input_ids=ids,
        cache=cache,
        attention_mask=attention_mask,
        position_ids=position_ids,
        use_cache=True,
        logits_to_keep=int(last_only),  # 0 keeps all
    )
    return output.logits[:, -1] if last_only else output.logits


def warp(logits: Tensor, *, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> Tensor:
    """Return the probabilities that ``generate`` of transformers draws from.

    Temperature, top-k and top-p are applied in this order. Tokens that tie with the k-th best are
    all kept; top-p keeps the fewest best tokens that together reach ``top_p``.

    Args:
        logits: ``(..., vocabulary)``; -inf means probability 0.
        temperature: Divides the logits, > 0.
        top_k: Tokens to keep, 0 for all.
        top_p: Probability to keep, in (0, 1].

    Returns:
        Probabilities in the shape of ``logits``, at least float32.

    Raises:
        ValueError: If a setting is out of range.

    Example:
        >>> warp(torch.tensor([0.0, 1.0, 2.0]).log(), top_k=1)
        tensor([0., 0., 1.])
    """
    if not 0 < temperature < float("inf"):
        raise ValueError(f"temperature must be > 0, got {temperature}")
    if top_k < 0:
        raise ValueError(f"top_k must be >= 0 tokens, got {top_k}")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p must be in (0, 1], got {top_p}")
    scores = logits if logits.dtype == torch.float64 else logits.float()
    if temperature != 1:
        scores = scores / temperature
    if 0 < top_k < scores.shape[-1]:
        worst = scores.topk(top_k).values[..., -1:]
        scores = scores.masked_fill(scores < worst, -torch.inf)
    if top_p < 1:
        scores = scores.masked_fill(_outside_nucleus(scores, top_p), -torch.inf)
    return scores.softmax(-1)


def _outside_nucleus(scores: Tensor, top_p: float) -> Tensor:
    """Mark the least likely tokens that together have at most 1 - ``top_p``, never the best one."""
    ascending, order = scores.sort(dim=-1)
    removed = ascending.softmax(-1).cumsum(-1) <= 1 - top_p
    removed[..., -1] = False
    return torch.zeros_like(removed).scatter(-1, order, removed)


def next_distributions(
    model: Any, ids: Tensor, *, warp: Warp | None = None, chunk_positions: int = 64
) -> Iterator[Tensor]:
    """Yield the law of the next token after every prefix, some positions at a time.

    All logits of a text at once would be (batch, tokens, vocabulary); here only a slice exists.

    Args:
        model: A decoder of transformers.
        ids: ``(batch, tokens)``; padding on the right changes nothing before it.
        warp: Turns logits into probabilities, by default softmax in at least float32.
        chunk_positions: Tokens read at once, >= 1.

    Yields:
        ``(batch, up to chunk_positions, vocabulary)`` probabilities; entry t over all slices is
        the law of the token at t + 1, so the last one is that of the token after the text.

    Raises:
        ValueError: If ``chunk_positions`` is below 1.
        TypeError: If the model is no decoder of transformers.
    """
    if chunk_positions < 1:
        raise ValueError(f"chunk_positions must be >= 1, got {chunk_positions}")
    return _distributions(model, ids, warp or _softmax, new_cache(model), chunk_positions)


def _softmax(logits: Tensor) -> Tensor:
    return warp(logits)


def _distributions(
    model: Any, ids: Tensor, to_probabilities: Warp, cache: Any, chunk: int
) -> Iterator[Tensor]:
    for part in ids.split(chunk, dim=1):
        yield to_probabilities(forward_step(model, part, cache, last_only=False))
