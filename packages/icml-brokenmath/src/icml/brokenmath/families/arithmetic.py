"""Statements about divisors, digits and representations: each is settled by a finite search."""

from __future__ import annotations

from math import comb, factorial, gcd, isqrt
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
    about="the largest number that is no sum of a's and b's",
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
    about="the sum of the digits of 1, ..., n",
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
    about="the power of a prime in n!",
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
    about="the power of a prime in a binomial coefficient",
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
    about="how many of 1, ..., n are coprime to n",
    parameters=_Coprime,
    draw=_draw_coprime,
    value=lambda q: phi(q.n),
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


class _Neighbours(Parameters):
    a: Annotated[int, Field(ge=2, le=400)]


def _largest_common(q: _Neighbours) -> int:
    """The divisor is one of 4a + 1, and depends on n modulo that: one period is all."""
    return max(gcd(n * n + q.a, (n + 1) ** 2 + q.a) for n in range(1, 4 * q.a + 2))


NEIGHBOURS = Family(
    name="common-divisor",
    about="the largest common divisor of two neighbours in the sequence n^2 + a",
    parameters=_Neighbours,
    draw=lambda rng: _Neighbours(a=rng.randint(2, 400)),
    value=lambda q: 4 * q.a + 1,
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
    n = 0
    while _is_prime_by_witness(n * n + q.a * n + q.b):
        n += 1
    return n


_CONSTANTS = primes(2, 1999)


def _draw_quadratic(rng: Random) -> _Quadratic:
    """Draw until at least four values in a row are prime."""
    while True:
        drawn = _Quadratic(a=rng.randint(1, 40), b=rng.choice(_CONSTANTS))
        if _first_composite(drawn) >= 4:
            return drawn


FIRST_COMPOSITE = Family(
    name="prime-run",
    about="the first n for which n^2 + a n + b is not prime",
    parameters=_Quadratic,
    draw=_draw_quadratic,
    value=_first_composite,
    near=lambda q, true: [true + 1, true + 2, true - 1],
    decide=lambda q, v: found_is(
        next(n for n in range(q.b + 1) if not is_prime(n * n + q.a * n + q.b)),
        v, "dividing by all smaller numbers",
    ),
    text=lambda q, v: (
        f"Prove that n = {v} is the least nonnegative integer for which n^2 + {q.a}*n + {q.b} is "
        "not a prime number."
    ),
    solution=lambda q, v: (
        f"For n = {v} the value {v * v + q.a * v + q.b} has a proper divisor; the values for "
        "smaller n have none up to their square roots."
    ),
)  # fmt: skip


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
    about="how many ways there are to write 1/n as 1/x + 1/y",
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
    about="how many ways there are to write n as a sum of two squares",
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

ARITHMETIC = (
    COINS, DIGITS, FACTORIAL, BINOMIAL, COPRIME, NEIGHBOURS, FIRST_COMPOSITE, UNIT_FRACTIONS,
    TWO_SQUARES,
)  # fmt: skip
