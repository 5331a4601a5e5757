"""Draw completions from a causal model and score them, prompts of any lengths in one batch.

A row is a prompt, its completion without a gap, then padding on the right, which a causal model
cannot see: no attention mask, no position ids, any model with ``model(ids).logits``. While drawing,
a `icml.core.models.tiny.TinyGPT` and the decoders of transformers (with padding on the left) are
asked for new tokens only, through their key-value caches; any other model for the whole row, which
costs little in completions of a few dozen tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from icml.core.models import logprobs, steps

__all__ = ["Rollouts", "pad_right", "sample", "sample_with", "score"]

_PAD = 0  # any valid id does: nothing ever attends to padding


class Rollouts(NamedTuple):
    """Prompts with one sampled completion each; ``n`` rows."""

    prompt_ids: Tensor
    """``(n, longest prompt)`` int64, padded on the right."""
    prompt_lengths: Tensor
    """``(n,)`` int64, in tokens."""
    completion_ids: Tensor
    """``(n, longest completion)`` int64; 0 where ``mask`` is False."""
    mask: Tensor
    """``(n, longest completion)`` bool: tokens the model drew, the end token among them."""
    logp: Tensor
    """``(n, longest completion)`` log-probability, in nats, of each drawn token; 0 elsewhere."""
    entropy: Tensor
    """Like ``logp``: entropy, in nats, of the distribution each token was drawn from."""

    def completions(self) -> list[list[int]]:
        """Return the drawn ids of each row, without padding."""
        rows = zip(self.completion_ids.tolist(), self.mask.sum(1).tolist(), strict=True)
        return [ids[:length] for ids, length in rows]


def pad_right(sequences: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Stack token sequences into one int64 tensor, padded on the right.

    Returns:
        Ids ``(sequences, longest)`` and lengths ``(sequences,)``.
    """
    lengths = torch.tensor([len(sequence) for sequence in sequences], dtype=torch.long)
    longest = int(lengths.max()) if len(sequences) else 0
    ids = torch.full((len(sequences), longest), _PAD)
    flat = torch.tensor([token for sequence in sequences for token in sequence], dtype=torch.long)
    ids[torch.arange(longest) < lengths[:, None]] = flat
    return ids, lengths


def sample(
    model: nn.Module,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    eos_id: int,
    generator: torch.Generator,
    temperature: float = 1.0,
) -> Rollouts:
    """Draw one completion for each prompt.

    Row i's tokens depend on row i's own random numbers alone, and the generator moves by the same
    amount whatever is drawn: a row's completion does not depend on the rest of its batch (but for
    rounding), and two models that see the same seed see the same random numbers.

    Args:
        model: Causal model; ``model(ids).logits`` is ``(batch, tokens, vocabulary)``.
        prompts: Token ids of each prompt; at least one token each.
        max_new_tokens: Longest completion, in tokens.
        eos_id: A row ends when it draws this token, which counts as drawn.
        generator: Source of all randomness; a CPU generator, whatever the model's device.
        temperature: Divides the logits; above 0.

    Raises:
        ValueError: If a prompt is empty, or a number is out of range.
    """
    if max_new_tokens < 1 or temperature <= 0:
        raise ValueError(
            "max_new_tokens and temperature must be positive, "
            f"got {max_new_tokens} and {temperature}"
        )
    uniforms = torch.rand(len(prompts), max_new_tokens, generator=generator)
    return sample_with(model, prompts, uniforms, eos_id=eos_id, temperature=temperature)


@torch.no_grad()
def sample_with(
    model: nn.Module,
    prompts: Sequence[Sequence[int]],
    uniforms: Tensor,
    *,
    eos_id: int,
    temperature: float = 1.0,
    top_p: float = 1.0,
) -> Rollouts:
    """Draw one completion for each prompt by random numbers that are given.

    Args:
        model: Causal model; ``model(ids).logits`` is ``(batch, tokens, vocabulary)``.
        prompts: Token ids of each prompt; at least one token each.
        uniforms: ``(prompts, longest completion)`` in [0, 1), one a token that may be drawn.
        eos_id: A row ends when it draws this token, which counts as drawn.
        temperature: Divides the logits; above 0.
        top_p: Draws among the fewest tokens that together have this probability, in (0, 1]. The
            log-probabilities and entropies returned are those of all tokens.

    Raises:
        ValueError: If a prompt is empty, or a number is out of range.
    """
    device = next(model.parameters()).device
    prompt_ids, lengths = (tensor.to(device) for tensor in pad_right(prompts))
    if not len(prompts) or not lengths.all():
        raise ValueError("every prompt needs at least one token, and there must be a prompt")
    uniforms = uniforms.to(device)
    columns: list[tuple[Tensor, ...]] = []
    live = torch.ones(len(prompts), dtype=torch.bool, device=device)
    read = _reader(model)(model, prompt_ids, lengths, uniforms.shape[1])
    token = None
    for uniform in uniforms.unbind(1):
        logits = read(token).float()
        probabilities = steps.warp(logits, temperature=temperature, top_p=top_p)
        token = _inverse_cdf(probabilities, uniform).masked_fill(~live, _PAD)
        logp = logprobs.selected(logits, token, temperature=temperature)
        entropy = logprobs.entropy(logits, temperature=temperature)
        columns.append((token, live, logp * live, entropy * live))
        live = live & (token != eos_id)
        if not live.any():
            break
    stacked = (torch.stack(column, dim=1) for column in zip(*columns, strict=True))
    return Rollouts(prompt_ids, lengths, *stacked)


