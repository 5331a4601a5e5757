"""The loop of `icml.core.rl.loop` on text environments: play, advantage, update."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor, nn

from icml.core.rl.episodes import StepBatch, to_step_batch
from icml.core.rl.loop import LoopConfig, TrainResult, iterate
from icml.core.rl.rollout import EnvFactory, EnvTask, ModelSampler, Parse, Render, collect

__all__ = ["train_episodes"]

SampleTasks = Callable[[torch.Generator, int], Sequence[EnvTask]]
"""``(generator, n)`` -> ``n`` tasks; all randomness comes from the generator."""
StepAdvantageFn = Callable[[StepBatch], Tensor]
"""The method: a `StepBatch` -> ``(N,)`` advantages, one a turn, or ``(N, tokens)``."""


def train_episodes(
    model: nn.Module,
    sample_tasks: SampleTasks,
    env_factory: EnvFactory,
    advantage_fn: StepAdvantageFn,
    config: LoopConfig,
    *,
    max_turns: int,
    render: Render,
    decode: Callable[[Sequence[int]], str],
    parse: Parse = str.strip,
    seed: int,
    log: Callable[..., None] | None = None,
    evaluate: Callable[[nn.Module], Mapping[str, float]] | None = None,
    checkpoint: Path | None = None,
) -> TrainResult:
    """Train ``model`` in place by policy gradient on the turns of its own episodes.

    Each turn is a row, with its own prompt. The config's prompts are tasks here, its completions
    responses. What `loop.train` says of ``log``, ``evaluate`` and ``checkpoint`` holds, and it
    raises the same.

    Args:
        model: Causal model; ``model(ids).logits`` is ``(batch, tokens, vocabulary)``.
        sample_tasks: ``(generator, n)`` to ``n`` `EnvTask` objects.
        env_factory: `EnvTask` to environment.
        advantage_fn: `StepBatch` to ``(N,)`` or ``(N, tokens)``, finite: the method.
        config: Sizes and step sizes.
        max_turns: Longest episode, in turns.
        render: `History` to the next turn's prompt.
        decode: Token ids of a response, without the end token, to text.
        parse: Response text to action.
        seed: Seed of tasks and samples.
        log: Called once an iteration and after the last one.
        evaluate: Model to metrics.
        checkpoint: Folder for the loop's state.

    Returns:
        The rows that were logged.

    Raises:
        RolloutError: If more than a fifth of an iteration's environments raise.
    """
    sampler = ModelSampler(model, decode, config.eos_id, config.temperature)
    device = next(model.parameters()).device

    def draw_batch(generator: torch.Generator) -> StepBatch:
        tasks = sample_tasks(generator, config.prompts_per_iteration)
        trajectories = collect(
            sampler,
            env_factory,
            tasks,
            group_size=config.group_size,
            max_turns=max_turns,
            max_new_tokens=config.max_new_tokens,
            render=render,
            parse=parse,
            seed=int(torch.randint(2**62, (), generator=generator)),
        )
        return to_step_batch(trajectories).to(device)

    return iterate(
        model,
        draw_batch,
        advantage_fn,
        config,
        identity={**asdict(config), "seed": seed, "max_turns": max_turns},
        seed=seed,
        log=log,
        evaluate=evaluate,
        checkpoint=checkpoint,
    )
