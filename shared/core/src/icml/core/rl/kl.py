"""Kullback-Leibler divergence: estimated on sampled tokens, or exact over the vocabulary."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from icml.core.models.logprobs import log_distribution
from icml.core.rl.masked import at_least_float32


def kl_estimate(logp: Tensor, ref_logp: Tensor, kind: Literal["k1", "k2", "k3"]) -> Tensor:
    """Estimate KL(policy || reference) at tokens that the policy sampled.

    With ``d = logp - ref_logp``: k1 is ``d`` (unbiased, often negative), k2 is ``d^2 / 2``
    (biased, low variance), k3 is ``exp(-d) + d - 1`` (unbiased, never negative).

    Args:
        logp: Log-probabilities of the tokens under the policy, in nats, any shape.
        ref_logp: The same under the reference, shape of ``logp``.
        kind: Which estimator.

    Returns:
        Nats per token, shape of ``logp``, at least float32.

    Raises:
        ValueError: If the shapes differ or the kind is unknown.

    Example:
        >>> kl_estimate(torch.tensor([-1.0]), torch.tensor([-1.5]), "k1")
        tensor([0.5000])
    """
    if logp.shape != ref_logp.shape:
        raise ValueError(
            f"logp and ref_logp must have one shape, got {tuple(logp.shape)} "
            f"and {tuple(ref_logp.shape)}"
        )
    difference = at_least_float32(logp) - at_least_float32(ref_logp)
    if kind == "k1":
        return difference
    if kind == "k2":
        return difference.square() / 2
    if kind == "k3":
        return torch.expm1(-difference) + difference
    raise ValueError(f"kind must be 'k1', 'k2' or 'k3', got {kind!r}")


def full_kl(
    logits_p: Tensor,
    logits_q: Tensor,
    *,
    direction: Literal["reverse", "forward"],
    temperature: float = 1.0,
) -> Tensor:
    """Exact divergence between two next-token distributions, over the whole vocabulary.

    p is the student (the policy), q the teacher (the reference). Reverse is KL(p || q), forward
    is KL(q || p).

    Args:
        logits_p: The student's logits, ``(..., vocabulary)``; -inf means probability 0.
        logits_q: The teacher's logits, shape of ``logits_p``.
        direction: Which of the two divergences.
        temperature: Divides both sets of logits, > 0.

    Returns:
        Nats per position, ``(...)``, at least float32; inf where the second distribution misses
        a token of the first.

    Raises:
        ValueError: If the shapes differ, the direction is unknown or the temperature is not > 0.

    Example:
        >>> p, q = torch.tensor([0.5, 0.5]).log(), torch.tensor([0.25, 0.75]).log()
        >>> full_kl(p, q, direction="reverse")
        tensor(0.1438)
    """
    if logits_p.shape != logits_q.shape:
        raise ValueError(
            f"both logits must have one shape, got {tuple(logits_p.shape)} "
            f"and {tuple(logits_q.shape)}"
        )
    if direction not in ("reverse", "forward"):
        raise ValueError(f"direction must be 'reverse' or 'forward', got {direction!r}")
    p, q = log_distribution(logits_p, temperature), log_distribution(logits_q, temperature)
    first, second = (p, q) if direction == "reverse" else (q, p)
    # A token that the first distribution never produces adds nothing: 0 * inf would be NaN.
    log_ratio = torch.where(first == -torch.inf, 0.0, first - second)
    return (first.exp() * log_ratio).sum(-1)
