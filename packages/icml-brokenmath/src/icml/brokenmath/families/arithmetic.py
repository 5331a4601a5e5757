"""Statements about divisors, digits and sums: each is settled by a finite search."""

from __future__ import annotations

from math import comb, factorial, gcd
from random import Random
from typing import Annotated

from pydantic import Field, model_validator

from icml.brokenmath.families.family import Family, Parameters, found_is
from icml.brokenmath.families.numbers import divisor_count, is_prime, phi, primes

__all__ = ["ARITHMETIC"]


class _Coins(Parameters):
    a: Annotated[int, Field(ge=3, le=60)]
    b: Annotated[int, Field(ge=4, le=61)]

    @model_validator(mode="after")
    def _check(self) -> _Coins:
        if gcd(self.a, self.b) != 1 or self.a >= self.b:
            raise ValueError("a must be smaller than b and coprime to it")
        return self


def _draw_coins(rng: Random) -> _Coins:
    while True:
        a, b = sorted((rng.randint(3, 60), rng.randint(3, 60)))
        if gcd(a, b) == 1 and a < b:
            return _Coins(a=a, b=b)


def _largest_gap(q: _Coins) -> int:
    """After a numbers in a row that are sums, all further ones are: add a to them."""
    reached, row, n = {0}, 1, 0
    last = 0
    while row < q.a:
        n += 1
        if n - q.a in reached or n - q.b in reached:
            reached.add(n)
            row += 1
        else:
            last, row = n, 0
    return last


COINS = Family(
    name="frobenius",
    parameters=_Coins,
    draw=_draw_coins,
    value=lambda q: q.a * q.b - q.a - q.b,
    near=lambda q, true: [true + q.a, true - q.a, (q.a - 1) * (q.b - 1), true + q.b],
    decide=lambda q, v: found_is(_largest_gap(q), v, f"listing sums until {q.a} come in a row"),
    text=lambda q, v: (
        f"Prove that {v} is the largest integer that can't be written as {q.a}*x + {q.b}*y with "
        "nonnegative integers x and y."
    ),
    solution=lambda q, v: (
        f"Each integer is {q.a}*x + {q.b}*y with exactly one x from 0 to {q.b - 1}; it can be "
        f"written with nonnegative numbers exactly if then y >= 0. The largest with y < 0 has "
        f"x = {q.b - 1}, y = -1: {q.a}*{q.b - 1} - {q.b} = {v}."
    ),
)


class _UpTo(Parameters):
    n: Annotated[int, Field(ge=30, le=5000)]


def _digits_summed(n: int) -> int:
    """Count each place's digits: a full cycle of a place has each digit equally often."""
    total, place = 0, 1
    while place <= n:
        higher, rest = divmod(n, place * 10)
        digit, lower = divmod(rest, place)
        total += higher * 45 * place + digit * (digit - 1) // 2 * place + digit * (lower + 1)
        place *= 10
    return total


DIGITS = Family(
    name="digit-sum",
    parameters=_UpTo,
    draw=lambda rng: _UpTo(n=rng.randint(30, 5000)),
    value=lambda q: _digits_summed(q.n),
    near=lambda q, true: [true + 9, true - 9, true + 1, _digits_summed(q.n - 1)],
    decide=lambda q, v: found_is(
        sum(int(digit) for m in range(1, q.n + 1) for digit in str(m)), v, "adding the digits"
    ),
    text=lambda q, v: (
        f"Prove that the decimal digits of the integers 1, 2, ..., {q.n}, all of them added, give "
        f"{v}."
    ),
    solution=lambda q, v: (
        "Count the digits place by place: each full cycle of ten blocks of a place brings each "
        f"digit equally often, and the incomplete cycle at the end is counted apart. Added for "
        f"all places of {q.n} this gives {v}."
    ),
)


class _Factorial(Parameters):
    n: Annotated[int, Field(ge=25, le=600)]
    p: Annotated[int, Field(ge=2, le=13)]

    @model_validator(mode="after")
    def _check(self) -> _Factorial:
        if not is_prime(self.p) or self.n < self.p**2:
            raise ValueError("p must be prime, and n at least its square")
        return self


