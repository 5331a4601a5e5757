"""A small language model in BabyAI's grid worlds, for the slow run. Needs the extra ``babyai``.

A turn is one prompt and one response of words, each a token; the response ends itself::

    <bos> go to the red ball | no action | a red ball 2 steps ahead wall 4 steps ahead ... |
        ->   go forward <eos>
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from icml.core.envs.babyai import ACTIONS, WORDS, BabyAI
from icml.core.models.tiny import SPECIAL_TOKENS
from icml.core.rl.rollout import EnvTask, History
from icml.core.rl.sft import Pair
from icml.empg.experiment.agent import AgentTraining, train_agent, warm_start

__all__ = ["BabyAITraining", "train_babyai", "warm_start"]

WALKS = ACTIONS[:3]
"""What a random action of a demonstration is drawn from: turn left, turn right, go forward."""
NOTHING = "no action"

train_babyai = train_agent


@dataclass(frozen=True)
class BabyAITraining(AgentTraining):
    """One BabyAI level for a language model."""

    vocabulary: ClassVar[tuple[str, ...]] = (*SPECIAL_TOKENS, "|", *dict.fromkeys(WORDS))

    max_steps: int = 16
    """Turns after which an episode is cut off."""
    noise: float = 0.5
    """Chance that a demonstration has a random walk instead of the expert's action."""
    level: str = "GoToLocalS6N3"
    """Name between ``BabyAI-`` and the version."""
    tasks: int = 16
    """Tasks an iteration."""

    @property
    def context(self) -> int:
        """Longest prompt and response together, in tokens."""
        return 160

    @property
    def max_new_tokens(self) -> int:
        """An action of two words and the end token."""
        return 3

    def environment(self, task: EnvTask) -> BabyAI:
        """Build the level."""
        return BabyAI(self.level, max_steps=self.max_steps)

    def render(self, history: History) -> list[int]:
        """Return the prompt of a turn: the task, the last action, and what is seen now."""
        now = history.observations[-1]
        last = history.actions[-1] if history.actions and history.actions[-1] else NOTHING
        parts = ("<bos>", now.task or "", "|", last, "|", now.text, "|")
        return self.encode(" ".join(parts).split())

    def parse(self, text: str) -> str:
        """Return the response, which must be an action."""
        if text not in ACTIONS:
            raise ValueError(f"a response must be one of {', '.join(ACTIONS)}, got {text!r}")
        return text

    def demonstrations(self) -> list[Pair]:
        """Return the turns of 150 episodes of minigrid's bot, many of them spoilt."""
        return _demonstrations(self)


@cache
def _demonstrations(setting: BabyAITraining) -> list[Pair]:
    rng = random.Random(0)
    return [turn for seed in range(150) for turn in _episode(setting, seed, rng)]


def _episode(setting: BabyAITraining, seed: int, rng: random.Random) -> list[Pair]:
    """Follow the bot, which plans anew in each turn, in 4 of 5 turns."""
    env = setting.environment(EnvTask(seed))
    history, done, turns = History([env.reset(seed)]), False, []
    while not done:
        wanted = _expert_action(env)
        said = wanted if rng.random() > setting.noise else rng.choice(WALKS)
        turns.append((setting.render(history), setting.encode([*said.split(), "<eos>"])))
        acted = wanted if rng.random() > 0.2 else rng.choice(WALKS)
        observation, _, done, _ = env.step(acted)
        history.observations.append(observation)
        history.actions.append(acted)
    env.close()
    return turns


def _expert_action(env: BabyAI) -> str:
    """Return the bot's next action, or a walk where it is lost, which ends with the episode."""
    try:
        plan: Sequence[str] = env.expert_actions()
    except RuntimeError:
        plan = ()
    return plan[0] if plan else "go forward"
