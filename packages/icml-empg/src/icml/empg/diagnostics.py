"""What the entropy of a step has to do with the size of its update."""

from __future__ import annotations

import torch
from torch import Tensor

from icml.core.rl.masked import at_least_float32


def score_norm_sq(logits: Tensor) -> Tensor:
    """Return the expected squared norm of a token's score with respect to its logits (Prop. 1).

    With ``p = softmax(logits)`` and ``a`` drawn from it,
    ``E ||grad_logits log p(a)||^2 = E ||e_a - p||^2 = 1 - sum p^2 = 1 - exp(-H2)``, where ``H2``
    is the Renyi entropy of order 2: uncertain tokens get large updates.

    Args:
        logits: ``(..., vocabulary)``; log-probabilities are logits, too.

    Returns:
        ``(...)``, from 0 (certain) to below 1.

    Raises:
        ValueError: If there is no last dimension to sum over.

    Example:
        >>> score_norm_sq(torch.tensor([0.7, 0.2, 0.1]).log())
        tensor(0.4600)
    """
    if not logits.ndim or not logits.shape[-1]:
        raise ValueError(f"logits must be (..., vocabulary), got shape {tuple(logits.shape)}")
    return -torch.expm1(-renyi2_entropy(logits))


def renyi2_entropy(logits: Tensor) -> Tensor:
    """Return ``H2 = -log sum p^2`` of ``p = softmax(logits)``, in nats.

    Args:
        logits: ``(..., vocabulary)``.

    Returns:
        ``(...)``, >= 0.

    Example:
        >>> renyi2_entropy(torch.zeros(4)).item() == torch.tensor(4.0).log().item()
        True
    """
    log_p = at_least_float32(logits).log_softmax(dim=-1)
    return -(2 * log_p).logsumexp(dim=-1)
