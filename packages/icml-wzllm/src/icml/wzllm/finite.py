"""The finite check: before any search, is the statement false at small values?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from icml.wzllm.statement import Identity
from icml.wzllm.values import Meter, Number, TooLarge, Undefined, compiled

__all__ = ["Counterexample", "FiniteCheck", "check_small_values"]

MAX_POINTS = 200  # ours: enough for the largest false one of the suite, and takes milliseconds
WORK = 3_000_000  # elementary operations for all points, ours


@dataclass(frozen=True)
class Counterexample:
    """Values of the variables at which the sides differ."""

    values: dict[str, int]
    lhs: str
    rhs: str

    def __str__(self) -> str:
        """Say where, and what the sides are there."""
        where = ", ".join(f"{name} = {value}" for name, value in self.values.items())
        return f"at {where or 'all values'} the left side is {self.lhs}, the right side {self.rhs}"


@dataclass(frozen=True)
class FiniteCheck:
    """What was found at small values."""

    points: int
    """Points at which both sides were compared."""
    undefined: int
    """Points at which a side has no value."""
    upto: int
    """All points whose values add up to this or less were tried; -1 for none."""
    counterexample: Counterexample | None
    """The first point at which the sides differ, by the sum of its values."""
    stopped: str = ""
    """Why it ended early, if it did."""


def check_small_values(identity: Identity, upto: int = 12) -> FiniteCheck:
    """Compare both sides exactly where the variables add up to ``upto`` or less.

    Stops at 200 points, and where a value takes too long.

    Example:
        >>> wrong = Identity.parse("sum(k,0,n,binomial(n,k)) = 2^n+n")
        >>> str(check_small_values(wrong).counterexample)
        'at n = 1 the left side is 2, the right side 3'
    """
    left, right = compiled(identity.left), compiled(identity.right)
    meter, points, undefined, complete = Meter(WORK), 0, 0, -1
    for total in range(upto + 1 if identity.vars else 1):
        for point in _points(len(identity.vars), total):
            if points + undefined >= MAX_POINTS:
                return FiniteCheck(points, undefined, complete, None, f"{MAX_POINTS} points tried")
            values: dict[str, Number] = dict(zip(identity.vars, point, strict=True))
            try:
                sides = left(values, meter), right(values, meter)
            except Undefined:
                undefined += 1
                continue
            except TooLarge as error:
                return FiniteCheck(points, undefined, complete, None, str(error))
            points += 1
            if sides[0] != sides[1]:
                found = Counterexample(
                    dict(zip(identity.vars, point, strict=True)), _shown(sides[0]), _shown(sides[1])
                )
                return FiniteCheck(points, undefined, complete, found)
        complete = total
    return FiniteCheck(points, undefined, complete, None)


def _points(variables: int, total: int) -> Iterator[tuple[int, ...]]:
    """Yield the points with that sum of values, in lexicographic order."""
    if variables <= 1:
        yield (total,) * variables
        return
    for first in range(total + 1):
        for rest in _points(variables - 1, total - first):
            yield (first, *rest)


def _shown(value: Number) -> str:
    """Write a number, shortened where it has more digits than a line."""
    if value.numerator.bit_length() + value.denominator.bit_length() < 400:
        return str(value)
    return f"a number of {value.numerator.bit_length()} bits"