def score(
    model: nn.Module,
    prompt_ids: Tensor,
    prompt_lengths: Tensor,
    completion_ids: Tensor,
    *,
    temperature: float = 1.0,
) -> Tensor:
    """Log-probability, in nats, of each completion token under ``model``, with gradients.

    Args:
        model: Causal model; ``model(ids).logits`` is ``(batch, tokens, vocabulary)``.
        prompt_ids: ``(n, longest prompt)``, padded on the right.
        prompt_lengths: ``(n,)``, in tokens.
        completion_ids: ``(n, longest completion)``, padded on the right; the entries returned
            for padding mean nothing and are for the caller to mask.
        temperature: Divides the logits, as it did when the completions were drawn.

    Returns:
        ``(n, longest completion)``, at least float32.

    Raises:
        ValueError: If a prompt is empty or the temperature is not > 0.
    """
    rows = _join(prompt_ids, prompt_lengths, completion_ids)
    tokens = torch.arange(completion_ids.shape[1], device=rows.device)
    places = prompt_lengths[:, None] + tokens
    mask = torch.zeros_like(rows, dtype=torch.bool).scatter_(1, places, True)
    return logprobs.sequence(model, rows, mask, temperature=temperature).gather(1, places)


def _join(prompt_ids: Tensor, lengths: Tensor, completion_ids: Tensor) -> Tensor:
    """Put each completion straight after its prompt; padding moves to the right end."""
    rows = torch.cat([prompt_ids, torch.full_like(completion_ids, _PAD)], dim=1)
    tokens = torch.arange(completion_ids.shape[1], device=rows.device)
    return rows.scatter_(1, lengths[:, None] + tokens, completion_ids)


Reader = Callable[[Tensor | None], Tensor]
"""Takes each row's newest token, None before the first; gives its logits of the next one."""


def _reader(model: nn.Module) -> Callable[[Any, Tensor, Tensor, int], Reader]:
    if hasattr(model, "new_cache"):
        return _cached_reader
    # Every decoder of transformers has one; the class itself would cost importing transformers.
    return _transformers_reader if hasattr(model, "generation_config") else _whole_row_reader


def _whole_row_reader(model: nn.Module, prompt_ids: Tensor, lengths: Tensor, room: int) -> Reader:
    n, longest = prompt_ids.shape
    rows = torch.cat([prompt_ids, prompt_ids.new_full((n, room - 1), _PAD)], dim=1)
    drawn = -1

    def read(token: Tensor | None) -> Tensor:
        nonlocal drawn
        if token is not None:
            rows.scatter_(1, (lengths + drawn)[:, None], token[:, None])
        drawn += 1
        return _nth(model(rows[:, : longest + drawn]).logits, lengths + drawn - 1)

    return read


def _cached_reader(model: Any, prompt_ids: Tensor, lengths: Tensor, room: int) -> Reader:
    # The last token that is drawn is never read.
    cache = model.new_cache(len(prompt_ids), prompt_ids.shape[1] + room - 1)

    def read(token: Tensor | None) -> Tensor:
        if token is not None:
            return model(token[:, None], cache=cache).logits[:, 0]
        logits = model(prompt_ids, cache=cache).logits
        cache.lengths.copy_(lengths)  # padding is overwritten by what is drawn
        return _nth(logits, lengths - 1)

    return read


def _transformers_reader(model: Any, prompt_ids: Tensor, lengths: Tensor, room: int) -> Reader:
    columns = torch.arange(prompt_ids.shape[1], device=lengths.device)
    places = columns - (columns.numel() - lengths)[:, None]
    left_padded = prompt_ids.gather(1, places.clamp(min=0))
    attention = (places >= 0).long()
    cache = steps.new_cache(model)

    def read(token: Tensor | None) -> Tensor:
        nonlocal attention
        if token is None:
            return steps.forward_step(model, left_padded, cache, attention_mask=attention)
        attention = torch.nn.functional.pad(attention, (0, 1), value=1)
        return steps.forward_step(model, token[:, None], cache, attention_mask=attention)

    return read


def _nth(logits: Tensor, positions: Tensor) -> Tensor:
    """Pick one position a row: ``(n, tokens, vocabulary)`` to ``(n, vocabulary)``."""
    return logits[torch.arange(len(logits), device=logits.device), positions]


def _inverse_cdf(probabilities: Tensor, uniforms: Tensor) -> Tensor:
    """First token whose cumulative probability exceeds ``uniforms``: exact draws, row by row."""
    cumulative = probabilities.cumsum(-1)
    # Rounding can leave the last entry below 1; scaling by it keeps every draw in range.
    return (cumulative <= uniforms[:, None] * cumulative[:, -1:]).sum(-1)
