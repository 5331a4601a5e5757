"""What ``icml empg train`` reads: a YAML file, checked whole before anything costs time.

A recipe names a model, an environment and, under ``training``, fields of ``EMPGConfig``. The
recipes of this package lie in ``icml/empg/recipes`` and are known by their names.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from icml.core.rl.recipe import Part, parse_recipe, recipe_text

Count = Annotated[int, Field(ge=1)]


class EnvironmentPart(Part):
    """What the agent acts in."""

    babyai: Annotated[str, Field(min_length=1)]
    """A BabyAI level, such as ``GoToLocal``."""
    tasks: Count = 64
    """Number of different episodes, by their seeds."""
    first_seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the first one."""
    max_turns: Count = 12
    """Longest episode, in turns."""
    instructions: str = "Reach the goal. Answer with one action and nothing else."
    """What the agent is told before the first observation, task and actions."""


class Recipe(Part):
    """A training run of ``EMPGTrainer``."""

    model: Annotated[str, Field(min_length=1)]
    """A hub id, a folder, or what ``icml.core.models.load`` knows, as ``pkg:smollm2``."""
    environment: EnvironmentPart
    training: dict[str, Any] = Field(default_factory=dict)
    """Fields of ``EMPGConfig``; ``max_completion_length`` is the longest response of a turn."""
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
    return parse_recipe(Recipe, recipe_text(source, "icml.empg"), source)
