"""Returns and advantages over time: discounted sums and GAE."""

from __future__ import annotations

import torch
from torch import Tensor

from icml.core.rl.masked import as_bool_mask, at_least_float32


def gae(
    rewards: Tensor, values: Tensor, mask: Tensor, *, gamma: float = 1.0, lam: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimation over the trained tokens (arXiv 1506.02438, Eq. 16).

    ``delta_t = r_t + gamma V_next - V_t`` and ``A_t = delta_t + gamma lam A_next``, where *next*
    is the following trained token of the row: time does not pass over masked tokens (padding, an
    environment's text between turns). After the last one value and advantage are 0. Unlike verl,
    the advantages are not whitened here.

    With ``values`` all 0 and ``lam=1`` the result is the discounted return of padded episodes.

    Args:
        rewards: ``(samples, tokens)``; those outside the mask do not count.
        values: The critic's estimates, ``(samples, tokens)``.
        mask: Trained tokens, booleans or 0/1, ``(samples, tokens)``.
        gamma: Discount a token, in [0, 1].
        lam: Share of the later deltas, in [0, 1].

    Returns:
        Advantages and returns (advantages + values), both ``(samples, tokens)`` without gradient;
        0 outside the mask.

    Raises:
        ValueError: If the shapes differ or a factor lies outside [0, 1].
    """
    _check_factor("gamma", gamma)
    _check_factor("lam", lam)
    if rewards.ndim != 2 or values.shape != rewards.shape:
        raise ValueError(
            "rewards and values must be (samples, tokens) of one shape, "
            f"got {tuple(rewards.shape)} and {tuple(values.shape)}"
        )
    mask = as_bool_mask(mask, rewards)
    rewards = torch.where(mask, at_least_float32(rewards.detach()), 0.0)
    values = torch.where(mask, at_least_float32(values.detach()), 0.0)
    advantages = torch.zeros_like(rewards + values)
    next_value = next_advantage = advantages.new_zeros(len(rewards))
    for t in reversed(range(rewards.shape[1])):
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        here = mask[:, t]
        next_advantage = torch.where(here, delta + gamma * lam * next_advantage, next_advantage)
        next_value = torch.where(here, values[:, t], next_value)
        advantages[:, t] = torch.where(here, next_advantage, 0.0)
    return advantages, advantages + values


def _check_factor(name: str, factor: float) -> None:
    if not 0 <= factor <= 1:
        raise ValueError(f"{name} must be in [0, 1], got {factor}")


def discounted_returns(rewards: Tensor, next_step: Tensor, *, gamma: float) -> Tensor:
    """Discounted sum of the rewards from each step to the end of its episode.

    ``R_i = r_i + gamma R_next(i)``, for steps that lie in any order, such as the rows of a
    step-wise batch. (For padded ``(samples, tokens)`` rewards use :func:`gae` with values of 0.)
    Chains are followed by doubling: log2(longest episode) rounds.

    Args:
        rewards: One reward a step, ``(steps,)``.
        next_step: Index of the episode's following step, -1 after the last; integers,
            ``(steps,)``.
        gamma: Discount a step, in [0, 1].

    Returns:
        Returns, ``(steps,)``, at least float32.

    Raises:
        ValueError: If the shapes differ, an index is out of range, a chain never ends, or
            ``gamma`` lies outside [0, 1].

    Example:
        >>> following = torch.tensor([2, -1, 1])
        >>> discounted_returns(torch.tensor([1.0, 2.0, 4.0]), following, gamma=0.5)
        tensor([3.5000, 2.0000, 5.0000])
    """
    _check_factor("gamma", gamma)
    if rewards.ndim != 1 or next_step.shape != rewards.shape:
        raise ValueError(
            f"rewards and next_step must be (steps,) of one length, got {tuple(rewards.shape)} "
            f"and {tuple(next_step.shape)}"
        )
    steps = len(rewards)
    if bool(((next_step < -1) | (next_step >= steps)).any()):
        raise ValueError(f"next_step must lie in -1..{steps - 1}")
    returns, jump, discount = at_least_float32(rewards), next_step.long(), gamma
    # After k rounds returns[i] holds the first 2^k rewards of i's chain, jump[i] what follows.
    for _ in range(steps.bit_length()):
        goes_on = jump >= 0
        target = jump.clamp(min=0)
        returns = returns + torch.where(goes_on, discount * returns[target], 0.0)
        jump = torch.where(goes_on, jump[target], -1)
        discount = discount * discount
    if bool((jump >= 0).any()):
        raise ValueError("next_step has a cycle: an episode must end in -1")
    return returns
