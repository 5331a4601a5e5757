"""Log-probabilities and entropies of tokens, in slices that keep memory flat.

A batch of logits is by far the largest tensor of language-model training: (samples, tokens,
vocabulary). Nothing here makes a second one, and for the usual models not even a first.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from icml.core.cuda.fused import ROWS_AT_ONCE, score_tokens

# 2^24 float32 logits are 64 MiB (ours).
LOGITS_AT_ONCE = 2**24

# transformers' families whose logits are lm_head(base_model(ids)), capped where the configuration
# has a final_logit_softcapping, and nothing more. Others scale them afterwards (cohere, granite,
# ...), so they are asked for their own logits.
PLAIN_HEAD = frozenset(
    {
        "gemma", "gemma2", "gemma3_text", "gpt2", "gpt_neox", "llama", "mistral", "qwen2", "qwen3",
        "smollm3",
    }
)  # fmt: skip


def log_distribution(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """Log-probabilities over the vocabulary: ``log_softmax(logits / temperature)``.

    Args:
        logits: ``(..., vocabulary)``.
        temperature: Divides the logits, > 0.

    Returns:
        Nats, shape of ``logits``, at least float32.

    Raises:
        ValueError: If the temperature is not a number > 0.
    """
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature must be > 0, got {temperature}")
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return torch.log_softmax(wide if temperature == 1 else wide / temperature, dim=-1)


def selected(logits: Tensor, ids: Tensor, *, temperature: float = 1.0) -> Tensor:
    """Log-probability of one chosen token a position.

    Args:
        logits: ``(..., vocabulary)``.
        ids: The chosen tokens, integers in [0, vocabulary), ``(...)``.
        temperature: Divides the logits, > 0.

    Returns:
        Nats, shape of ``ids``, at least float32.

    Raises:
        ValueError: If the shapes do not fit or the temperature is not > 0.

    Example:
        >>> selected(torch.zeros(1, 4), torch.tensor([2]))
        tensor([-1.3863])
    """
    if logits.shape[:-1] != ids.shape:
        raise ValueError(
            f"ids must have the shape of the positions {tuple(logits.shape[:-1])}, "
            f"got {tuple(ids.shape)}"
        )
    return _selected(logits, ids, temperature, chunk=None)


def _selected(logits: Tensor, ids: Tensor, temperature: float, chunk: int | None) -> Tensor:
    def score(part: Tensor, chosen: Tensor) -> Tensor:
        logp = log_distribution(part, temperature)
        return logp.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)

    size = _positions(chunk, logits.shape[-1]) // max(math.prod(logits.shape[:-2]), 1)
    return _in_slices(score, logits, ids, dim=logits.ndim - 2, size=size)


def entropy(logits: Tensor, *, temperature: float = 1.0, chunk: int | None = None) -> Tensor:
    """Entropy of each next-token distribution.

    Args:
        logits: ``(..., vocabulary)``; -inf means probability 0.
        temperature: Divides the logits, > 0.
        chunk: Positions worked on at once, >= 1; as many as hold 2^24 logits if None.

    Returns:
        Nats in [0, log(vocabulary)], ``(...)``, at least float32.

    Raises:
        ValueError: If the temperature or ``chunk`` is out of range.

    Example:
        >>> entropy(torch.zeros(1, 4))
        tensor([1.3863])
    """

    def score(part: Tensor) -> Tensor:
        logp = log_distribution(part, temperature)
        # 0 * -inf would be NaN where the true limit is 0.
        return -(logp.exp() * torch.where(logp == -torch.inf, 0.0, logp)).sum(-1)

    size = _positions(chunk, logits.shape[-1]) // max(math.prod(logits.shape[:-2]), 1)
    return _in_slices(score, logits, dim=logits.ndim - 2, size=size)


def _positions(chunk: int | None, vocabulary: int) -> int:
    """How many positions are worked on at once."""
    if chunk is None:
        return max(LOGITS_AT_ONCE // max(vocabulary, 1), 1)
    if chunk < 1:
        raise ValueError(f"chunk must be >= 1 position, got {chunk}")
    return chunk


def _in_slices(score: Callable[..., Tensor], *tensors: Tensor, dim: int, size: int) -> Tensor:
    """Apply ``score`` to slices along ``dim`` and join the results, which lie along it too.

    A slice's intermediate results are thrown away and computed again in the backward pass.
    """
    if dim < 0 or tensors[0].shape[dim] <= size:
        return score(*tensors)
    slices = zip(*(tensor.split(max(size, 1), dim) for tensor in tensors), strict=True)
    parts = [
        checkpoint(score, *part, use_reentrant=False, preserve_rng_state=False) for part in slices
    ]
    return torch.cat(parts, dim)


def sequence(
    model: Any,
    ids: Tensor,
    mask: Tensor,
    *,
    temperature: float = 1.0,
    chunk: int | None = None,
) -> Tensor:
    """Log-probability of each marked token of a sequence given the tokens before it.

    For the usual transformers families the marked positions are scored straight from the last
    hidden states (`icml.core.cuda.fused`), so that (samples, tokens, vocabulary) never exists; any
    other causal model is called once as ``model(ids).logits``. Gradients flow; slices are computed
    again in the backward pass.

    Args:
        model: A causal language model. It is called without an attention mask, so rows must be
            padded on the right, where no marked token can see the padding.
        ids: Token ids, ``(samples, tokens)``, padding included.
        mask: Tokens to score, booleans or 0/1, ``(samples, tokens)``. The first token of a row
            follows nothing and cannot be scored.
        temperature: Divides the logits, > 0.
        chunk: Positions worked on at once, >= 1; None takes a number that keeps memory small.

    Returns:
        Nats, ``(samples, tokens)``, at least float32: entry t belongs to ``ids[:, t]``; 0 outside
        the mask.

    Raises:
        ValueError: If the shapes do not fit, the mask marks a first token, or the temperature or
            ``chunk`` is out of range.
    """
    if ids.ndim != 2 or mask.shape != ids.shape:
        raise ValueError(
            "ids and mask must be (samples, tokens) of one shape, "
            f"got {tuple(ids.shape)} and {tuple(mask.shape)}"
        )
    marked = mask.bool()
    if bool(marked[:, :1].any()):
        raise ValueError("mask marks the first token of a row, which has no prefix to follow")
    shifted, targets = marked[:, 1:], ids[:, 1:]
    if ids.shape[1] < 2:
        return torch.zeros(ids.shape, device=ids.device)
    head = _plain_head(model)
    if head is None:
        logits = model(ids[:, :-1]).logits
        # The logits may be of fewer tokens than the prompts are made of.
        wanted = targets.masked_fill(~shifted, 0)
        found = _selected(logits, wanted, temperature, chunk)[shifted]
    else:
        hidden = model.base_model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
        found = score_tokens(
            hidden[shifted],
            head.weight,
            targets[shifted],
            bias=head.bias,
            temperature=temperature,
            softcap=getattr(model.config, "final_logit_softcapping", None),
            rows_at_once=ROWS_AT_ONCE if chunk is None else _positions(chunk, 1),
        ).logp
    scattered = found.new_zeros(ids.shape)
    scattered[marked] = found
    return scattered


def _plain_head(model: Any) -> nn.Linear | None:
    """Return the output layer of a model whose logits are its product with the hidden states."""
    # A transformers model can only be at hand if that module is loaded: no import, no cost.
    modeling = sys.modules.get("transformers.modeling_utils")
    if modeling is None or not isinstance(model, modeling.PreTrainedModel):
        return None
    if model.config.model_type not in PLAIN_HEAD:
        return None
    head = model.get_output_embeddings()
    # An adapter or a hook on the layer (LoRA, weights that are gathered on use) must be called.
    plain = type(head) is nn.Linear and not (head._forward_hooks or head._forward_pre_hooks)
    return head if plain else None
