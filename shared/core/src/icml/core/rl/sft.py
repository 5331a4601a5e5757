"""Supervised fine-tuning on prompt-completion pairs: the warm start of an RL experiment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import nn

from icml.core.rl.functional import masked_mean
from icml.core.rl.sampling import pad_right, score

__all__ = ["Pair", "supervised"]

Pair = tuple[Sequence[int], Sequence[int]]
"""Token ids of a prompt and of its completion; the completion holds its own end token."""


def supervised(
    model: nn.Module, batches: Iterable[Sequence[Pair]], *, learning_rate: float = 3e-3
) -> list[float]:
    """Train ``model`` in place, one AdamW step a batch, on the mean of -log p over tokens.

    Args:
        model: Causal model; ``model(ids).logits`` is ``(batch, tokens, vocabulary)``.
        batches: Pairs of prompt and completion; only completion tokens are learnt.
        learning_rate: Step size of AdamW, without weight decay; above 0.

    Returns:
        The loss of each batch, in nats a token, before its step.
    """
    model.eval()  # no dropout: nothing here may draw from the global random state
    device = next(model.parameters()).device
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.0)
    losses = []
    for batch in batches:
        prompts, prompt_lengths = (x.to(device) for x in pad_right([pair[0] for pair in batch]))
        completions, lengths = (x.to(device) for x in pad_right([pair[1] for pair in batch]))
        mask = torch.arange(completions.shape[1], device=device) < lengths[:, None]
        loss = -masked_mean(score(model, prompts, prompt_lengths, completions), mask)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
