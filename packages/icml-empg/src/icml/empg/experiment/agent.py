"""Training runs of small language models as agents: warm start, then RL by one arm at one rate.

What is common to the environments: `AgentTraining` has the numbers, a subclass says how its
environment is put into tokens and what a demonstration looks like.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import torch
from safetensors.torch import load_model, save_model
from torch import Tensor, nn

from icml.core.envs.protocol import TextEnv
from icml.core.errors import UserError
from icml.core.journal import replace_folder, whole_folder
from icml.core.models.tiny import SPECIAL_TOKENS, TinyGPT
from icml.core.rl.episode_loop import train_episodes
from icml.core.rl.groups import group_advantage
from icml.core.rl.loop import LoopConfig
from icml.core.rl.rollout import EnvTask, History, ModelSampler, StepBatch, Trajectory, collect
from icml.core.rl.sft import Pair, supervised
from icml.empg.experiment.arms import step_advantages
from icml.empg.params import EMPGParams

__all__ = ["AgentTraining", "grpo_steps", "play", "train_agent", "warm_model", "warm_start"]

EOS = SPECIAL_TOKENS.index("<eos>")
_FIRST_EVALUATION_SEED = 10**7  # training draws its seeds below
_EVALUATION_SEED = 99  # the same random numbers at every evaluation of every run


@dataclass(frozen=True)
class AgentTraining(ABC):
    """A setting: the model, the warm start and the optimizer, for all arms alike."""

    vocabulary: ClassVar[tuple[str, ...]]
    """The words, in the order of their ids; `SPECIAL_TOKENS` first."""

    max_steps: int
    """Turns after which an episode is cut off."""
    noise: float
    """Chance that a demonstration has a random action."""
    width: int = 48
    """Width of the model, which has two layers."""
    sft_steps: int = 120
    """Batches of 64 demonstrated turns before RL."""
    optimizer: Literal["adamw", "sgd"] = "adamw"
    """Of RL."""
    grad_clip: float = 1.0
    """Largest norm of a gradient."""
    iterations: int = 50
    """RL iterations."""
    eval_every: int = 10
    """Iterations between evaluations."""
    tasks: int = 8
    """Tasks an iteration."""
    group_size: int = 8
    """Episodes a task."""
    evaluated: int = 256
    """Tasks an evaluation plays, one episode each."""

    @property
    @abstractmethod
    def context(self) -> int:
        """Longest prompt and response together, in tokens."""

    @property
    @abstractmethod
    def max_new_tokens(self) -> int:
        """Longest response, in tokens."""

    @abstractmethod
    def environment(self, task: EnvTask) -> TextEnv:
        """Build the environment of a task."""

    @abstractmethod
    def render(self, history: History) -> list[int]:
        """Return the prompt of a turn."""

    @abstractmethod
    def parse(self, text: str) -> str:
        """Return the action of a response.

        Raises:
            ValueError: If it holds none.
        """

    @abstractmethod
    def demonstrations(self) -> list[Pair]:
        """Return turns to learn from before RL, the same for all seeds."""

    def encode(self, words: Sequence[str]) -> list[int]:
        """Return the ids of words."""
        return [self.vocabulary.index(word) for word in words]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids."""
        return " ".join(self.vocabulary[i] for i in ids)


def warm_start(
    setting: AgentTraining, folder: Path, seed: int, *, log: Callable[..., None]
) -> float:
    """Train a new model on noisy demonstrations and leave it in ``folder``; return its loss.

    Args:
        setting: Task, model and demonstrations.
        folder: Where the models of all seeds go, each replaced as a whole.
        seed: Decides the model's weights and its demonstrations.
        log: Not used: the first row of each arm tells all of a warm start.
    """
    model = _new_model(setting, seed)
    losses = supervised(model, _batches(setting, seed), learning_rate=2e-3)
    with replace_folder(_model_folder(folder, seed)) as place:
        save_model(model, str(place / "model.safetensors"))
    return losses[-1]


def warm_model(setting: AgentTraining, folder: Path, seed: int) -> TinyGPT:
    """Load what `warm_start` left.

    Raises:
        UserError: If it is gone.
    """
    model = _new_model(setting, seed)
    start = whole_folder(_model_folder(folder, seed))
    if start is None:
        raise UserError(f"the warm start of seed {seed} is gone from {folder}: start with --fresh")
    load_model(model, str(start / "model.safetensors"))
    return model


