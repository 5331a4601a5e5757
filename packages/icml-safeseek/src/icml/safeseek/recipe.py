"""``icml safeseek find``: from a checked recipe to a circuit in a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from icml.core.errors import UserError
from icml.core.rl.recipe import Part, parse_recipe, recipe_text

if TYPE_CHECKING:
    from icml.safeseek.objectives import Objective
    from icml.safeseek.search import SearchConfig, SearchResult

__all__ = ["CircuitRecipe", "find", "objective_of", "read_recipe", "search_config"]

Text = Annotated[str, Field(min_length=1)]


class ObjectivePart(Part):
    """What the circuit carries, and what weighs how much."""

    behaviour: Literal["backdoor", "alignment"]
    """``backdoor``: rows with a triggered prompt. ``alignment``: what refusals need."""
    preset: str = "ours"
    """``ours``, or a script of the authors': official-head, official-neuron,
    official-head-neuron."""
    weights: dict[str, float] = Field(default_factory=dict)
    """Of ``ours`` only: arguments of ``backdoor_objective`` or ``alignment_objective``."""


class CircuitRecipe(Part):
    """A search for a circuit."""

    model: Text
    """A folder, a hub id, or what ``icml.core.models.load`` knows, as ``pkg:smollm2``."""
    data: Text
    """Rows to learn from, JSONL."""
    eval_data: Text | None = None
    """Rows by which the best gates are chosen; those of ``data`` where there are none."""
    objective: ObjectivePart
    search: dict[str, Any] = Field(default_factory=dict)
    """Fields of ``SearchConfig``; those of the authors' script where the preset is theirs."""
    dtype: Literal["float32", "bfloat16"] | None = None
    """Number type of the weights; None takes what fits the device."""
    version: Literal[1] = 1
    """Of this format."""


def read_recipe(source: str) -> CircuitRecipe:
    """Read and check a recipe.

    Raises:
        UserError: If there is no such file or name, or if it is no recipe; the message lists
            everything that is wrong.
    """
    recipe = parse_recipe(CircuitRecipe, recipe_text(source, "icml.safeseek"), source)
    search_config(recipe)
    return recipe


def objective_of(part: ObjectivePart) -> Objective:
    """Return the objective that a recipe names.

    Raises:
        UserError: If a weight or the preset is unknown, or weights are given for a preset.
    """
    from icml.safeseek import objectives

    make: Any = getattr(objectives, f"{part.behaviour}_objective")
    if part.preset != "ours" and part.weights:
        raise UserError(f"objective: the preset {part.preset} has weights of its own: leave them")
    known = {"backdoor": ("clean", "repaired", "carry"), "alignment": ("accept", "refuse")}
    unknown = sorted(set(part.weights) - {*known[part.behaviour], "sparsity"})
    if unknown:
        raise UserError(f"objective: {part.behaviour} has no weight {', '.join(unknown)}")
    return make(part.preset, **part.weights)


def search_config(recipe: CircuitRecipe) -> SearchConfig:
    """Return a recipe's settings of the search.

    Raises:
        UserError: If a field is unknown or its value can't be.
    """
    from icml.safeseek.search import SearchConfig, official_search

    unknown = sorted(set(recipe.search) - {field.name for field in fields(SearchConfig)})
    if unknown:
        raise UserError(f"search: SearchConfig has no {', '.join(unknown)}")
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in recipe.search.items()
    }
    objective = objective_of(recipe.objective)
    try:
        if recipe.objective.preset != "ours":
            return official_search(objective, **given)
        return SearchConfig(**given)
    except TypeError as error:  # a text where a number belongs
        raise UserError(f"search: {error}") from error


def find(
    source: str,
    *,
    out: Path | str | None = None,
    say: Callable[[str], None] = print,
    **changes: str | None,
) -> SearchResult:
    """Search for a circuit by a recipe; the same call again goes on where it was stopped.

    Everything that can be checked is, before a model is loaded or downloaded.

    Args:
        source: The path of a YAML file, or the name of a recipe of ours.
        out: Folder of the search; the circuit is in its ``circuit``. ``runs/safeseek/<recipe>``
            when None.
        say: Gets lines on the progress.
        changes: ``model``, ``data``, ``eval_data`` in the recipe's place; None leaves it.

    Raises:
        CircuitSearchError: If no unit is left out, or every one.
        UserError: If the recipe, the data or the model can't be used.
    """
    from icml.core.models.load import load
    from icml.safeseek.data import CircuitDataset
    from icml.safeseek.search import find_circuit

    recipe = read_recipe(source)
    recipe = recipe.model_copy(update={k: v for k, v in changes.items() if v is not None})
    objective, config = objective_of(recipe.objective), search_config(recipe)
    for file in (recipe.data, recipe.eval_data):
        if file is not None and not Path(file).is_file():
            raise UserError(f"there is no file {file}: give rows, or icml safeseek plant some")
    folder = Path(out or Path("runs/safeseek") / Path(source).stem)
    found = load(recipe.model, dtype=recipe.dtype)
    data = CircuitDataset.read(recipe.data, found.tokenizer)
    held_out = None
    if recipe.eval_data is not None:
        held_out = CircuitDataset.read(recipe.eval_data, found.tokenizer)
    say(f"model  {recipe.model}\ndata   {len(data)} rows of {recipe.data}\nout    {folder}")
    result = find_circuit(
        found.model,
        found.tokenizer,
        data,
        objective,
        config,
        eval_data=held_out,
        callbacks=[_every(config.eval_every, say)],
        out=folder,
    )
    for kind in result.circuit.kinds:
        size, total = result.circuit.size(kind), result.circuit.total(kind)
        say(f"{kind}: {size} of {total} ({size / total:.2%})")
    say(f"circuit in {folder / 'circuit'}")
    return result


def _every(steps: int, say: Callable[[str], None]) -> Callable[[int, Mapping[str, float]], None]:
    def tell(step: int, row: Mapping[str, float]) -> None:
        if step % steps == 0:
            say(f"step {step:>5}  " + "  ".join(f"{k} {v:.4g}" for k, v in row.items()))

    return tell
