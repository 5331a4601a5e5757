"""Training runs of a small language model in the vault: demonstrations, cold start, RL."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_model, save_model
from torch import Tensor

from icml.agent_omit.experiment.demos import base_omissions, cold_omissions, demonstrate, fit
from icml.agent_omit.experiment.measure import evaluate, keep_last, on_segments
from icml.agent_omit.loop import train_omission
from icml.agent_omit.reward import OmissionReward
from icml.agent_omit.segments import Segment
from icml.agent_omit.transcript import OmitTranscript
from icml.agent_omit.vault import Vault
from icml.agent_omit.words import BOS, Words, vault_words
from icml.core.errors import UserError
from icml.core.journal import replace_folder, whole_folder
from icml.core.models.tiny import TinyGPT
from icml.core.rl.loop import LoopConfig
from icml.core.rl.rollout import EnvTask

__all__ = ["VaultTraining", "train_arm", "warm_start"]

_TASKS = 10**6  # training draws its episodes below; evaluation from 10**7
_DEMONSTRATED = 2000  # episodes drawn for each stage


@dataclass(frozen=True)
class VaultTraining:
    """The model, the stages and their sizes, for all arms alike."""

    turns: int = 5
    """Rooms of the vault."""
    digits: int = 3
    """Digits on its keypad."""
    modulus: int = 5
    """Modulus of the code."""
    width: int = 64
    """Width of the model, which has two layers and four heads."""
    digit_weight: float = 10.0
    """How much a digit counts in the loss on demonstrations: sums alone are hard."""
    base_steps: int = 1600
    """Most batches of 24 segments for the base."""
    base_loss: float = 0.05
    """The base stops once its loss is below, in nats a token; then 100 steps at a lower rate."""
    cold_steps: int = 600
    """Batches of 24 segments of cold start."""
    iterations: int = 60
    """Updates of RL."""
    tasks: int = 6
    """Episodes' tasks an update."""
    group_size: int = 8
    """Episodes a task."""
    learning_rate: float = 5e-4
    """Of RL, for all weights of the reward."""
    kl_beta: float = 0.005
    """Weight of the divergence from the cold-started model."""
    evaluated: int = 192
    """Episodes of an evaluation, all with seeds that training never draws."""

    def environment(self) -> Vault:
        """Build a vault."""
        return Vault(turns=self.turns, digits=self.digits, modulus=self.modulus)

    @cached_property
    def words(self) -> Words:
        """The vocabulary."""
        return vault_words(self.environment())

    @cached_property
    def transcript(self) -> OmitTranscript:
        """Renders histories. The task, which is always the same, isn't told."""
        encode = lru_cache(maxsize=100_000)(self.words.encode)
        return OmitTranscript(encode, self.words.decode, begin=(BOS,), tell_task=False)

    @property
    def max_new_tokens(self) -> int:
        """Longest output, in tokens: a thought, its commands and an action."""
        return 18

    def new_model(self, seed: int) -> TinyGPT:
        """Build a model with random weights.

        Its positions are rotary: omission shortens histories, and what was learnt about a keypad
        at one place must hold at the earlier ones that it then comes to.
        """
        return TinyGPT(
            len(self.words),
            d=self.width,
            layers=2,
            heads=4,
            ctx=1 + self.turns * (self.max_new_tokens + 16),
            positions="rotary",
            seed=seed,
        )


def warm_start(
    setting: VaultTraining, folder: Path, seed: int, *, log: Callable[..., None]
) -> dict[str, Any]:
    """Train a base model and cold-start it; both are left in ``folder``.

    Args:
        setting: Task and model.
        folder: Where the models of all seeds go.
        seed: Decides the weights, the demonstrations and their order.
        log: Told the losses.

    Returns:
        Evaluations of the base, of the base under fixed rules and of the cold start, and what
        `on_segments` measures with the cold start.
    """
    model = setting.new_model(seed)
    steps = _train_base(setting, model, seed, log)
    found: dict[str, Any] = {"base steps": steps, "base": evaluate(setting, model)}
    nothing = tuple(setting.words.encode("<think></think>"))
    found["no thoughts"] = evaluate(setting, model, forced=nothing)
    found["keep last"] = evaluate(setting, model, rule=keep_last)
    _cold_start(setting, model, seed)
    found["cold start"] = evaluate(setting, model)
    found["segments"] = on_segments(setting, model, seed)
    with replace_folder(folder / f"seed-{seed}") as place:
        save_model(model, str(place / "model.safetensors"))
    return found


