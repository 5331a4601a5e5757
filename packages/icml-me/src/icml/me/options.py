"""The command line's options; no torch here, so that ``--help`` is quick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from icml.core.errors import UserError

_SOURCES = arg(metavar="SOURCE [SOURCE ...]")
_PAIR = ("pkg:smollm2", "pkg:smollm2?layers=28")


@dataclass(frozen=True)
class GenerateOptions:
    """What to write, and by whom."""

    prompt: Annotated[Positional[str], arg(metavar="PROMPT", help_behavior_hint="(required)")]
    """A question for chat models, or with --raw the beginning of a text."""
    models: Annotated[tuple[str, ...], _SOURCES] = _PAIR
    """Members: hub ids, folders, .gguf files, pkg:smollm2, random:llama; ?layers=24 behind one
    leaves out its middle blocks, so that 24 stay."""
    weights: Annotated[str, arg(metavar="NUMBER,NUMBER", help_behavior_hint="(default: equal)")] = (
        ""
    )
    """One weight a member, 0 or more, separated by commas."""
    method: Literal["me", "ce"] = "me"
    """Draw one member a token and run only that one, or run all and average."""
    raw: bool = False
    """Continue the prompt as it is, without the chat template."""
    max_new_tokens: int = 128
    """Tokens to write at most."""
    temperature: float = 1.0
    """Divides each member's logits, > 0."""
    top_k: int = 40
    """Tokens that each member keeps, 0 for all."""
    top_p: float = 1.0
    """Probability that each member keeps, in (0, 1]."""
    stop: tuple[str, ...] = ()
    """Texts that end the answer."""
    seed: Annotated[int | None, arg(metavar="INT", help_behavior_hint="(default: a new one)")] = (
        None
    )
    """Seed of members and tokens."""

    @property
    def weight_values(self) -> list[float] | None:
        """The weights, None where none are given."""
        return parse_weights(self.weights)


@dataclass(frozen=True)
class BenchOptions:
    """What to time."""

    models: Annotated[tuple[str, ...], _SOURCES] = _PAIR
    """Members, as for generate."""
    tokens: int = 64
    """New tokens a run."""
    prompt_tokens: int = 32
    """Tokens of the prompt."""
    pairs: int = 5
    """Runs of each method, in turn; at least 3."""
    batch: int = 1
    """Rows a run, one draw of a member for all."""
    threads: int = 1
    """Threads that torch computes with."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        least = {"tokens": 1, "prompt_tokens": 1, "pairs": 3, "batch": 1, "threads": 1}
        for name, smallest in least.items():
            if getattr(self, name) < smallest:
                raise ValueError(f"{name} must be at least {smallest}, got {getattr(self, name)}")


@dataclass(frozen=True)
class CheckOptions:
    """Which models to compare."""

    one: Annotated[Positional[str], arg(metavar="SOURCE", help_behavior_hint="(required)")]
    """A model."""
    other: Annotated[Positional[str], arg(metavar="SOURCE", help_behavior_hint="(required)")]
    """Another one."""


def parse_weights(text: str) -> list[float] | None:
    """Return numbers that are separated by commas, None for an empty text.

    Raises:
        UserError: If one is no number.

    Example:
        >>> parse_weights("1, 3")
        [1.0, 3.0]
    """
    if not text:
        return None
    try:
        return [float(weight) for weight in text.split(",")]
    except ValueError:
        raise UserError(f"--weights needs numbers separated by commas, got {text!r}") from None
