"""What ``icml wzllm train`` reads: a YAML file, checked whole before anything costs time.

A recipe names a model, statements, sizes of expert iteration and, under ``training``, fields of
``DAPOConfig``. The recipes of this package lie in ``icml/wzllm/recipes`` and are known by their
names.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from icml.core.rl.recipe import Part, parse_recipe, recipe_text
from icml.wzllm.training.rounds import Rounds

__all__ = ["BootstrapPart", "Recipe", "StatementsPart", "read_recipe"]

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class StatementsPart(Part):
    """What is to be proved."""

    source: Annotated[str, Field(min_length=1)]
    """``rows?largest=9``, ``suite`` (the shipped true identities), or a file for
    `icml wzllm bench`."""
    held_out: Count
    """Statements that are never trained on, and that the model is measured by."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Decides which ones are held out and which come with a certificate."""
    given: Count
    """Training statements that come with a certificate of the symbolic search, at most."""
    prompt: str = "{statement}\n"
    """The user's message, or what the answer continues where the model has no chat template."""
    budget_s: Annotated[float, Field(gt=0, le=86_400)] = 10.0
    """Seconds for one search, and for one answer's check; a day at most."""

    @model_validator(mode="after")
    def _prompt_has_the_statement(self) -> StatementsPart:
        if "{statement}" not in self.prompt:
            raise ValueError("prompt needs {statement}, where the statement goes")
        return self


class BootstrapPart(Part):
    """Supervised training on the given certificates, then expert iteration."""

    warm_steps: Count
    """Gradient steps on the given certificates."""
    rounds: Annotated[int, Field(ge=0)]
    """Rounds of expert iteration, at most."""
    steps: Count
    """Gradient steps a round."""
    learning_rate: Positive
    """Of AdamW."""
    batch: Count = 48
    """Pairs a gradient step."""
    samples: Count = 8
    """Answers drawn a statement and round."""
    temperature: Positive = 1.0
    """Of the draws."""
    keep: Count = 2
    """Answers kept a statement."""
    restart: bool = True
    """Whether each round trains the supervised model anew on all that is kept."""
    stop_below: Annotated[float, Field(ge=0, lt=1)] = 0.01
    """Stop after a round that adds less than this fraction."""
    longest: Count = 64
    """Longest answer, in tokens."""

    def sizes(self) -> Rounds:
        """Return what `expert_iteration` takes."""
        return Rounds(
            rounds=self.rounds,
            steps=self.steps,
            learning_rate=self.learning_rate,
            samples=self.samples,
            temperature=self.temperature,
            keep=self.keep,
            restart=self.restart,
            stop_below=self.stop_below,
        )


class Recipe(Part):
    """A training run: supervised, expert iteration, DAPO."""

    model: Annotated[str, Field(min_length=1)]
    """A hub id, a folder, or what ``icml.core.models.load`` knows, as ``pkg:smollm2``."""
    statements: StatementsPart
    bootstrap: BootstrapPart
    overlong_cache: Annotated[int, Field(ge=1)] | None = None
    """Tokens before ``max_completion_length`` in which DAPO's punishment grows from 0 to -1."""
    training: dict[str, Any] = Field(default_factory=dict)
    """Fields of ``DAPOConfig``."""
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
    return parse_recipe(Recipe, recipe_text(source, "icml.wzllm"), source)
