"""A small loop for RL on a language model: sample, reward, advantage, update.

`train` is single-turn; `icml.core.rl.episode_loop` shares all but the sampling with it.

A method is its ``advantage_fn``: any function of a `Batch`, one number a row or one a token.
Everything random comes from one seeded generator, so equal seeds give equal runs on one machine,
and a run that was interrupted continues bit for bit (on a CPU).

1. Each iteration draws prompts, ``group_size`` completions of each, and their rewards.
2. ``advantage_fn`` turns them into advantages; one or more clipped policy-gradient steps follow.
3. Every ``eval_every`` iterations, and at the end, ``evaluate`` looks at the model first.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from icml.core.errors import UserError
from icml.core.rl.batch import AdvantageFn, Batch, Reward, Rows, SamplePrompts, draw
from icml.core.rl.checkpoint import Checkpoint, held_interrupts
from icml.core.rl.functional import aggregate_loss, kl_estimate, policy_loss
from icml.core.rl.losses import DEFAULT_AGGREGATE, Kind
from icml.core.rl.sampling import score

__all__ = ["Batch", "LoopConfig", "TrainResult", "iterate", "train"]

RowsT = TypeVar("RowsT", bound=Rows)


@dataclass(frozen=True)
class LoopConfig:
    """Sizes and step sizes of `train`."""

    iterations: int
    """Iterations of sampling and updating."""
    max_new_tokens: int
    """Longest completion, in tokens."""
    prompts_per_iteration: int = 16
    """Prompts drawn an iteration."""
    group_size: int = 8
    """Completions drawn a prompt."""
    learning_rate: float = 3e-4
    """Step size of the optimizer."""
    optimizer: Literal["adamw", "sgd"] = "adamw"
    """Neither has weight decay; sgd has no momentum."""
    loss: Kind = "ppo_clip"
    """Kind of `icml.core.rl.functional.policy_loss`, averaged as that kind's default."""
    eps_low: float | None = None
    """Clipping range below a probability ratio of 1; None: the kind's default, 0.2."""
    eps_high: float | None = None
    """Clipping range above 1; None: the kind's default, ``eps_low`` or cispo's cap of 5."""
    kl_beta: float = 0.0
    """Weight of the divergence from the model that training starts from: its k3 estimate, averaged
    as the loss is."""
    epochs_per_iteration: int = 1
    """Gradient steps on each batch."""
    grad_clip: float = 1.0
    """Largest L2 norm of a gradient; longer ones are scaled down to it."""
    temperature: float = 1.0
    """Divides the logits, in sampling and in the loss."""
    eos_id: int = 2
    """Token that ends a completion; it is trained like any other."""
    eval_every: int = 10
    """Iterations between evaluations."""
    checkpoint_every: int = 10
    """Iterations between checkpoints, where there is a folder for them."""

    def __post_init__(self) -> None:
        """Refuse values that make no run."""
        if self.iterations < 0:
            raise ValueError(f"iterations must be at least 0, got {self.iterations}")
        for name in (
            "max_new_tokens",
            "prompts_per_iteration",
            "group_size",
            "epochs_per_iteration",
            "eval_every",
            "checkpoint_every",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("learning_rate", "grad_clip", "temperature"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)}")
        if not 0 <= self.kl_beta < math.inf:
            raise ValueError(f"kl_beta must be at least 0 and finite, got {self.kl_beta}")
        if self.optimizer not in ("adamw", "sgd"):
            raise ValueError(f"optimizer must be 'adamw' or 'sgd', got {self.optimizer!r}")


@dataclass(frozen=True)
class TrainResult:
    """What `train` did; the model was trained in place."""

    rows: list[dict[str, float]]
    """Everything logged, one dict a step, each with its ``step``."""


def train(
    model: nn.Module,
    sample_prompts: SamplePrompts,
    reward: Reward,
    advantage_fn: AdvantageFn,
    config: LoopConfig,
    *,
    seed: int,
    log: Callable[..., None] | None = None,
    evaluate: Callable[[nn.Module], Mapping[str, float]] | None = None,
    checkpoint: Path | None = None,
) -> TrainResult:
    """Train ``model`` in place by policy gradient.

    Args:
        model: Causal model; ``model(ids).logits`` is ``(batch, tokens, vocabulary)``.
        sample_prompts: ``(generator, n)`` to ``n`` `Task` objects. All its randomness comes from
            the generator.
        reward: ``(tasks, completions)`` to ``(n, rewards)``. Completions are token ids without
            padding; one that ended holds the end token last. Must not draw random numbers.
        advantage_fn: `Batch` to ``(n,)`` or ``(n, tokens)``, finite: the method.
        config: Sizes and step sizes.
        seed: Seed of prompts and samples.
        log: Called as ``log(step, **metrics)`` once an iteration and after the last one. A
            continued run is told its earlier rows again.
        evaluate: Model to metrics, logged under the names it gives; the model of row ``step``
            has had ``step`` updates. Must not depend on earlier calls.
        checkpoint: Folder for the loop's state. Calling again with the same arguments
            continues from there; Ctrl-C saves at the end of the iteration.

    Returns:
        The rows that were logged.

    Raises:
        UserError: If a function returns the wrong shape or an advantage that isn't finite, the
            gradient isn't finite, or the checkpoint belongs to another run.
        KeyboardInterrupt: After Ctrl-C, once the state is saved.
    """

    def draw_batch(generator: torch.Generator) -> Batch:
        return draw(
            model,
            sample_prompts(generator, config.prompts_per_iteration),
            reward,
            generator=generator,
            group_size=config.group_size,
            max_new_tokens=config.max_new_tokens,
            temperature=config.temperature,
            eos_id=config.eos_id,
        )

    identity = {**asdict(config), "seed": seed}
    return iterate(
        model,
        draw_batch,
        advantage_fn,
        config,
        identity=identity,
        seed=seed,
        log=log,
        evaluate=evaluate,
        checkpoint=checkpoint,
    )


