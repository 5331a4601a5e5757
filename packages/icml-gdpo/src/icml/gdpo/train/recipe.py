"""What ``icml gdpo train`` reads: a YAML file, checked whole before anything costs time.

A recipe names a model, a dataset, rewards and, under ``training``, fields of ``GDPOConfig``. The
recipes of this package lie in ``icml/gdpo/recipes`` and are known by their names.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from icml.core.errors import UserError
from icml.core.rl import recipe as recipes
from icml.core.rl.recipe import Part, recipe_text

BUILT_IN = ("answer", "format", "integer", "length")
"""Rewards of this package that a recipe may name; see :mod:`icml.gdpo.train.text_rewards`."""


class DatasetPart(Part):
    """Where prompts come from."""

    source: Annotated[str, Field(min_length=1)]
    """A hub id, a ``.json`` or ``.jsonl`` file, or ``reasoning_gym:chain_sum?size=64&seed=0``."""
    subset: str | None = None
    """Configuration of a hub dataset, as ``main``."""
    split: str = "train"
    """Split of a hub dataset."""
    prompt: str | None = None
    """The user's message, with columns in braces, as ``{question}``; without it the column
    ``prompt`` is taken as it is."""
    system: str | None = None
    """A system message before it."""
    answer: str = "answer"
    """The column that rewards get as ``answer``."""

    @model_validator(mode="after")
    def _system_needs_prompt(self) -> DatasetPart:
        if self.system is not None and self.prompt is None:
            raise ValueError("system is put before the message that prompt makes: give prompt too")
        return self


class RewardPart(Part):
    """A reward, on its own or counting only where another one is high enough."""

    reward: Annotated[str, Field(min_length=1)]
    """The name of a built-in one, or ``module:function``."""
    at_most: Annotated[int, Field(ge=1)] | None = None
    """Longest completion that ``length`` rewards, in tokens."""
    on: str | None = None
    """The reward that this one is conditioned on."""
    at_least: float | None = None
    """The smallest value of that reward that lets this one count."""

    @model_validator(mode="after")
    def _belong_together(self) -> RewardPart:
        if (self.reward == "length") != (self.at_most is not None):
            raise ValueError("length needs at_most (tokens), and no other reward takes it")
        if (self.on is None) != (self.at_least is None):
            raise ValueError("on and at_least belong together: give both or none")
        if self.on == "length":
            raise ValueError("a reward can't be conditioned on length")
        return self


class Recipe(Part):
    """A training run of ``GDPOTrainer``."""

    model: Annotated[str, Field(min_length=1)]
    """A hub id, a folder, or what ``icml.core.models.load`` knows, as ``pkg:smollm2``."""
    dataset: DatasetPart
    rewards: Annotated[list[RewardPart], Field(min_length=1)]
    training: dict[str, Any] = Field(default_factory=dict)
    """Fields of ``GDPOConfig``."""
    version: Literal[1] = 1
    """Of this format."""

    @model_validator(mode="before")
    @classmethod
    def _names_are_rewards(cls, values: Any) -> Any:
        if isinstance(values, dict) and isinstance(values.get("rewards"), list):
            rewards = [{"reward": r} if isinstance(r, str) else r for r in values["rewards"]]
            return {**values, "rewards": rewards}
        return values

    @property
    def imported(self) -> list[str]:
        """The reward functions that are named by an import path."""
        named = [name for part in self.rewards for name in (part.reward, part.on) if name]
        return sorted({name for name in named if ":" in name})


def read_recipe(source: str) -> Recipe:
    """Read and check a recipe.

    Args:
        source: The path of a YAML file, or the name of a recipe of ours.

    Raises:
        UserError: If there is no such file or name, or if it is no recipe; the message lists
            everything that is wrong.
    """
    return parse_recipe(recipe_text(source, "icml.gdpo"), source)


def parse_recipe(text: str, where: str) -> Recipe:
    """Check the text of a recipe; ``where`` names it in errors.

    Raises:
        UserError: If it is not YAML or no recipe.
    """
    recipe = recipes.parse_recipe(Recipe, text, where)
    for name in {p.reward for p in recipe.rewards} | {p.on for p in recipe.rewards if p.on}:
        if name not in BUILT_IN and ":" not in name:
            raise UserError(
                f"{where}: no reward named {name!r}; there are {', '.join(BUILT_IN)}, "
                "or module:function with --allow-import"
            )
    return recipe
