"""Training runs of a small language model on KeyDoor, in the loop over text environments.

A turn is one prompt and one response of words, each a token::

    <bos> hands-empty key-left door-unseen no-wall after-nothing |   ->   so-left left

The thoughts before the action are trained like it, and count in the turn's entropy. Demonstrations
for the warm start act at random more often than not.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import torch
from safetensors.torch import load_model, save_model
from torch import Tensor, nn

from icml.core.errors import UserError
from icml.core.journal import replace_folder, whole_folder
from icml.core.models.tiny import SPECIAL_TOKENS, TinyGPT
from icml.core.rl.episode_loop import train_episodes
from icml.core.rl.groups import group_advantage
from icml.core.rl.loop import LoopConfig
from icml.core.rl.rollout import EnvTask, History, ModelSampler, StepBatch, Trajectory, collect
from icml.core.rl.sft import Pair, supervised
from icml.empg.experiment.arms import step_advantages
from icml.empg.keydoor import ACTIONS, WORDS, KeyDoor, searching_action
from icml.empg.params import EMPGParams

__all__ = ["LanguageTraining", "grpo_steps", "new_model", "play", "train_language", "warm_start"]

PLANS = tuple(f"so-{action}" for action in ACTIONS)
SYNONYMS = 6
MUSINGS = tuple(f"musing-{i}" for i in range(SYNONYMS))
VOCABULARY = (*SPECIAL_TOKENS, "|", *WORDS, *PLANS, *MUSINGS)
"""The words, in the order of their ids."""
EOS = SPECIAL_TOKENS.index("<eos>")

_ID = {word: index for index, word in enumerate(VOCABULARY)}
_FIRST_EVALUATION_SEED = 10**7  # training draws its seeds below
_EVALUATION_SEED = 99  # the same random numbers at every evaluation of every run


@dataclass(frozen=True)
class LanguageTraining:
    """A setting: the task, the warm start and the optimizer, for all arms alike."""

    cells: int = 9
    """Length of the corridor."""
    max_steps: int = 14
    """Turns after which an episode is cut off."""
    thoughts: int = 1
    """Words before the action: musings, which an uncertain demonstrator draws from six synonyms,
    and last the plan."""
    noise: float = 0.55
    """Chance that a demonstration has a random plan or, by itself, a random action."""
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

    def environment(self, task: EnvTask | None = None) -> KeyDoor:
        """Build the environment of any task."""
        return KeyDoor(cells=self.cells, max_steps=self.max_steps)


def render(history: History) -> list[int]:
    """Return the prompt of a turn: what is seen now; 7 tokens."""
    return encode(["<bos>", *history.observations[-1].text.split(), "|"])


def encode(words: Sequence[str]) -> list[int]:
    """Return the ids of words."""
    return [_ID[word] for word in words]


def decode(ids: Sequence[int]) -> str:
    """Return the text of ids."""
    return " ".join(VOCABULARY[i] for i in ids)


def parse(text: str) -> str:
    """Return the action of a response: its last word.

    Raises:
        ValueError: If that is no action.
    """
    *_, last = ["", *text.split()]
    if last not in ACTIONS:
        raise ValueError(f"the last word must be one of {', '.join(ACTIONS)}, got {last!r}")
    return last


def new_model(setting: LanguageTraining, seed: int) -> TinyGPT:
    """Build the untrained model of ``seed``."""
    context = 8 + setting.thoughts
    return TinyGPT(len(VOCABULARY), d=setting.width, layers=2, heads=4, ctx=context, seed=seed)


def warm_start(
    setting: LanguageTraining, folder: Path, seed: int, *, log: Callable[..., None]
) -> float:
    """Train a new model on noisy demonstrations and leave it in ``folder``; return its loss.

    Args:
        setting: Task, model and demonstrations.
        folder: Where the models of all seeds go, each replaced as a whole.
        seed: Decides the model's weights and its demonstrations.
        log: Not used: the first row of each arm tells all of a warm start.
    """
    model = new_model(setting, seed)
    losses = supervised(model, _batches(setting, seed), learning_rate=2e-3)
    with replace_folder(_model_folder(folder, seed)) as place:
        save_model(model, str(place / "model.safetensors"))
    return losses[-1]


def warm_model(setting: LanguageTraining, folder: Path, seed: int) -> TinyGPT:
    """Load what `warm_start` left.

    Raises:
        UserError: If it is gone.
    """
    model = new_model(setting, seed)
    start = whole_folder(_model_folder(folder, seed))
    if start is None:
        raise UserError(f"the warm start of seed {seed} is gone from {folder}: start with --fresh")
    load_model(model, str(start / "model.safetensors"))
    return model


def train_language(
    setting: LanguageTraining,
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
        log: Called as ``log(step, success=..., turns=...)`` at each evaluation.

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
            max_new_tokens=setting.thoughts + 1,
            prompts_per_iteration=setting.tasks,
            group_size=setting.group_size,
            learning_rate=rate,
            optimizer=setting.optimizer,
            grad_clip=setting.grad_clip,
            eos_id=EOS,
            eval_every=setting.eval_every,
        ),
        max_turns=setting.max_steps,
        render=render,
        decode=decode,
        parse=parse,
        seed=seed,
        evaluate=lambda model: _evaluate(setting, model),
    )
    evaluated = [row for row in result.rows if "success" in row]
    for row in evaluated if log is not None else ():
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
    setting: LanguageTraining,
    model: nn.Module,
    tasks: Sequence[EnvTask],
    *,
    group_size: int,
    seed: int,
) -> list[Trajectory]:
    """Let a model play ``group_size`` episodes of each task."""
    return collect(
        ModelSampler(model, decode, eos_id=EOS),
        setting.environment,
        tasks,
        group_size=group_size,
        max_turns=setting.max_steps,
        max_new_tokens=setting.thoughts + 1,
        render=render,
        parse=parse,
        seed=seed,
    )


def _evaluate(setting: LanguageTraining, model: nn.Module) -> dict[str, float]:
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


def _model_folder(folder: Path, seed: int) -> Path:
    return folder / f"warm-start-seed={seed}"


def _batches(setting: LanguageTraining, seed: int) -> Iterator[list[Pair]]:
    turns = demonstrations(setting)
    rng = random.Random(seed)
    for _ in range(setting.sft_steps):
        yield [turns[rng.randrange(len(turns))] for _ in range(64)]


@cache
def demonstrations(setting: LanguageTraining) -> list[Pair]:
    """Return the turns of 150 noisy episodes, the same for all seeds: prompts and responses.

    The demonstrator walks well enough to be everywhere (4 of 5 actions are those of the search),
    but what it writes down is often something else.
    """
    rng = random.Random(0)
    turns: list[Pair] = []
    for seed in range(150):
        env = setting.environment()
        observation, done = env.reset(seed), False
        while not done:
            words = observation.text.split()
            wanted, sure = _search(words)
            prompt = encode(["<bos>", *words, "|"])
            turns.append((prompt, encode(_response(setting, wanted, sure, rng))))
            acted = wanted if rng.random() > 0.2 else rng.choice(ACTIONS)
            observation, _, done, _ = env.step(acted)
    return turns


def _search(words: Sequence[str]) -> tuple[str, bool]:
    """Return what the search does, and whether it sees what it looks for."""
    hand, key, door, place, last = words
    sight = (door if hand == "key-in-hand" else key).partition("-")[2]
    return searching_action(hand, sight, place, last), sight != "unseen"


def _response(setting: LanguageTraining, wanted: str, sure: bool, rng: random.Random) -> list[str]:
    musings = [rng.choice(MUSINGS[:1] if sure else MUSINGS) for _ in range(setting.thoughts - 1)]
    action = wanted if rng.random() > setting.noise else rng.choice(ACTIONS)
    plan = action if rng.random() > setting.noise else rng.choice(ACTIONS)
    return [*musings, f"so-{plan}", action]
