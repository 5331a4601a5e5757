"""Statements about remainders: each is settled by running through all classes of one modulus."""

from __future__ import annotations

from math import gcd, lcm
from random import Random
from typing import Annotated

from pydantic import Field, model_validator

from icml.brokenmath.families.family import Family, Parameters, found_is
from icml.brokenmath.families.numbers import factorised, is_prime, phi, primes

__all__ = ["RESIDUES"]


class _Prime(Parameters):
    p: Annotated[int, Field(ge=5, le=400)]

    @model_validator(mode="after")
    def _check(self) -> _Prime:
        if not is_prime(self.p):
            raise ValueError(f"p must be prime, got {self.p}")
        return self


_ODD_PRIMES = primes(11, 397)


class _PowerOfResidues(_Prime):
    a: Annotated[int, Field(ge=2, le=12)]


def _draw_powers(rng: Random) -> _PowerOfResidues:
    while True:
        p, a = rng.choice(_ODD_PRIMES), rng.randint(2, 12)
        if gcd(a, p - 1) > 1:
            return _PowerOfResidues(p=p, a=a)


def _powers_near(q: _PowerOfResidues, true: int) -> list[int]:
    return [true - 1, true + 1, q.p - 1 if true != q.p - 1 else q.p]


POWERS = Family(
    name="power-residues",
    parameters=_PowerOfResidues,
    draw=_draw_powers,
    value=lambda q: 1 + (q.p - 1) // gcd(q.a, q.p - 1),
    least=1,
    most=lambda q: q.p,
    near=_powers_near,
    decide=lambda q, v: found_is(
        len({pow(n, q.a, q.p) for n in range(q.p)}), v, "going through all remainders"
    ),
    text=lambda q, v: (
        f"Prove that the numbers n^{q.a}, where n runs through all integers, leave exactly {v} "
        f"different remainders on division by {q.p}."
    ),
    solution=lambda q, v: (
        f"The nonzero remainders modulo the prime {q.p} form a cyclic group of order {q.p - 1}. "
        f"Raising to the power {q.a} maps it onto its subgroup of order "
        f"{q.p - 1}/gcd({q.a}, {q.p - 1}) = {v - 1}; the remainder 0 comes on top: {v}."
    ),
)


class _Conic(_Prime):
    d: Annotated[int, Field(ge=1, le=20)]
    c: Annotated[int, Field(ge=1, le=20)]

    @model_validator(mode="after")
    def _nonzero(self) -> _Conic:
        if self.d % self.p == 0 or self.c % self.p == 0:
            raise ValueError("p must divide neither d nor c")
        return self


def _draw_conic(rng: Random) -> _Conic:
    p = rng.choice([p for p in _ODD_PRIMES if p > 20])  # so that it divides neither d nor c
    return _Conic(p=p, d=rng.randint(1, 20), c=rng.randint(1, 20))


def _conic_count(q: _Conic) -> int:
    """Count over the values of squares: p steps and not p squared."""
    squares = [0] * q.p
    for x in range(q.p):
        squares[x * x % q.p] += 1
    return sum(squares[(q.c - q.d * y * y) % q.p] for y in range(q.p))