def _train_base(setting: VaultTraining, model: TinyGPT, seed: int, log: Callable[..., None]) -> int:
    draw = random.Random(f"base-{seed}")
    batches = _batches(setting, draw, lambda rooms: base_omissions(draw, rooms))
    weights = _weights(setting)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.0)
    losses: list[float] = []
    while len(losses) < setting.base_steps:
        rates = [2e-3 * min(1.0, (len(losses) + step + 1) / 50) for step in range(50)]
        losses += fit(model, batches, rates, optimizer=optimizer, weights=weights)
        recent = sum(losses[-50:]) / 50
        log(len(losses), arm="base", seed=seed, loss=recent)
        if recent < setting.base_loss:
            break
    fit(model, batches, [3e-4] * 100, optimizer=optimizer, weights=weights)
    return len(losses) + 100


def _cold_start(setting: VaultTraining, model: TinyGPT, seed: int) -> None:
    draw = random.Random(f"cold-{seed}")
    batches = _batches(setting, draw, lambda rooms: cold_omissions(draw, rooms))
    steps = setting.cold_steps
    rates = [1e-3 if step < 0.7 * steps else 3e-4 for step in range(steps)]
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.0)
    fit(model, batches, rates, optimizer=optimizer, weights=_weights(setting))


def _weights(setting: VaultTraining) -> Tensor:
    """Return how much each token of the vocabulary counts, ``(vocabulary,)``."""
    texts = setting.words.decode(range(len(setting.words))).split()
    return torch.tensor([setting.digit_weight if text.isdigit() else 1.0 for text in texts])


def _batches(
    setting: VaultTraining, draw: random.Random, choose: Callable[[Any], Any]
) -> Iterator[Sequence[Segment]]:
    env = setting.environment()
    shown = [
        segment
        for _ in range(_DEMONSTRATED)
        for segment in demonstrate(env, draw.randrange(_TASKS), choose, setting.transcript)
    ]
    while True:
        yield draw.sample(shown, 24)


def train_arm(
    setting: VaultTraining, folder: Path, weight: float, seed: int, *, log: Callable[..., None]
) -> dict[str, Any]:
    """Train the cold-started model of ``seed`` by RL with one weight of the omission reward.

    Args:
        setting: Task and sizes.
        folder: Where `warm_start` left the model.
        weight: Of what omission saves in the reward.
        seed: Decides the start, the tasks and the samples.
        log: Told each update's success, tokens and reward.

    Returns:
        The evaluation at the end.
    """
    start = whole_folder(folder / f"seed-{seed}")
    if start is None:
        raise UserError(f"the start of seed {seed} is gone from {folder}: start with --fresh")
    model = setting.new_model(seed)
    load_model(model, str(start / "model.safetensors"))
    arm = arm_name(weight)

    def told(step: int, **metrics: float) -> None:
        tokens = metrics["train/prompt_tokens"] + metrics["train/output_tokens"]
        log(step, arm=arm, seed=seed, success=metrics["train/success"], tokens=tokens)

    train_omission(
        model,
        _sample_tasks,
        lambda _: setting.environment(),
        OmissionReward(weight),
        LoopConfig(
            iterations=setting.iterations,
            max_new_tokens=setting.max_new_tokens,
            prompts_per_iteration=setting.tasks,
            group_size=setting.group_size,
            learning_rate=setting.learning_rate,
            kl_beta=setting.kl_beta,
            eos_id=setting.words.closing_id,
        ),
        transcript=setting.transcript,
        max_turns=setting.turns,
        seed=seed,
        log=told,
    )
    return evaluate(setting, model)


def arm_name(weight: float) -> str:
    """Return the name of RL with a weight of the omission reward."""
    return f"w={weight:g}"


def _sample_tasks(generator: torch.Generator, count: int) -> list[EnvTask]:
    return [EnvTask(int(n)) for n in torch.randint(_TASKS, (count,), generator=generator)]