def _legendre(q: _Factorial) -> int:
    found, power = 0, q.p
    while power <= q.n:
        found += q.n // power
        power *= q.p
    return found


def _times(n: int, p: int) -> int:
    found = 0
    while n % p == 0:
        n, found = n // p, found + 1
    return found


FACTORIAL = Family(
    name="factorial-power",
    parameters=_Factorial,
    draw=lambda rng: _Factorial(n=rng.randint(170, 600), p=rng.choice(primes(2, 13))),
    value=_legendre,
    near=lambda q, true: [q.n // q.p, q.n // q.p + q.n // q.p**2, true + 1, true - 1],
    decide=lambda q, v: found_is(_times(factorial(q.n), q.p), v, f"dividing {q.n}! itself"),
    text=lambda q, v: (
        f"Prove that the largest power of {q.p} that divides {q.n}! (the factorial of {q.n}) is "
        f"{q.p}^{v}."
    ),
    solution=lambda q, v: (
        f"Of 1, ..., {q.n} the multiples of {q.p} bring one factor each, those of {q.p}^2 one "
        f"more, and so on: {v} in all (Legendre)."
    ),
)


class _Binomial(Parameters):
    n: Annotated[int, Field(ge=40, le=400)]
    k: Annotated[int, Field(ge=5, le=200)]
    p: Annotated[int, Field(ge=2, le=7)]

    @model_validator(mode="after")
    def _check(self) -> _Binomial:
        if not is_prime(self.p) or 2 * self.k > self.n:
            raise ValueError("p must be prime, and k at most half of n")
        return self


def _draw_binomial(rng: Random) -> _Binomial:
    n = rng.randint(40, 400)
    return _Binomial(n=n, k=rng.randint(5, n // 2), p=rng.choice((2, 3, 5, 7)))


def _carries(q: _Binomial) -> int:
    a, b, carry, found = q.k, q.n - q.k, 0, 0
    while a or b or carry:
        carry = int(a % q.p + b % q.p + carry >= q.p)
        found += carry
        a, b = a // q.p, b // q.p
    return found


BINOMIAL = Family(
    name="binomial-power",
    parameters=_Binomial,
    draw=_draw_binomial,
    value=_carries,
    near=lambda q, true: [true + 1, *([true - 1] if true else []), true + 2],
    decide=lambda q, v: found_is(
        _times(comb(q.n, q.k), q.p), v, "dividing the binomial coefficient itself"
    ),
    text=lambda q, v: (
        f"Prove that the largest power of {q.p} that divides the binomial coefficient "
        f"C({q.n}, {q.k}) is {q.p}^{v}."
    ),
    solution=lambda q, v: (
        f"By Kummer's theorem the exponent is the number of carries in the addition of {q.k} and "
        f"{q.n - q.k} in base {q.p}; there are {v}."
    ),
)


class _Coprime(Parameters):
    n: Annotated[int, Field(ge=30, le=2000)]


def _draw_coprime(rng: Random) -> _Coprime:
    while True:
        n = rng.randint(30, 2000)
        if not is_prime(n):
            return _Coprime(n=n)


COPRIME = Family(
    name="coprime-count",
    parameters=_Coprime,
    draw=_draw_coprime,
    value=lambda q: phi(q.n),
    least=1,
    most=lambda q: q.n,
    near=lambda q, true: [true + 1, true - 1, q.n - divisor_count(q.n), true + 2],
    decide=lambda q, v: found_is(
        sum(gcd(m, q.n) == 1 for m in range(1, q.n + 1)), v, "counting"
    ),
    text=lambda q, v: (
        f"Prove that exactly {v} of the integers 1, 2, ..., {q.n} are coprime to {q.n}."
    ),
    solution=lambda q, v: (
        f"Euler's function is multiplicative with phi(p^e) = (p - 1)*p^(e - 1). From the "
        f"factorisation of {q.n} follows phi({q.n}) = {v}."
    ),
)  # fmt: skip


ARITHMETIC = (COINS, DIGITS, FACTORIAL, BINOMIAL, COPRIME)
