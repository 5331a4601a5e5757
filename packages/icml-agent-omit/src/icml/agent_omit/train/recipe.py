"""What ``icml agent-omit train`` reads: a YAML file, checked whole before anything costs time.

A recipe names a model, an environment, the omission reward and, under ``training``, fields of TRL's
``GRPOConfig``. The recipes of this package lie in ``icml/agent_omit/recipes`` and are known by
their names.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from icml.agent_omit.vault import LONGEST
from icml.core.rl.recipe import Part, parse_recipe, recipe_text

Count = Annotated[int, Field(ge=1)]


class VaultPart(Part):
    """A vault's sizes."""

    turns: Annotated[int, Field(ge=3, le=LONGEST)] = 5
    digits: Annotated[int, Field(ge=1, le=LONGEST)] = 3
    modulus: Annotated[int, Field(ge=2, le=10)] = 5


class EnvironmentPart(Part):
    """What the agent acts in: one of the two."""

    babyai: Annotated[str, Field(min_length=1)] | None = None
    """A BabyAI level, such as ``GoToLocal``."""
    vault: VaultPart | None = None
    """A vault."""
    tasks: Count = 64
    """Number of different episodes, by their seeds."""
    first_seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the first one."""
    max_turns: Count = 10
    """Longest episode, in turns."""

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.babyai is None) == (self.vault is None):
            raise ValueError("give babyai or vault, one of them")
        return self


class RewardPart(Part):
    """The omission reward."""

    weight: Annotated[float, Field(ge=0, le=1)] = 0.2
    """Of what omission saves; the rest is the task's."""
    success_threshold: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Smallest reward of the task that counts as success."""


class Recipe(Part):
    """A training run of TRL's ``GRPOTrainer``."""

    model: Annotated[str, Field(min_length=1)]
    """A hub id, a folder, or what ``icml.core.models.load`` knows, as ``pkg:smollm2``."""
    environment: EnvironmentPart
    reward: RewardPart = Field(default_factory=RewardPart)
    template: Literal["refuse", "account"] = "refuse"
    """What to do about a chat template that changes thoughts; see `chat_transcript`."""
    training: dict[str, Any] = Field(default_factory=dict)
    """Fields of ``GRPOConfig``; ``max_completion_length`` is the longest output of a turn."""
    version: Literal[1] = 1
    """Of this format."""


def read_recipe(source: str) -> Recipe:
    """Read and check a recipe.

    Args:
        source: The path of a YAML file, or the name of a recipe of ours.

    Raises:
        UserError: If there is no such file or name, or if it is no recipe; the message lists
            everything that is wrong.
    """
    return parse_recipe(Recipe, recipe_text(source, "icml.agent_omit"), source)
