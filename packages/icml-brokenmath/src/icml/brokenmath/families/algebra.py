"""Statements about polynomials and quadratic forms: each is settled by algebra."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Annotated

from pydantic import Field, model_validator

from icml.brokenmath.families.family import Family, Parameters

__all__ = ["ALGEBRA"]


class _PowerSum(Parameters):
    a: Annotated[int, Field(ge=1, le=9)]
    b: Annotated[int, Field(ge=0, le=9)]
    c: Annotated[int, Field(ge=0, le=9)]


def _polynomial(q: _PowerSum, extra: int) -> list[int]:
    """Return six times the sum, by powers of n, with ``extra`` n(n-1)(n-2) added: the value."""
    cubic, square, line = 2 * q.a, 3 * q.a + 3 * q.b, q.a + 3 * q.b + 6 * q.c
    return [0, line + 2 * extra, square - 3 * extra, cubic + extra]


def _written(coefficients: list[int], variable: str = "n") -> str:
    """Write a polynomial, the highest power first."""
    text = ""
    for power in range(len(coefficients) - 1, -1, -1):
        factor = coefficients[power]
        if factor == 0:
            continue
        sign = ("-" if factor < 0 else "") if not text else (" - " if factor < 0 else " + ")
        unknown = ("", variable)[power] if power < 2 else f"{variable}^{power}"
        size = str(abs(factor)) if abs(factor) != 1 or not unknown else ""
        text += sign + size + ("*" if size and unknown else "") + unknown
    return text or "0"


def _sum_text(q: _PowerSum, extra: int) -> str:
    return f"({_written(_polynomial(q, extra))})/6"


def _decide_sum(q: _PowerSum, extra: int) -> str | None:
    """Both sides are polynomials of degree 3 in n, equal at 0: five points settle all n."""
    claimed = _polynomial(q, extra)
    total = 0
    for n in range(1, 6):
        total += q.a * n * n + q.b * n + q.c
        right = Fraction(sum(factor * n**power for power, factor in enumerate(claimed)), 6)
        if right != total:
            return f"for n = {n} the sum is {total} and the right side is {right}"
    return None


POWER_SUM = Family(
    name="power-sum",
    parameters=_PowerSum,
    draw=lambda rng: _PowerSum(a=rng.randint(1, 9), b=rng.randint(0, 9), c=rng.randint(0, 9)),
    value=lambda q: 0,
    least=-20,
    most=lambda q: 20,  # coefficients of at most three digits
    # Right for n = 1 and n = 2.
    near=lambda q, true: [1, -1, 2, -2],
    decide=_decide_sum,
    text=lambda q, v: (
        f"Prove that for every positive integer n the sum of {_written([q.c, q.b, q.a], 'k')} over "
        f"k = 1, 2, ..., n equals {v}."
    ),
    solution=lambda q, v: (
        "The sums of 1, k and k^2 are n, n(n+1)/2 and n(n+1)(2n+1)/6. With the coefficients "
        f"{q.c}, {q.b} and {q.a} they add up to {_sum_text(q, 0)}."
    ),
    shown=_sum_text,
)


class _Form(Parameters):
    p: Annotated[int, Field(ge=1, le=10**4)]
    q: Annotated[int, Field(ge=1, le=10**4)]
    root: Annotated[int, Field(ge=1, le=10**4)]

    @model_validator(mode="after")
    def _check(self) -> _Form:
        if self.p * self.q != self.root**2:
            raise ValueError("p*q must be the square of root")
        return self


def _draw_form(rng: Random) -> _Form:
    """Draw p and q with a square product that aren't equal."""
    while True:
        k, r, s = rng.randint(1, 6), rng.randint(1, 9), rng.randint(1, 9)
        if r != s:
            return _Form(p=k * r * r, q=k * s * s, root=k * r * s)


def _decide_form(f: _Form, t: int) -> str | None:
    """Complete the square: 4p(p x^2 - t x y + q y^2) = (2p x - t y)^2 + (4pq - t^2) y^2."""
    rest = 4 * f.p * f.q - t * t
    if rest < 0:
        x, y = t, 2 * f.p
        left, right = f.p * x * x + f.q * y * y, t * x * y
        return f"for x = {x}, y = {y} the left side is {left} and the right side is {right}"
    if rest > 0 or t < 0:
        return f"with the larger {2 * f.root} in its place the inequality holds as well"
    return None


FORM = Family(
    name="quadratic-form",
    parameters=_Form,
    draw=_draw_form,
    value=lambda f: 2 * f.root,
    near=lambda f, true: [f.p + f.q, true + 1, f.root, true - 1],
    decide=_decide_form,
    text=lambda f, v: (
        f"Prove that t = {v} is the largest real number for which {f.p}*x^2 + {f.q}*y^2 >= t*x*y "
        "holds for all real numbers x and y."
    ),
    solution=lambda f, v: (
        f"4*{f.p} times the difference of the sides is (2*{f.p}*x - t*y)^2 + "
        f"({4 * f.p * f.q} - t^2)*y^2. It is never negative exactly if t^2 <= {4 * f.p * f.q}, so "
        f"the largest t is {v}."
    ),
)

ALGEBRA = (POWER_SUM, FORM)
