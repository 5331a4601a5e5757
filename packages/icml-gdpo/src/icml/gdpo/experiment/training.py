"""The runs of the experiment: a noisy warm start, then RL by GRPO or GDPO on the tool-call task.

`icml.gdpo.reproduce` calls these in worker processes; each returns plain numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from safetensors.torch import load_model, save_model
from torch import Tensor, nn

from icml.core.errors import UserError
from icml.core.journal import replace_folder, whole_folder
from icml.core.models.tiny import TinyGPT
from icml.core.rl.batch import AdvantageFn, Batch
from icml.core.rl.loop import LoopConfig, train
from icml.core.rl.sampling import sample
from icml.core.rl.sft import Pair, supervised
from icml.gdpo.advantages import gdpo_advantages, grpo_advantages, grpo_parts
from icml.gdpo.diagnostics import reward_shares
from icml.gdpo.experiment.tasks import (
    CALLS,
    LONGEST,
    VOCABULARY,
    demonstrations,
    rewards,
    sample_calls,
)

if TYPE_CHECKING:
    from icml.gdpo.reproduce import Config

__all__ = ["ADVANTAGES", "FormatSay", "evaluate", "format_say", "train_arm", "warm_start"]

FORMAT_WEIGHT = 6.0
"""Makes format's range that of correctness: the weight to tune by hand without GDPO (ours)."""


class FormatSay(NamedTuple):
    """How much of a batch's advantages comes from format."""

    share_by_grpo: float
    """Fraction of the summed absolute advantages."""
    share_by_gdpo: float
    mixed: int
    """Groups in which both rewards vary."""
    raised: int
    """Those of them in which format's share is larger by GDPO than by GRPO."""


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
        training batches, under GRPO and under GDPO, averaged over the iterations; and in how many
        of the groups in which both rewards vary GDPO gives format the larger share.

    Raises:
        UserError: If the warm start's model is not in ``folder`` any more.
    """
    model = _new_model(config, seed)
    start = whole_folder(_model_folder(folder, seed))
    if start is None:
        raise UserError(f"the warm start of seed {seed} is gone from {folder}: start with --fresh")
    load_model(model, str(start / "model.safetensors"))
    says: list[FormatSay] = []

    def advantages(batch: Batch) -> Tensor:
        says.append(format_say(batch.rewards, batch.groups))
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
    return {
        "format AUC": _mean([row["format"] for row in evaluated]),
        "correctness AUC": _mean([row["correctness"] for row in evaluated]),
        "last format": evaluated[-1]["format"],
        "last correctness": evaluated[-1]["correctness"],
        "format share by GRPO": _mean([say.share_by_grpo for say in says]),
        "format share by GDPO": _mean([say.share_by_gdpo for say in says]),
        "mixed groups": sum(say.mixed for say in says),
        "raised groups": sum(say.raised for say in says),
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


def format_say(scores: Tensor, groups: Tensor) -> FormatSay:
    """Measure how much of one batch's advantages comes from format, by GRPO and by GDPO.

    In groups of up to 14 completions format's standard deviation is the smaller one wherever both
    rewards vary, so GDPO, which divides each reward by its own, must give it the larger share.

    Args:
        scores: ``(completions, 2)``: format, correctness.
        groups: ``(completions,)`` group of each.
    """
    by_grpo = grpo_parts(scores, groups).abs()
    by_gdpo = gdpo_advantages(scores, groups, return_parts=True).per_reward.abs()
    members = torch.nn.functional.one_hot(groups.unique(return_inverse=True)[1]).T.float()
    grpo_form, grpo_correct = (members @ by_grpo).unbind(1)
    gdpo_form, gdpo_correct = (members @ by_gdpo).unbind(1)
    mixed = (gdpo_form > 0) & (gdpo_correct > 0)
    raised = mixed & (gdpo_form * grpo_correct > grpo_form * gdpo_correct)
    return FormatSay(
        reward_shares(by_grpo)[0].item(),
        reward_shares(by_gdpo)[0].item(),
        int(mixed.sum()),
        int(raised.sum()),
    )


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
