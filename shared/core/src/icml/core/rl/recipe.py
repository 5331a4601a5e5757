"""Recipes of training runs: YAML files, checked whole before anything costs time.

A package describes its recipe by a subclass of `Part`; its own recipes lie in its folder
``recipes`` and are known by their names.
"""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from icml.core.errors import UserError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

__all__ = ["Part", "complaint", "parse_recipe", "recipe_names", "recipe_text"]

RecipeT = TypeVar("RecipeT", bound=BaseModel)


class Part(BaseModel):
    """A part of a recipe, or all of it; keys that it doesn't know are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class _Loader(yaml.SafeLoader):
    """YAML 1.2's words and numbers: ``on`` is a word, ``1e-6`` a number; PyYAML has 1.1's."""


_TAG = "tag:yaml.org,2002:"
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != f"{_TAG}bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(f"{_TAG}bool", re.compile("(?:true|false)$"), ["t", "f"])
_Loader.add_implicit_resolver(
    f"{_TAG}float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def recipe_names(package: str) -> list[str]:
    """Return the names of the recipes that come with a package, such as ``icml.gdpo``."""
    names = [file.name for file in _folder(package).iterdir()]
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def recipe_text(source: str, package: str) -> str:
    """Return the text of a recipe.

    Args:
        source: The path of a file, or the name of a recipe of the package.
        package: Import name of the package.

    Raises:
        UserError: If there is no such file or name, or the file can't be read.
    """
    ours = recipe_names(package)
    if source in ours:
        return _folder(package).joinpath(f"{source}.yaml").read_text(encoding="utf-8")
    try:
        return Path(source).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(
            f"no recipe {source!r}: there is no such file, and ours are {', '.join(ours)}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"can't read the recipe {source}: {error}") from error


def parse_recipe(kind: type[RecipeT], text: str, where: str) -> RecipeT:
    """Check the text of a recipe.

    Args:
        kind: What the recipe must be.
        text: YAML, its words and numbers those of version 1.2.
        where: Names the text in errors.

    Raises:
        UserError: If it is not YAML or no such recipe; the message lists everything that is wrong.

    Example:
        >>> class Recipe(Part):
        ...     learning_rate: float
        >>> parse_recipe(Recipe, "learning_rate: 1e-6", "here")
        Recipe(learning_rate=1e-06)
    """
    try:
        values = yaml.load(text, _Loader)
    # Besides bad syntax: nesting too deep, and what PyYAML makes of `2026-99-99` or `!!int x`.
    except (yaml.YAMLError, RecursionError, ValueError, AttributeError) as error:
        raise UserError(f"{where} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        needed = [name for name, field in kind.model_fields.items() if field.is_required()]
        raise UserError(f"{where}: a recipe maps {', '.join(needed)} and more to values")
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise UserError(f"{where}: {'; '.join(map(complaint, error.errors()))}") from error


def complaint(error: Any) -> str:
    """Say in a few words what pydantic found: one of ``ValidationError.errors()``."""
    place = ".".join(map(str, error["loc"]))
    if error["type"] == "extra_forbidden":
        return f"unknown key {place}"
    message = error["msg"].removeprefix("Value error, ")
    return f"{place}: {message[0].lower()}{message[1:]}" if place else message


def _folder(package: str) -> Traversable:
    return files(package).joinpath("recipes")
