"""What ``icml empg train`` reads: a YAML file, checked whole before anything costs time.

A recipe names a model, an environment and, under ``training``, fields of ``EMPGConfig``. The
recipes of this package lie in ``icml/empg/recipes`` and are known by their names.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from icml.core.errors import UserError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

Count = Annotated[int, Field(ge=1)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EnvironmentPart(_Part):
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


class Recipe(_Part):
    """A training run of ``EMPGTrainer``."""

    model: Annotated[str, Field(min_length=1)]
    """A hub id, a folder, or what ``icml.core.models.load`` knows, as ``pkg:smollm2``."""
    environment: EnvironmentPart
    training: dict[str, Any] = {}
    """Fields of ``EMPGConfig``; ``max_completion_length`` is the longest response of a turn."""
    version: Literal[1] = 1
    """Of this format."""


def recipe_names() -> list[str]:
    """Return the names of the recipes that come with this package.

    Example:
        >>> "babyai_smollm2" in recipe_names()
        True
    """
    return sorted(
        f.name.removesuffix(".yaml") for f in _folder().iterdir() if f.name[-5:] == ".yaml"
    )


def read_recipe(source: str) -> Recipe:
    """Read and check a recipe.

    Args:
        source: The path of a YAML file, or the name of a recipe of ours.

    Raises:
        UserError: If there is no such file or name, or if it is no recipe; the message lists
            everything that is wrong.
    """
    return parse_recipe(_text(source), source)


def parse_recipe(text: str, where: str) -> Recipe:
    """Check the text of a recipe; ``where`` names it in errors.

    Raises:
        UserError: If it is not YAML or no recipe.
    """
    try:
        values = yaml.safe_load(text)
    # Besides bad syntax: nesting too deep, and what PyYAML makes of `2026-99-99` or `!!int x`.
    except (yaml.YAMLError, RecursionError, ValueError, AttributeError) as error:
        raise UserError(f"{where} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise UserError(f"{where}: a recipe maps model, environment and training to values")
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        raise UserError(f"{where}: {'; '.join(map(complaint, error.errors()))}") from error


def complaint(error: Any) -> str:
    """Say in a few words what pydantic found."""
    place = ".".join(map(str, error["loc"]))
    if error["type"] == "extra_forbidden":
        return f"unknown key {place}"
    message = error["msg"].removeprefix("Value error, ")
    return f"{place}: {message[0].lower()}{message[1:]}" if place else message


def _text(source: str) -> str:
    if source in recipe_names():
        return _folder().joinpath(f"{source}.yaml").read_text(encoding="utf-8")
    try:
        return Path(source).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(
            f"no recipe {source!r}: there is no such file, and ours are {', '.join(recipe_names())}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"can't read the recipe {source}: {error}") from error


def _folder() -> Traversable:
    return files("icml.empg").joinpath("recipes")