def train_agent(
    setting: AgentTraining,
    folder: Path,
    arm: EMPGParams | None,
    rate: float,
    seed: int,
    *,
    log: Callable[..., None] | None = None,
) -> dict[str, float]:
    """Train the warm-started model of ``seed`` by one arm at one learning rate.

    Args:
        setting: Task and optimizer.
        folder: Where `warm_start` left the model.
        arm: One of `icml.empg.experiment.arms.ARMS`.
        rate: Learning rate.
        seed: Decides the start, the tasks and the samples.
        log: Called as ``log(step, success=..., entropy=...)`` at each evaluation.

    Returns:
        ``AUC``: the mean over the evaluations of the success rate; ``last success``; ``last
        entropy``: mean over the turns of the last evaluation, in nats.
    """

    def advantages(batch: StepBatch) -> Tensor:
        return step_advantages(arm, grpo_steps(batch), batch.step_entropy, batch.next)

    result = train_episodes(
        warm_model(setting, folder, seed),
        _sample_tasks,
        setting.environment,
        advantages,
        LoopConfig(
            iterations=setting.iterations,
            max_new_tokens=setting.max_new_tokens,
            prompts_per_iteration=setting.tasks,
            group_size=setting.group_size,
            learning_rate=rate,
            optimizer=setting.optimizer,
            grad_clip=setting.grad_clip,
            eos_id=EOS,
            eval_every=setting.eval_every,
        ),
        max_turns=setting.max_steps,
        render=setting.render,
        decode=setting.decode,
        parse=setting.parse,
        seed=seed,
        evaluate=lambda model: _evaluate(setting, model),
    )
    evaluated = [row for row in result.rows if "success" in row]
    if log is not None:
        for row in evaluated:
            log(int(row["step"]), success=row["success"], entropy=row["entropy"])
    return {
        "AUC": sum(row["success"] for row in evaluated) / len(evaluated),
        "last success": evaluated[-1]["success"],
        "last entropy": evaluated[-1]["entropy"],
    }


def grpo_steps(batch: StepBatch) -> Tensor:
    """Return GRPO's advantage of each turn's episode: ``(N,)``."""
    return group_advantage(batch.returns, batch.traj_group)[batch.traj]


def play(
    setting: AgentTraining,
    model: nn.Module,
    tasks: Sequence[EnvTask],
    *,
    group_size: int,
    seed: int,
) -> list[Trajectory]:
    """Let a model play ``group_size`` episodes of each task."""
    return collect(
        ModelSampler(model, setting.decode, eos_id=EOS),
        setting.environment,
        tasks,
        group_size=group_size,
        max_turns=setting.max_steps,
        max_new_tokens=setting.max_new_tokens,
        render=setting.render,
        parse=setting.parse,
        seed=seed,
    )


def _evaluate(setting: AgentTraining, model: nn.Module) -> dict[str, float]:
    tasks = [EnvTask(_FIRST_EVALUATION_SEED + i) for i in range(setting.evaluated)]
    episodes = play(setting, model, tasks, group_size=1, seed=_EVALUATION_SEED)
    entropies = [step.step_entropy for episode in episodes for step in episode.steps]
    return {
        "success": sum(episode.success for episode in episodes) / len(episodes),
        "entropy": sum(entropies) / len(entropies),
    }


def _sample_tasks(generator: torch.Generator, n: int) -> list[EnvTask]:
    drawn = torch.randint(_FIRST_EVALUATION_SEED, (n,), generator=generator)
    return [EnvTask(seed) for seed in drawn.tolist()]


def _new_model(setting: AgentTraining, seed: int) -> TinyGPT:
    """Build the untrained model of ``seed``."""
    return TinyGPT(
        len(setting.vocabulary), d=setting.width, layers=2, heads=4, ctx=setting.context, seed=seed
    )


def _model_folder(folder: Path, seed: int) -> Path:
    return folder / f"warm-start-seed={seed}"


def _batches(setting: AgentTraining, seed: int) -> Iterator[list[Pair]]:
    turns = setting.demonstrations()
    rng = random.Random(seed)
    for _ in range(setting.sft_steps):
        yield [turns[rng.randrange(len(turns))] for _ in range(64)]
