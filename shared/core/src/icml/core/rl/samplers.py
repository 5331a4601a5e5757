"""Where the responses of an episode come from: a model, asked for many at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from icml.core.rl.sampling import sample_with

__all__ = ["HFSampler", "ModelSampler", "Sample", "Sampler"]


@dataclass(frozen=True, eq=False)
class Sample:
    """One response."""

    ids: list[int]
    """Drawn token ids, the end token among them; at least one."""
    logps: Tensor
    """``(ids,)`` log-probability, in nats, of each."""
    entropies: Tensor
    """``(ids,)`` entropy, in nats, of the distribution each was drawn from."""
    text: str
    """The response as the parser reads it: decoded, without the end token."""


class Sampler(Protocol):
    """Draws one response for each prompt."""

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        max_new_tokens: int,
        generators: Sequence[torch.Generator],
    ) -> list[Sample]:
        """Draw.

        Args:
            prompts: Token ids, at least one each.
            max_new_tokens: Longest response, in tokens.
            generators: One a prompt, on the CPU: a response that draws from its own alone doesn't
                depend on which other prompts are asked beside it.
        """
        ...


@dataclass(frozen=True, eq=False)
class ModelSampler:
    """Samples from any causal model with ``model(ids).logits``, `TinyGPT` say."""

    model: nn.Module
    decode: Callable[[Sequence[int]], str]
    """Token ids, without the end token, to text."""
    eos_id: int
    """Token that ends a response; it is part of it."""
    temperature: float = 1.0
    """Divides the logits; the recorded numbers are those of the tempered distribution."""
    top_p: float = 1.0
    """Draws among the fewest tokens that hold this probability. The recorded numbers, which a loss
    compares with, are those of all tokens."""
    rows_at_once: int = 64
    """Prompts a forward pass."""

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        max_new_tokens: int,
        generators: Sequence[torch.Generator],
    ) -> list[Sample]:
        """Draw one response for each prompt; see `Sampler`."""
        draws = [torch.rand(max_new_tokens, generator=generator) for generator in generators]
        uniforms = torch.stack(draws)
        samples: list[Sample] = []
        for first in range(0, len(prompts), self.rows_at_once):
            rows = slice(first, first + self.rows_at_once)
            rollouts = sample_with(
                self.model,
                prompts[rows],
                uniforms[rows],
                eos_id=self.eos_id,
                temperature=self.temperature,
                top_p=self.top_p,
            )
            logps, entropies = rollouts.logp.cpu(), rollouts.entropy.cpu()
            for row, ids in enumerate(rollouts.completions()):
                text = self.decode(ids[:-1] if ids[-1] == self.eos_id else ids)
                n = len(ids)
                samples.append(Sample(ids, logps[row, :n], entropies[row, :n], text))
        return samples


class HFSampler(ModelSampler):
    """Samples from a transformers model, with its key-value cache and its tokenizer."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        temperature: float = 1.0,
        top_p: float = 1.0,
        rows_at_once: int = 64,
    ) -> None:
        """Take model and tokenizer as ``transformers`` gives them."""
        super().__init__(
            model, tokenizer.decode, tokenizer.eos_token_id, temperature, top_p, rows_at_once
        )