CONIC = Family(
    name="conic-points",
    parameters=_Conic,
    draw=_draw_conic,
    value=lambda q: q.p - (1 if pow(-q.d, (q.p - 1) // 2, q.p) == 1 else -1),
    most=lambda q: 2 * q.p,  # two values of x for each y
    near=lambda q, true: [2 * q.p - true, q.p],
    decide=lambda q, v: found_is(_conic_count(q), v, "counting the solutions"),
    text=lambda q, v: (
        f"Prove that the congruence x^2 + {q.d}*y^2 = {q.c} (mod {q.p}) has exactly {v} solutions "
        f"(x, y) with 0 <= x, y < {q.p}."
    ),
    solution=lambda q, v: (
        f"A conic with a point over the field of {q.p} elements has {q.p} + 1 points on the "
        f"projective line that parametrises it. At infinity lie the solutions of x^2 = -{q.d}*y^2: "
        + (
            f"two, as -{q.d} is a square modulo {q.p}"
            if v == q.p - 1
            else f"none, as -{q.d} is no square modulo {q.p}"
        )
        + f". There remain {v}."
    ),
)


class _DividesAll(Parameters):
    a: Annotated[int, Field(ge=3, le=61)]


def _largest_divisor(q: _DividesAll) -> int:
    found = 1
    for p in primes(2, q.a):
        if (q.a - 1) % (p - 1) == 0:
            found *= p
    return found


def _common_divisor(q: _DividesAll) -> int:
    """A polynomial's values at degree + 1 consecutive integers generate all of them."""
    return gcd(*(n**q.a - n for n in range(q.a + 1)))


DIVIDES_ALL = Family(
    name="power-difference",
    parameters=_DividesAll,
    draw=lambda rng: _DividesAll(a=rng.randint(3, 61)),
    value=_largest_divisor,
    least=1,
    near=lambda q, true: [
        *(true * p for p in (2, 3, 5, 7)),
        *(true // p for p in (3, 5, 7, 2) if true % p == 0),
        true * q.a,
    ],
    decide=lambda q, v: found_is(
        _common_divisor(q), v, f"the common divisor of the values at n = 0, ..., {q.a}"
    ),
    text=lambda q, v: (
        f"Prove that {v} is the largest positive integer that divides n^{q.a} - n for every "
        "integer n."
    ),
    solution=lambda q, v: (
        f"A prime p divides n^{q.a} - n for all n exactly if p - 1 divides {q.a - 1}: take a "
        f"generator modulo p, and Fermat. No square p^2 does: take n = p. The product of these "
        f"primes is {v}."
    ),
)


class _Pisano(Parameters):
    m: Annotated[int, Field(ge=3, le=500)]


def _period(m: int) -> int:
    a, b, steps = 1, 1, 1
    while (a, b) != (0, 1):
        a, b, steps = b, (a + b) % m, steps + 1
    return steps


def _fibonacci(n: int, m: int) -> tuple[int, int]:
    """Return F(n) and F(n+1) modulo m, by doubling n digit by digit."""
    a, b = 0, 1 % m
    for digit in f"{n:b}":
        a, b = a * (2 * b - a) % m, (a * a + b * b) % m
        if digit == "1":
            a, b = b, (a + b) % m
    return a, b


def _period_by_divisors(p: int, e: int) -> int:
    """Return the least divisor of a known multiple of the period modulo p^e that is a period."""
    multiple = {2: 3, 5: 20}.get(p, p - 1 if p % 5 in (1, 4) else 2 * (p + 1)) * p ** (e - 1)
    return next(
        d
        for d in range(1, multiple + 1)
        if multiple % d == 0 and _fibonacci(d, p**e) == (0, 1 % p**e)
    )


def _periods(m: int) -> dict[int, int]:
    """Return the period modulo each prime power in m."""
    return {p**e: _period_by_divisors(p, e) for p, e in factorised(m).items()}


PISANO = Family(
    name="fibonacci-period",
    parameters=_Pisano,
    draw=lambda rng: _Pisano(m=rng.randint(3, 500)),
    value=lambda q: lcm(*_periods(q.m).values()),
    least=1,
    near=lambda q, true: [true // 2 if true % 2 == 0 else true * 2, true * 2, true + q.m],
    decide=lambda q, v: found_is(_period(q.m), v, "computing the sequence until it repeats"),
    text=lambda q, v: (
        "Let F(0) = 0, F(1) = 1 and F(n+1) = F(n) + F(n-1). Prove that the least positive period "
        f"of the remainders of F(n) modulo {q.m} is {v}."
    ),
    solution=lambda q, v: (
        "The step (F(n-1), F(n)) -> (F(n), F(n+1)) can be inverted, so the remainders are periodic "
        f"from the start. Modulo {' and '.join(map(str, _periods(q.m)))} the first return of "
        f"(0, 1) is after {', '.join(map(str, _periods(q.m).values()))} steps; the "
        f"least common multiple is {v}."
    ),
)


class _Order(Parameters):
    a: Annotated[int, Field(ge=2, le=50)]
    m: Annotated[int, Field(ge=7, le=700)]

    @model_validator(mode="after")
    def _check(self) -> _Order:
        if gcd(self.a, self.m) != 1 or self.a % self.m == 1:
            raise ValueError("a must be coprime to m and not 1 modulo m")
        return self


def _draw_order(rng: Random) -> _Order:
    while True:
        a, m = rng.randint(2, 50), rng.randint(7, 700)
        if gcd(a, m) == 1 and a % m != 1 and pow(a, phi(m) // 2, m) == 1 and phi(m) % 2 == 0:
            return _Order(a=a, m=m)


def _order(q: _Order) -> int:
    power, n = q.a % q.m, 1
    while power != 1:
        power, n = power * q.a % q.m, n + 1
    return n


ORDER = Family(
    name="order",
    parameters=_Order,
    draw=_draw_order,
    value=lambda q: min(n for n in range(1, phi(q.m) + 1) if phi(q.m) % n == 0
                        and pow(q.a, n, q.m) == 1),
    near=lambda q, true: [phi(q.m), 2 * true, phi(q.m) // 2],
    least=1,
    most=lambda q: q.m,
    decide=lambda q, v: found_is(_order(q), v, "computing the powers one after the other"),
    text=lambda q, v: (
        f"Prove that n = {v} is the least positive integer for which {q.a}^n - 1 is divisible by "
        f"{q.m}."
    ),
    solution=lambda q, v: (
        f"The least such n divides phi({q.m}) = {phi(q.m)}. Of its divisors {v} is the least for "
        f"which {q.a}^n leaves the remainder 1."
    ),
)  # fmt: skip


class _PowerRemainder(Parameters):
    a: Annotated[int, Field(ge=2, le=60)]
    n: Annotated[int, Field(ge=50, le=3000)]
    m: Annotated[int, Field(ge=11, le=1000)]


def _power_near(q: _PowerRemainder, true: int) -> list[int]:
    """Return what comes out where the exponent is one off, then what is close."""
    others = [true * q.a % q.m, (true + 1) % q.m, (true - 1) % q.m]
    return [value for value in others if value != true]


def _multiplied(q: _PowerRemainder) -> int:
    found = 1
    for _ in range(q.n):
        found = found * q.a % q.m
    return found


POWER_REMAINDER = Family(
    name="power-remainder",
    parameters=_PowerRemainder,
    draw=lambda rng: _PowerRemainder(
        a=rng.randint(2, 60), n=rng.randint(50, 3000), m=rng.randint(11, 1000)
    ),
    value=lambda q: pow(q.a, q.n, q.m),
    most=lambda q: q.m - 1,
    near=_power_near,
    decide=lambda q, v: found_is(_multiplied(q), v, f"multiplying {q.n} times"),
    text=lambda q, v: f"Prove that {q.a}^{q.n} leaves the remainder {v} on division by {q.m}.",
    solution=lambda q, v: (
        f"Square repeatedly modulo {q.m}, after the binary digits {q.n:b} of the exponent {q.n}, "
        f"and multiply by {q.a} where the digit is 1: the result is {v}."
    ),
)


class _Chinese(Parameters):
    moduli: tuple[int, int, int]
    remainders: tuple[int, int, int]

    @model_validator(mode="after")
    def _check(self) -> _Chinese:
        a, b, c = self.moduli
        if not all(3 <= m <= 40 for m in self.moduli):
            raise ValueError("moduli must be from 3 to 40")
        if gcd(a, b) * gcd(b, c) * gcd(a, c) != 1:
            raise ValueError("moduli must be coprime in pairs")
        if not all(0 < r < m for r, m in zip(self.remainders, self.moduli, strict=True)):
            raise ValueError("remainders must lie between 0 and the modulus")
        return self


def _draw_chinese(rng: Random) -> _Chinese:
    while True:
        a, b, c = (rng.randint(3, 29) for _ in range(3))
        if gcd(a, b) * gcd(b, c) * gcd(a, c) == 1:
            rest = rng.randrange(1, a), rng.randrange(1, b), rng.randrange(1, c)
            return _Chinese(moduli=(a, b, c), remainders=rest)


def _chinese(q: _Chinese) -> int:
    whole = q.moduli[0] * q.moduli[1] * q.moduli[2]
    parts = (
        r * (whole // m) * pow(whole // m, -1, m)
        for r, m in zip(q.remainders, q.moduli, strict=True)
    )
    return sum(parts) % whole


def _searched(q: _Chinese) -> int:
    return next(
        n
        for n in range(1, q.moduli[0] * q.moduli[1] * q.moduli[2] + 1)
        if all(n % m == r for r, m in zip(q.remainders, q.moduli, strict=True))
    )


CHINESE = Family(
    name="remainders",
    parameters=_Chinese,
    draw=_draw_chinese,
    value=_chinese,
    least=1,
    # Two of the three remainders are right.
    near=lambda q, true: [
        true + q.moduli[0] * q.moduli[1],
        true + q.moduli[0] * q.moduli[2],
        true + q.moduli[1] * q.moduli[2],
    ],
    decide=lambda q, v: found_is(_searched(q), v, "trying 1, 2, 3 and so on"),
    text=lambda q, v: (
        f"Prove that {v} is the least positive integer that leaves the remainders "
        f"{q.remainders[0]}, {q.remainders[1]} and {q.remainders[2]} on division by {q.moduli[0]}, "
        f"{q.moduli[1]} and {q.moduli[2]}."
    ),
    solution=lambda q, v: (
        "The moduli are coprime in pairs, so that by the Chinese remainder theorem one number "
        f"from 0 to {q.moduli[0] * q.moduli[1] * q.moduli[2] - 1} has these remainders; {v} has "
        "them."
    ),
)

RESIDUES = (POWERS, CONIC, DIVIDES_ALL, PISANO, ORDER, POWER_REMAINDER, CHINESE)
