"""The runs of the experiment: a noisy warm start, then RL by GRPO or GDPO on the tool-call task.

`icml.gdpo.reproduce` calls these in worker processes; each returns plain numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_model, save_model
from torch import Tensor, nn

from icml.core.journal import replace_folder
from icml.core.models.tiny import TinyGPT
from icml.core.rl.batch import AdvantageFn, Batch
from icml.core.rl.loop import LoopConfig, train
from icml.core.rl.sampling import sample
from icml.core.rl.sft import Pair, supervised
from icml.gdpo.advantages import gdpo_advantages, grpo_advantages, grpo_parts
from icml.gdpo.diagnostics import reward_shares
from icml.gdpo.tasks import CALLS, LONGEST, VOCABULARY, demonstrations, rewards, sample_calls

if TYPE_CHECKING:
    from icml.gdpo.reproduce import Config

__all__ = ["ADVANTAGES", "evaluate", "train_arm", "warm_start"]

FORMAT_WEIGHT = 6.0
"""Makes format's range that of correctness: the weight to tune by hand without GDPO (ours)."""

_EVALUATION_SEED = 99  # the same random numbers at every evaluation of every run


def _grpo(batch: Batch) -> Tensor:
    return grpo_advantages(batch.rewards, batch.groups)


def _gdpo(batch: Batch) -> Tensor:
    return gdpo_advantages(batch.rewards, batch.groups)


def _weighted_grpo(batch: Batch) -> Tensor:
    return grpo_advantages(batch.rewards, batch.groups, weights=(FORMAT_WEIGHT, 1.0))


ADVANTAGES: dict[str, AdvantageFn] = {"grpo": _grpo, "gdpo": _gdpo, "grpo-weighted": _weighted_grpo}
"""The arms: they differ in nothing but this function."""


def warm_start(config: Config, folder: Path, seed: int, *, log: Callable[..., None]) -> float:
    """Train a new model on noisy demonstrations and leave it in ``folder``; return its loss.

    Args:
        config: Width of the model, number and size of batches, learning rate.
        folder: Where the models of all seeds go, each replaced as a whole.
        seed: Decides the model's weights and its demonstrations.
        log: Not used: all that is to be known of a warm start is the first row of each arm.
    """
    model = _new_model(config, seed)
    batches = _demonstration_batches(config, torch.Generator().manual_seed(seed))
    losses = supervised(model, batches, learning_rate=config.sft_learning_rate)
    with replace_folder(_model_folder(folder, seed)) as place:
        save_model(model, str(place / "model.safetensors"))
    return losses[-1]


def train_arm(
    config: Config, folder: Path, arm: str, rate: float, seed: int, *, log: Callable[..., None]
) -> dict[str, float]:
    """Train the warm-started model of ``seed`` by one arm at one learning rate.

    Returns:
        Means over the evaluations of format ("format AUC") and correctness ("correctness AUC"),
        their last values, and format's share of the summed absolute advantages in this run's own
        training batches, under GRPO and under GDPO, averaged over the iterations.
    """
    model = _new_model(config, seed)
    load_model(model, str(_model_folder(folder, seed) / "model.safetensors"))
    shares: list[tuple[float, float]] = []

    def advantages(batch: Batch) -> Tensor:
        shares.append(_format_shares(batch))
        return ADVANTAGES[arm](batch)

    result = train(
        model,
        sample_calls,
        rewards,
        advantages,
        LoopConfig(
            iterations=config.iterations,
            max_new_tokens=LONGEST,
            prompts_per_iteration=config.prompts,
            group_size=config.group_size,
            learning_rate=rate,
            eps_high=0.28,  # DAPO's; without effect here, where each batch is used once
            eval_every=config.eval_every,
        ),
        seed=seed,
        evaluate=evaluate,
    )
    evaluated = [row for row in result.rows if "format" in row]
    for row in evaluated:
        metrics = {name: row[name] for name in ("format", "correctness", "both")}
        log(int(row["step"]), arm=arm, seed=seed, **metrics)
    mean_grpo, mean_gdpo = torch.tensor(shares, dtype=torch.float64).mean(0).tolist()
    return {
        "format AUC": _mean([row["format"] for row in evaluated]),
        "correctness AUC": _mean([row["correctness"] for row in evaluated]),
        "last format": evaluated[-1]["format"],
        "last correctness": evaluated[-1]["correctness"],
        "format share by GRPO": mean_grpo,
        "format share by GDPO": mean_gdpo,
    }


def evaluate(model: nn.Module) -> dict[str, float]:
    """Sample an answer to every call: mean rewards, and the share of wholly right answers."""
    generator = torch.Generator().manual_seed(_EVALUATION_SEED)
    prompts = [call.prompt_ids for call in CALLS]
    rollouts = sample(model, prompts, max_new_tokens=LONGEST, eos_id=2, generator=generator)
    scores = rewards(CALLS, rollouts.completions())
    form, correctness = scores.double().mean(0).tolist()
    both = (scores == torch.tensor([1.0, 3.0])).all(1).double().mean().item()
    return {"format": form, "correctness": correctness, "both": both}


def _new_model(config: Config, seed: int) -> TinyGPT:
    return TinyGPT(len(VOCABULARY), d=config.width, layers=2, heads=4, ctx=16, seed=seed)


def _model_folder(folder: Path, seed: int) -> Path:
    return folder / f"warm-start-seed={seed}"


def _demonstration_batches(config: Config, generator: torch.Generator) -> Iterator[list[Pair]]:
    for _ in range(config.sft_steps):
        calls = sample_calls(generator, config.sft_batch)
        answers = demonstrations(calls, generator)
        yield [(call.prompt_ids, answer) for call, answer in zip(calls, answers, strict=True)]


def _format_shares(batch: Batch) -> tuple[float, float]:
    """Format's share of the summed absolute advantages, by GRPO and by GDPO."""
    by_grpo = reward_shares(grpo_parts(batch.rewards, batch.groups))
    parts = gdpo_advantages(batch.rewards, batch.groups, return_parts=True).per_reward
    return by_grpo[0].item(), reward_shares(parts)[0].item()


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
