"""Statements about the values of polynomials and forms: each is settled by a finite search."""

from __future__ import annotations

from math import gcd, isqrt
from random import Random
from typing import Annotated

from pydantic import Field

from icml.brokenmath.families.family import Family, Parameters, found_is
from icml.brokenmath.families.numbers import divisor_count, is_prime, primes

__all__ = ["VALUES"]


class _Neighbours(Parameters):
    a: Annotated[int, Field(ge=2, le=400)]


def _largest_common(q: _Neighbours) -> int:
    """The divisor is one of 4a + 1, and depends on n modulo that: one period is all."""
    return max(gcd(n * n + q.a, (n + 1) ** 2 + q.a) for n in range(1, 4 * q.a + 2))


NEIGHBOURS = Family(
    name="common-divisor",
    parameters=_Neighbours,
    draw=lambda rng: _Neighbours(a=rng.randint(2, 400)),
    value=lambda q: 4 * q.a + 1,
    least=1,
    near=lambda q, true: [2 * q.a + 1, 4 * q.a - 1, q.a + 1, 4 * q.a + 3],
    decide=lambda q, v: found_is(
        _largest_common(q), v, f"going through n = 1, ..., {4 * q.a + 1}, one period,"
    ),
    text=lambda q, v: (
        f"Prove that, over all positive integers n, the largest value of the greatest common "
        f"divisor of n^2 + {q.a} and (n+1)^2 + {q.a} is {v}."
    ),
    solution=lambda q, v: (
        f"A common divisor d divides the difference 2n + 1, and so it divides "
        f"4*(n^2 + {q.a}) - (2n + 1)*(2n - 1) = {v}. For n = {2 * q.a} the divisor is {v} itself."
    ),
)


class _Quadratic(Parameters):
    a: Annotated[int, Field(ge=1, le=40)]
    b: Annotated[int, Field(ge=2, le=2000)]


def _is_prime_by_witness(n: int) -> bool:
    """Miller and Rabin's test, which these bases decide below 3,215,031,751."""
    if n < 2:
        return False
    for p in (2, 3, 5, 7):
        if n % p == 0:
            return n == p
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7):
        x = pow(base, odd, n)
        if x not in (1, n - 1) and all((x := x * x % n) != n - 1 for _ in range(twos - 1)):
            return False
    return True


def _first_composite(q: _Quadratic) -> int:
    """No closed form is known: this searches, and so does the checker, with another test."""
    n = 0
    while _is_prime_by_witness(n * n + q.a * n + q.b):
        n += 1
    return n


def _first_divided(q: _Quadratic) -> int:
    """Divide, which shares nothing with the search above; n = b is reached at the latest."""
    for n in range(q.b):
        value, d = n * n + q.a * n + q.b, 2
        while value % d and d * d <= value:
            d += 1
        if d * d <= value:
            return n
    return q.b


_CONSTANTS = primes(2, 1999)


def _draw_quadratic(rng: Random) -> _Quadratic:
    """Draw until at least four values in a row are prime."""
    while True:
        drawn = _Quadratic(a=rng.randint(1, 40), b=rng.choice(_CONSTANTS))
        if _first_composite(drawn) >= 4:
            return drawn


FIRST_COMPOSITE = Family(
    name="prime-run",
    parameters=_Quadratic,
    draw=_draw_quadratic,
    value=_first_composite,
    near=lambda q, true: [true + 1, true + 2, true - 1],
    decide=lambda q, v: found_is(_first_divided(q), v, "dividing by all smaller numbers"),
    text=lambda q, v: (
        f"Prove that n = {v} is the least nonnegative integer for which n^2 + {q.a}*n + {q.b} is "
        "not a prime number."
    ),
    solution=lambda q, v: (
        f"For n = {v} the value {v * v + q.a * v + q.b} has a proper divisor; the values for "
        "smaller n have none up to their square roots."
    ),
)


class _UnitFractions(Parameters):
    n: Annotated[int, Field(ge=6, le=400)]


def _draw_unit(rng: Random) -> _UnitFractions:
    while True:
        n = rng.randint(6, 400)
        if not is_prime(n):
            return _UnitFractions(n=n)


def _fractions(q: _UnitFractions) -> int:
    """Search the smaller denominator, which lies between n and 2n."""
    smaller = [x for x in range(q.n + 1, 2 * q.n + 1) if q.n * x % (x - q.n) == 0]
    return sum(1 if x == 2 * q.n else 2 for x in smaller)


UNIT_FRACTIONS = Family(
    name="unit-fractions",
    parameters=_UnitFractions,
    draw=_draw_unit,
    value=lambda q: divisor_count(q.n * q.n),
    near=lambda q, true: [(true + 1) // 2, true - 1, true + 1, 2 * divisor_count(q.n)],
    decide=lambda q, v: found_is(_fractions(q), v, "searching all denominators"),
    text=lambda q, v: (
        f"Prove that there are exactly {v} ordered pairs (x, y) of positive integers with "
        f"1/x + 1/y = 1/{q.n}."
    ),
    solution=lambda q, v: (
        f"The equation says (x - {q.n})*(y - {q.n}) = {q.n}^2, with both factors positive. So the "
        f"pairs are as many as the divisors of {q.n}^2: {v}."
    ),
)


class _TwoSquares(Parameters):
    n: Annotated[int, Field(ge=20, le=4000)]


def _by_divisors(q: _TwoSquares) -> int:
    divisors = [d for d in range(1, q.n + 1) if q.n % d == 0]
    return 4 * (sum(d % 4 == 1 for d in divisors) - sum(d % 4 == 3 for d in divisors))


def _draw_squares(rng: Random) -> _TwoSquares:
    while True:
        drawn = _TwoSquares(n=rng.randint(20, 4000))
        if _by_divisors(drawn):
            return drawn


def _square_pairs(q: _TwoSquares) -> int:
    root = isqrt(q.n)
    rests = (q.n - x * x for x in range(-root, root + 1))
    return sum(0 if isqrt(r) ** 2 != r else (1 if r == 0 else 2) for r in rests)


TWO_SQUARES = Family(
    name="two-squares",
    parameters=_TwoSquares,
    draw=_draw_squares,
    value=_by_divisors,
    near=lambda q, true: [2 * true, true // 2, true + 4],
    decide=lambda q, v: found_is(_square_pairs(q), v, "searching all pairs"),
    text=lambda q, v: (
        f"Prove that exactly {v} ordered pairs (x, y) of integers, negative ones and 0 among them, "
        f"satisfy x^2 + y^2 = {q.n}."
    ),
    solution=lambda q, v: (
        "By Jacobi's theorem the number is four times the excess of the divisors that leave 1 "
        f"over those that leave 3 modulo 4; for {q.n} that is {v}."
    ),
)

VALUES = (NEIGHBOURS, FIRST_COMPOSITE, UNIT_FRACTIONS, TWO_SQUARES)