def iterate(
    model: nn.Module,
    draw_batch: Callable[[torch.Generator], RowsT],
    advantage_fn: Callable[[RowsT], Tensor],
    config: LoopConfig,
    *,
    identity: Mapping[str, Any],
    seed: int,
    log: Callable[..., None] | None,
    evaluate: Callable[[nn.Module], Mapping[str, float]] | None,
    checkpoint: Path | None,
) -> TrainResult:
    """Do what every loop of ours does with its batches; see `train` for the arguments.

    Args:
        model: Causal model.
        draw_batch: Generator to one iteration's rows; all its randomness comes from it.
        advantage_fn: Those rows to ``(n,)`` or ``(n, tokens)``.
        config: Sizes and step sizes.
        identity: What a checkpoint must agree with to be continued (JSON values).
        seed: Seed of the generator.
        log: Called with every row of metrics.
        evaluate: Model to metrics.
        checkpoint: Folder for the loop's state.
    """
    model.eval()  # with dropout, the policy that is trained would not be the one that sampled
    optimizers = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    optimizer = optimizers[config.optimizer](
        model.parameters(), lr=config.learning_rate, weight_decay=0.0
    )
    generator = torch.Generator().manual_seed(seed)
    reference = copy.deepcopy(model).requires_grad_(False) if config.kl_beta else None
    store = (
        None
        if checkpoint is None
        else Checkpoint(checkpoint, identity, model, optimizer, generator)
    )
    start, rows = store.restore() if store else (0, [])

    def emit(row: dict[str, float]) -> None:
        if log is not None:
            log(int(row["step"]), **{name: row[name] for name in row if name != "step"})

    for row in rows:
        emit(row)
    with held_interrupts() as interrupted:
        for step in range(start, config.iterations):
            evaluated = evaluate(model) if evaluate and step % config.eval_every == 0 else {}
            batch = draw_batch(generator)
            advantages = _advantages(advantage_fn, batch)
            trained = _update(model, optimizer, batch, advantages, config, reference=reference)
            rows.append({"step": step, **evaluated, **trained})
            emit(rows[-1])
            due = (step + 1) % config.checkpoint_every == 0 or step + 1 == config.iterations
            if store and (due or interrupted()):
                store.save(step + 1, rows)
            if interrupted():
                raise KeyboardInterrupt
    if evaluate:
        rows.append({"step": config.iterations, **evaluate(model)})
        emit(rows[-1])
    return TrainResult(rows)


def _advantages(advantage_fn: Callable[[RowsT], Tensor], batch: RowsT) -> Tensor:
    """Call the user's function and check what it returns."""
    with torch.no_grad():
        advantages = advantage_fn(batch)
    rows, tokens = batch.mask.shape
    shape = tuple(advantages.shape) if isinstance(advantages, Tensor) else type(advantages).__name__
    if shape not in ((rows,), (rows, tokens)):
        raise UserError(
            f"advantage_fn must return a tensor of shape ({rows},) or ({rows}, {tokens}), "
            f"one number a row or one a token; got {shape}"
        )
    used = advantages if advantages.dim() == 1 else advantages.where(batch.mask, 0.0)
    bad = ~used.isfinite().view(rows, -1).all(1)
    if bad.any():
        first = int(bad.nonzero()[0])
        raise UserError(
            f"advantage_fn returned NaN or infinity for {int(bad.sum())} of {rows} rows "
            f"(first: {batch.describe(first)})"
        )
    return used.to(batch.old_logp.dtype)


def _update(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: Rows,
    advantages: Tensor,
    config: LoopConfig,
    *,
    reference: nn.Module | None,
) -> dict[str, float]:
    """Take the iteration's gradient steps and return its metrics, those of the last step."""
    rows = batch.prompt_ids, batch.prompt_lengths, batch.completion_ids
    penalised = {}
    for _ in range(config.epochs_per_iteration):
        logp = score(model, *rows, temperature=config.temperature)
        result = policy_loss(
            logp,
            batch.old_logp,
            advantages,
            batch.mask,
            kind=config.loss,
            eps_low=config.eps_low,
            eps_high=config.eps_high,
        )
        loss = result.loss
        if reference is not None:
            with torch.no_grad():
                start = score(reference, *rows, temperature=config.temperature)
            both = (numbers.where(batch.mask, 0.0) for numbers in (logp, start))
            apart = kl_estimate(*both, "k3")
            kl = aggregate_loss(apart, batch.mask, DEFAULT_AGGREGATE[config.loss])
            loss = loss + config.kl_beta * kl
            penalised = {"train/kl": kl.item()}
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), config.grad_clip).item()
        if not math.isfinite(norm):
            raise UserError(
                f"the gradient's norm is {norm}: lower learning_rate ({config.learning_rate}) "
                "or look at the rewards and advantages"
            )
        optimizer.step()
    return batch.metrics() | {
        "train/loss": loss.item(),
        "train/grad_norm": norm,
        "train/clip_fraction": float(result.clip_low + result.clip_high),
        "train/approx_kl": float(result.approx_kl),
        **penalised,
    }
