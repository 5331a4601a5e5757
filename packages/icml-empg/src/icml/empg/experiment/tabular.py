"""Training runs of a table of logits on KeyDoor: GRPO's advantages, modulated or not.

Each update is one policy-gradient step on the batch that was just drawn, averaged over its steps,
so the ratios of a clipped loss would all be 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from icml.core.models.tabular import TabularPolicy
from icml.core.rl.groups import group_advantage
from icml.empg.experiment.arms import step_advantages
from icml.empg.experiment.corridor import Corridor, Episodes, noisy_search
from icml.empg.params import EMPGParams

__all__ = ["StepBatch", "Training", "step_batch", "train", "updates"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_shared = cache(lambda corridor: corridor)  # its table is built once a process


@dataclass(frozen=True)
class Training:
    """A setting: the task, the start and the optimizer, for all arms alike."""

    corridor: Corridor = field(default_factory=Corridor)
    """The environment."""
    noise: float = 0.55
    """Chance that the starting policy acts at random, above 0."""
    sure_noise: float | None = None
    """The same where what is looked for is in view; None: ``noise`` everywhere."""
    optimizer: Literal["adam", "sgd"] = "sgd"
    """Of `icml.core.models.tabular.TabularPolicy`."""
    iterations: int = 200
    """Updates."""
    eval_every: int = 20
    """Updates between evaluations; there is one at the start and one at the end."""
    tasks: int = 8
    """Tasks an iteration."""
    group_size: int = 8
    """Episodes a task."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("iterations", "eval_every", "tasks"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.group_size < 2:
            raise ValueError(f"group_size must be at least 2, got {self.group_size}")
        for name in ("noise", "sure_noise"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= 1:
                raise ValueError(f"{name} must be in (0, 1], got {value}")

    def start(self) -> Floats:
        """Return the logits of the starting policy."""
        if self.sure_noise is None:
            return noisy_search(self.noise)
        sure = self.sure_noise
        return noisy_search(lambda sight: self.noise if sight == "unseen" else sure)


class StepBatch(NamedTuple):
    """The N steps of a batch of episodes, turn by turn."""

    states: Indices
    """``(N,)``."""
    actions: Indices
    """``(N,)``."""
    entropy: torch.Tensor
    """``(N,)`` in nats, float64: of the distribution the action was drawn from."""
    next: torch.Tensor
    """``(N,)`` int64: the following step of the episode, -1 at its end."""
    advantages: torch.Tensor
    """``(N,)`` float64: GRPO's, of the step's episode."""


def step_batch(episodes: Episodes, entropies: Floats, group_size: int) -> StepBatch:
    """Take the steps out of episodes whose groups stand together.

    Args:
        episodes: ``n`` of them, ``group_size`` a task.
        entropies: ``(STATES,)`` of the policy that acted, in nats.
        group_size: Episodes a task.
    """
    alive = episodes.alive
    number = np.where(alive, alive.cumsum().reshape(alive.shape) - 1, -1)
    following = np.full_like(number, -1)
    following[:-1] = number[1:]
    groups = torch.arange(alive.shape[1]) // group_size
    advantages = group_advantage(torch.from_numpy(episodes.success), groups)
    column = np.broadcast_to(np.arange(alive.shape[1]), alive.shape)[alive]
    states = episodes.states[alive]
    return StepBatch(
        states,
        episodes.actions[alive],
        torch.from_numpy(entropies[states]),
        torch.from_numpy(following[alive]),
        advantages[torch.from_numpy(column)],
    )


def updates(
    setting: Training, arm: EMPGParams | None, rate: float, seed: int
) -> Iterator[tuple[TabularPolicy, StepBatch]]:
    """Yield, before each update and after the last one, the policy and the batch it drew.

    Args:
        setting: Task, start and optimizer.
        arm: One of `icml.empg.experiment.arms.ARMS`.
        rate: Learning rate.
        seed: Decides tasks and actions: the first batch is the same for all arms and rates.
    """
    policy = TabularPolicy(setting.start(), learning_rate=rate, optimizer=setting.optimizer)
    rng = np.random.default_rng(seed)
    corridor = _shared(setting.corridor)
    for step in range(setting.iterations + 1):
        tasks = rng.integers(len(corridor.tasks), size=setting.tasks)
        groups = np.repeat(tasks, setting.group_size)
        episodes = corridor.roll(policy.probabilities(), groups, rng)
        batch = step_batch(episodes, policy.entropies(), setting.group_size)
        yield policy, batch
        if step == setting.iterations:
            return
        advantages = step_advantages(arm, batch.advantages, batch.entropy, batch.next)
        policy.score_step(batch.states, batch.actions, advantages.numpy() / len(batch.states))


def train(
    setting: Training,
    arm: EMPGParams | None,
    rate: float,
    seed: int,
    *,
    log: Callable[..., None] | None = None,
) -> dict[str, float]:
    """Train one table and return what is compared.

    Args:
        setting: Task, start and optimizer.
        arm: One of `icml.empg.experiment.arms.ARMS`.
        rate: Learning rate.
        seed: Decides tasks and actions.
        log: Called as ``log(step, success=..., entropy=...)`` at each evaluation.

    Returns:
        ``AUC``: the mean over the evaluations of the exact success rate over all tasks; ``last
        success``; ``last entropy``: mean over the steps of the last batch, in nats.
    """
    corridor = _shared(setting.corridor)
    successes: list[float] = []
    entropy = 0.0
    for step, (policy, batch) in enumerate(updates(setting, arm, rate, seed)):
        if step % setting.eval_every == 0 or step == setting.iterations:
            successes.append(corridor.success_rate(policy.probabilities()))
            entropy = float(batch.entropy.mean())
            if log is not None:
                log(step, success=successes[-1], entropy=entropy)
    return {
        "AUC": float(np.mean(successes)),
        "last success": successes[-1],
        "last entropy": entropy,
    }
