"""Statements about finite sets and games: each is settled by going through all of them."""

from __future__ import annotations

from math import comb, gcd
from random import Random
from typing import Annotated

from pydantic import Field, model_validator

from icml.brokenmath.families.family import Family, Parameters, found_is

__all__ = ["COUNTING"]


class _Triangle(Parameters):
    a: Annotated[int, Field(ge=3, le=200)]
    b: Annotated[int, Field(ge=3, le=200)]


def _inside(q: _Triangle) -> int:
    return sum((q.a * q.b - q.b * x - 1) // q.a for x in range(1, q.a))


TRIANGLE = Family(
    name="lattice-triangle",
    parameters=_Triangle,
    draw=lambda rng: _Triangle(a=rng.randint(3, 200), b=rng.randint(3, 200)),
    # Pick: area = inside + boundary / 2 - 1.
    value=lambda q: (q.a * q.b - q.a - q.b - gcd(q.a, q.b) + 2) // 2,
    most=lambda q: q.a * q.b,
    near=lambda q, true: [
        true + gcd(q.a, q.b) - 1,
        q.a * q.b // 2 - (q.a + q.b) // 2,
        true + 1,
        true - 1,
    ],
    decide=lambda q, v: found_is(_inside(q), v, "counting column by column"),
    text=lambda q, v: (
        "Prove that exactly "
        f"{v} points with integer coordinates lie strictly inside the triangle with the corners "
        f"(0, 0), ({q.a}, 0) and (0, {q.b})."
    ),
    solution=lambda q, v: (
        f"On the boundary lie {q.a} + {q.b} + gcd({q.a}, {q.b}) = "
        f"{q.a + q.b + gcd(q.a, q.b)} points, and the area is {q.a}*{q.b}/2. Pick's theorem, "
        f"area = inside + boundary/2 - 1, gives {v} inside."
    ),
)


class _Gaps(Parameters):
    n: Annotated[int, Field(ge=6, le=14)]
    d: Annotated[int, Field(ge=2, le=5)]
    least: Annotated[int, Field(ge=0, le=3)]


def _gaps_by_formula(q: _Gaps) -> int:
    """K numbers with gaps of d: choose k of n - (k - 1)(d - 1)."""
    top = range(q.least, q.n + 1)
    return sum(comb(max(q.n - (k - 1) * (q.d - 1), 0), k) if k else 1 for k in top)


def _gaps_listed(q: _Gaps) -> int:
    """Go through all subsets, as the bits of a number; shifted by each short gap none may meet."""
    return sum(
        subset.bit_count() >= q.least and all(not subset & subset >> g for g in range(1, q.d))
        for subset in range(1 << q.n)
    )


GAPS = Family(
    name="gap-subsets",
    parameters=_Gaps,
    draw=lambda rng: _Gaps(n=rng.randint(6, 14), d=rng.randint(2, 5), least=rng.randint(0, 3)),
    value=_gaps_by_formula,
    most=lambda q: 1 << q.n,
    near=lambda q, true: [true - 1, true + 1, true + q.n, true + 2],
    decide=lambda q, v: found_is(_gaps_listed(q), v, f"going through all {1 << q.n} subsets"),
    text=lambda q, v: (
        f"Prove that exactly {v} subsets of {{1, 2, ..., {q.n}}} have at least {q.least} elements "
        f"and no two different elements that differ by less than {q.d}"
        + (" (the empty set is one of them)." if q.least == 0 else ".")
    ),
    solution=lambda q, v: (
        f"Subtract 0, {q.d - 1}, 2*{q.d - 1}, ... from the elements in order: subsets with k "
        f"elements correspond to arbitrary ones of {q.n} - (k - 1)*{q.d - 1} numbers. Adding the "
        f"binomial coefficients for k >= {q.least} gives {v}."
    ),
)


class _Strip(Parameters):
    n: Annotated[int, Field(ge=8, le=40)]
    a: Annotated[int, Field(ge=1, le=4)]
    b: Annotated[int, Field(ge=2, le=7)]

    @model_validator(mode="after")
    def _check(self) -> _Strip:
        if self.a >= self.b:
            raise ValueError("a must be smaller than b")
        return self


def _tilings(n: int, a: int, b: int) -> int:
    ways = [1] + [0] * n
    for m in range(1, n + 1):
        ways[m] = sum(ways[m - x] for x in (a, b) if m >= x)
    return ways[n]


def _tilings_by_formula(q: _Strip) -> int:
    """Choose which of the tiles are long."""
    found = 0
    for long in range(q.n // q.b + 1):
        short, rest = divmod(q.n - long * q.b, q.a)
        if rest == 0:
            found += comb(short + long, long)
    return found


def _draw_strip(rng: Random) -> _Strip:
    while True:
        a = rng.randint(1, 4)
        drawn = _Strip(n=rng.randint(8, 40), a=a, b=rng.randint(a + 1, 7))
        if 5 <= _tilings_by_formula(drawn) <= 10**6:
            return drawn


STRIP = Family(
    name="strip-tilings",
    parameters=_Strip,
    draw=_draw_strip,
    value=_tilings_by_formula,
    near=lambda q, true: [true - 1, true + 1, true + 2, _tilings(q.n - 1, q.a, q.b)],
    decide=lambda q, v: found_is(_tilings(q.n, q.a, q.b), v, "adding up cell by cell"),
    text=lambda q, v: (
        f"Prove that a strip of length {q.n} can be tiled in exactly {v} ways with tiles of the "
        f"lengths {q.a} and {q.b}, where the order of the tiles counts."
    ),
    solution=lambda q, v: (
        f"With j long tiles there are ({q.n} - {q.b}*j)/{q.a} short ones if that is an integer, "
        "and the tiling is given by the places of the long ones. Adding the binomial coefficients "
        f"over j gives {v}."
    ),
)


class _Circle(Parameters):
    n: Annotated[int, Field(ge=8, le=200)]
    k: Annotated[int, Field(ge=2, le=9)]


def _survivor(q: _Circle) -> int:
    place = 0
    for size in range(2, q.n + 1):
        place = (place + q.k) % size
    return place + 1


def _played(q: _Circle) -> int:
    circle = list(range(1, q.n + 1))
    at = 0
    while len(circle) > 1:
        at = (at + q.k - 1) % len(circle)
        del circle[at]
    return circle[0]


CIRCLE = Family(
    name="circle-elimination",
    parameters=_Circle,
    draw=lambda rng: _Circle(n=rng.randint(8, 200), k=rng.randint(2, 9)),
    value=_survivor,
    least=1,
    most=lambda q: q.n,
    near=lambda q, true: [
        value for value in (true + 1, true - 1, true + q.k, true - q.k) if 1 <= value <= q.n
    ],
    decide=lambda q, v: found_is(_played(q), v, "playing it"),
    text=lambda q, v: (
        f"{q.n} people, numbered from 1 to {q.n}, stand in a circle and are counted in turn, from "
        f"person 1 on: 1, 2, ..., {q.k}. Who is counted as {q.k} leaves, and the count begins "
        f"again with the next who still stands. Prove that person {v} is the last who stands."
    ),
    solution=lambda q, v: (
        f"Number the places from 0. In a circle of m the last place is f(m) = (f(m-1) + {q.k}) mod "
        f"m, f(1) = 0, for after the first departure the count starts {q.k} places further. This "
        f"gives f({q.n}) = {v - 1}, person {v}."
    ),
)


class _Game(Parameters):
    k: Annotated[int, Field(ge=2, le=30)]
    n: Annotated[int, Field(ge=20, le=500)]
    last_wins: bool


def _lost_by_formula(q: _Game) -> int:
    """Multiples of k + 1 are lost for who moves; one more where the last one loses."""
    return q.n // (q.k + 1) if q.last_wins else (q.n - 1) // (q.k + 1) + 1


def _lost_by_play(q: _Game) -> int:
    """Solve the game from the empty heap upwards."""
    wins = [not q.last_wins]  # an empty heap: the other one has taken the last stone
    for heap in range(1, q.n + 1):
        wins.append(any(not wins[heap - take] for take in range(1, min(q.k, heap) + 1)))
    return wins[1:].count(False)


GAME = Family(
    name="take-away-game",
    parameters=_Game,
    draw=lambda rng: _Game(
        k=rng.randint(2, 30), n=rng.randint(20, 500), last_wins=rng.random() < 0.5
    ),
    value=_lost_by_formula,
    most=lambda q: q.n,
    # What holds for the game with the other ending, and for heaps counted modulo k.
    near=lambda q, true: [q.n // q.k, true + 1, true - 1],
    decide=lambda q, v: found_is(_lost_by_play(q), v, "solving the game heap by heap"),
    text=lambda q, v: (
        f"Two players in turn take at least 1 and at most {q.k} stones from a heap; who takes the "
        f"last stone {'wins' if q.last_wins else 'loses'}. Prove that for exactly {v} of the heaps "
        f"of 1, 2, ..., {q.n} stones the player who doesn't begin can force a win."
    ),
    solution=lambda q, v: (
        f"The second player answers t stones with {q.k + 1} - t. So the heaps with "
        f"n = {0 if q.last_wins else 1} (mod {q.k + 1}) are lost for the first player, and from "
        f"each other heap the first one can move to such a heap. There are {v} of them."
    ),
)

COUNTING = (TRIANGLE, GAPS, STRIP, CIRCLE, GAME)
