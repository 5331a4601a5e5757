"""What a family of statements is: typed parameters, a claimed value, and a checker that proves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict

__all__ = ["Family", "Parameters", "found_is"]


class Parameters(BaseModel):
    """Of one statement; a subclass bounds each, so that every check is finite and short."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


P = TypeVar("P", bound=Parameters)


def found_is(found: int, value: int, how: str) -> str | None:
    """Return what `Family.decide` says where a value can be computed from all cases."""
    return None if found == value else f"{how} gives {found}, not {value}"


@dataclass(frozen=True, kw_only=True)
class Family(Generic[P]):
    """Statements that differ in their parameters and in one value, which is right or wrong.

    The value is found in one way (`value`) and decided in another (`decide`, an exhaustive or
    algebraic check that knows nothing of the first).
    """

    name: str
    parameters: type[P]
    draw: Callable[[Random], P]
    """Draw parameters."""
    value: Callable[[P], int]
    """The value that makes the statement true: by a closed form, but in ``prime-run``, which has
    none, by a search with another test for primes than the checker's."""
    near: Callable[[P, int], Sequence[int]]
    """Wrong values that somebody could believe, given the true one; the likeliest first."""
    decide: Callable[[P, int], str | None]
    """None if the statement with that value is true, which is proved by exhausting all cases or by
    algebra; else what shows that it is false, in words."""
    text: Callable[[P, str], str]
    """The statement with a value."""
    solution: Callable[[P, int], str]
    """A proof of the true statement in words."""
    shown: Callable[[P, int], str] = lambda parameters, value: str(value)
    """How a value is written in the statement."""
    least: int = 0
    """Below it a value makes no sense in the statement, as a negative count."""
    most: Callable[[P], int] | None = None
    """Above it a value makes no sense, as person 12 of 10; None where any value does."""
