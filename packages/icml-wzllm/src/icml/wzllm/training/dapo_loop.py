"""DAPO in the small loop of `icml.core.rl`, for experiments on a CPU; TRL's is in `dapo`.

Loss and clipping are core's (equal to TRL's, by core's tests). Dynamic sampling draws more groups
than are wanted and keeps the first ones that carry a signal, the paper's over-sampling.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from icml.core.rl.batch import Batch, Reward, Task, draw
from icml.core.rl.functional import group_advantage
from icml.core.rl.loop import LoopConfig, TrainResult, iterate
from icml.wzllm.training.refill import dead_groups

__all__ = ["OVERSAMPLE", "LiveBatch", "dapo_config", "keep_live", "train_dapo"]

OVERSAMPLE = 2
"""Groups drawn for each that is wanted (ours)."""


class LiveBatch(NamedTuple):
    """A batch of live groups, and how it came about, in groups."""

    batch: Batch
    drawn: int
    dead: int
    kept: int


def dapo_config(
    *, iterations: int, prompts: int, group_size: int, learning_rate: float, longest: int
) -> LoopConfig:
    """Return DAPO's loop: token-level loss, clip-higher, no KL, one step a batch."""
    return LoopConfig(
        iterations=iterations,
        max_new_tokens=longest,
        prompts_per_iteration=prompts,
        group_size=group_size,
        learning_rate=learning_rate,
        eps_low=0.2,
        eps_high=0.28,
    )


def keep_live(batch: Batch, group_size: int, wanted: int) -> LiveBatch:
    """Keep the first ``wanted`` groups whose rewards differ; the first group if all are dead.

    Args:
        batch: Groups of ``group_size`` rows, one after the other.
        group_size: Completions a prompt.
        wanted: Groups to keep, at most.
    """
    dead = dead_groups(batch.rewards, torch.ones(batch.rewards.shape[1]), group_size)
    alive = (~dead).nonzero().flatten()[:wanted]
    # A batch of no rows has no loss; a dead group's is 0.
    groups = alive if len(alive) else torch.zeros(1, dtype=torch.int64)
    rows = (groups[:, None] * group_size + torch.arange(group_size)).flatten()
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    chosen = {name: v[rows] for name, v in values.items() if isinstance(v, Tensor)}
    kept = replace(batch, **chosen, tasks=tuple(batch.tasks[i] for i in rows.tolist()))
    return LiveBatch(kept, len(dead), int(dead.sum()), len(alive))


def train_dapo(
    model: nn.Module,
    tasks: Sequence[Task],
    reward: Reward,
    config: LoopConfig,
    *,
    seed: int,
    tell: Callable[[LiveBatch], None] = lambda drawn: None,
) -> TrainResult:
    """Train ``model`` in place.

    Args:
        model: Causal model.
        tasks: What prompts are drawn from.
        reward: As in `icml.core.rl.loop.train`.
        config: Of `dapo_config`.
        seed: Decides prompts and samples.
        tell: Is called with each iteration's batch.
    """

    def live(generator: torch.Generator) -> Batch:
        picks = random.Random(int(torch.randint(2**31, (1,), generator=generator)))
        drawn = draw(
            model,
            picks.sample(tasks, min(OVERSAMPLE * config.prompts_per_iteration, len(tasks))),
            reward,
            generator=generator,
            group_size=config.group_size,
            max_new_tokens=config.max_new_tokens,
            temperature=config.temperature,
            eos_id=config.eos_id,
        )
        kept = keep_live(drawn, config.group_size, config.prompts_per_iteration)
        tell(kept)
        return kept.batch

    def advantages(batch: Batch) -> Tensor:
        return group_advantage(batch.rewards.sum(dim=1), batch.groups)

    return iterate(
        model, live, advantages, config,
        identity={**asdict(config), "seed": seed}, seed=seed,
        log=None, evaluate=None, checkpoint=None,
    )  # fmt: skip
