"""The paper's bound on the cost of omission, as functions that a test can enumerate.

Whatever is expected over trajectories, success or a return, differs between two policies by at most
the range of its values times ``sqrt(KL / 2)`` (Pinsker), and the KL of trajectories is the sum over
turns of the expected KL of the turn's choice, since the environment is the same for both.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["deviation_bound", "kl_divergence", "trajectory_kl"]


def deviation_bound(kl: float, value_range: float = 1.0) -> float:
    """Return the most by which an expectation can differ between two policies.

    Args:
        kl: KL divergence of their trajectories, in nats.
        value_range: Largest less smallest value of what is expected; 1 for success.

    Raises:
        ValueError: If a number is negative or NaN.

    Example:
        >>> round(deviation_bound(0.02014), 4)
        0.1003
    """
    if not (kl >= 0 and value_range >= 0):
        raise ValueError(f"kl and value_range must be at least 0, got {kl} and {value_range}")
    return value_range * math.sqrt(kl / 2)


def kl_divergence(p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    """KL(p || q) in nats over the last axis; inf where q misses what p has.

    Args:
        p: Probabilities, ``(..., choices)``.
        q: The same shape.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(p > 0, p * (np.log(p) - np.log(q)), 0.0)
    return terms.sum(-1)


def trajectory_kl(
    p: NDArray[np.float64],
    q: NDArray[np.float64],
    transitions: NDArray[np.float64],
    start: NDArray[np.float64],
) -> float:
    """KL(p || q) of whole trajectories, as the sum over turns of the expected KL of a turn.

    Args:
        p: First policy: probability of a choice, ``(turns, states, choices)``.
        q: Second policy, the same shape.
        transitions: Probability of the next state, ``(states, choices, states)``.
        start: Probability of the first state, ``(states,)``.

    Returns:
        Nats.

    Raises:
        ValueError: If shapes don't fit.
    """
    turns, states, choices = p.shape
    if q.shape != p.shape or transitions.shape != (states, choices, states):
        raise ValueError(
            f"p {p.shape}, q {q.shape} and transitions {transitions.shape} don't fit one another"
        )
    if start.shape != (states,):
        raise ValueError(f"start must be ({states},), got {start.shape}")
    visits, total = start, 0.0
    for turn in range(turns):
        per_state = kl_divergence(p[turn], q[turn])
        total += float((visits * np.where(visits > 0, per_state, 0.0)).sum())
        visits = np.einsum("s,sc,sct->t", visits, p[turn], transitions)
    return total
