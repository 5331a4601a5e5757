"""What an advantage function sees: one iteration's completions, their rewards and groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, Self

import torch
from torch import Tensor, nn

from icml.core.errors import UserError
from icml.core.rl.masked import masked_mean
from icml.core.rl.sampling import sample

__all__ = ["AdvantageFn", "Batch", "Reward", "Rows", "SamplePrompts", "Task", "draw"]


class Task(Protocol):
    """What is asked of the model: a prompt, and whatever the reward function needs besides."""

    @property
    def prompt_ids(self) -> Sequence[int]:
        """Token ids of the prompt, at least one."""
        ...


@dataclass(frozen=True, eq=False)
class Rows:
    """What a loss needs: prompts, their completions, and the policy that drew them."""

    prompt_ids: Tensor
    """``(n, longest prompt)`` int64, padded on the right."""
    prompt_lengths: Tensor
    """``(n,)`` int64, in tokens."""
    completion_ids: Tensor
    """``(n, tokens)`` int64, padded on the right."""
    mask: Tensor
    """``(n, tokens)`` bool: tokens the model drew and is trained on."""
    old_logp: Tensor
    """``(n, tokens)`` log-probability, in nats, of each token when it was drawn."""
    entropy: Tensor
    """``(n, tokens)`` entropy, in nats, of the distribution each token was drawn from."""

    def to(self, device: torch.device) -> Self:
        """Return the same rows with their tensors on a device."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        moved = {k: v.to(device) for k, v in values.items() if isinstance(v, Tensor)}
        return replace(self, **moved)

    def metrics(self) -> dict[str, float]:
        """Return what a training loop logs about these rows."""
        return {
            "train/entropy": masked_mean(self.entropy, self.mask).item(),
            "train/completion_tokens": self.mask.sum(1).float().mean().item(),
        }

    def describe(self, row: int) -> str:
        """Say which row this is, for an error message."""
        return f"row {row}"


@dataclass(frozen=True, eq=False)
class Batch(Rows):
    """One iteration's completions: ``n`` = prompts x group_size rows, groups contiguous."""

    rewards: Tensor
    """``(n, rewards)`` float32; NaN is a reward that was not given."""
    groups: Tensor
    """``(n,)`` int64: rows with equal numbers answer the same drawn prompt."""
    tasks: tuple[Any, ...]
    """The task of each row, as ``sample_prompts`` gave it."""

    def metrics(self) -> dict[str, float]:
        """Return what a training loop logs about these rows."""
        means = {f"train/reward/{k}": float(r) for k, r in enumerate(self.rewards.nanmean(0))}
        return means | super().metrics()

    def describe(self, row: int) -> str:
        """Say which row this is, for an error message."""
        return f"row {row}, rewards {self.rewards[row].tolist()}"


SamplePrompts = Callable[[torch.Generator, int], Sequence[Any]]
"""``(generator, n)`` -> `Task` objects, ``n`` of them; all randomness comes from the generator."""
Reward = Callable[[Sequence[Any], Sequence[list[int]]], Tensor]
"""``(tasks, completions)`` -> ``(n, rewards)``; completions are token ids without padding."""
AdvantageFn = Callable[[Batch], Tensor]
"""The method: a `Batch` -> ``(n,)`` advantages, or ``(n, tokens)``."""


def draw(
    model: nn.Module,
    tasks: Sequence[Task],
    reward: Reward,
    *,
    generator: torch.Generator,
    group_size: int,
    max_new_tokens: int,
    temperature: float,
    eos_id: int,
) -> Batch:
    """Draw ``group_size`` completions of every task and reward them.

    Raises:
        UserError: If ``reward`` doesn't return one row of rewards a completion.
    """
    repeated = tuple(task for task in tasks for _ in range(group_size))
    rollouts = sample(
        model,
        [task.prompt_ids for task in repeated],
        max_new_tokens=max_new_tokens,
        eos_id=eos_id,
        generator=generator,
        temperature=temperature,
    )
    rewards = torch.as_tensor(reward(repeated, rollouts.completions()), dtype=torch.float32)
    if rewards.dim() != 2 or len(rewards) != len(repeated) or not rewards.shape[1]:
        raise UserError(
            f"reward must return a tensor of shape ({len(repeated)}, rewards), "
            f"one row a completion; got {tuple(rewards.shape)}"
        )
    device = rollouts.mask.device
    return Batch(
        prompt_ids=rollouts.prompt_ids,
        prompt_lengths=rollouts.prompt_lengths,
        completion_ids=rollouts.completion_ids,
        mask=rollouts.mask,
        old_logp=rollouts.logp,
        entropy=rollouts.entropy,
        rewards=rewards.to(device),
        groups=torch.arange(len(tasks), device=device).repeat_interleave(group_size),
        tasks=repeated,
    )
