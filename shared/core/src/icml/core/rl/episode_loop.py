"""The loop of `icml.core.rl.loop` on text environments: play, advantage, update."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from icml.core.rl.episodes import StepBatch
from icml.core.rl.loop import LoopConfig, TrainResult
from icml.core.rl.rollout import EnvFactory, EnvTask, Parse, Render

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

    The config's prompts are tasks here, its completions responses. What `loop.train` says of
    ``model``, ``log``, ``evaluate`` and ``checkpoint`` holds.

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
    """
    raise NotImplementedError
