"""Elementary number theory for right values and for what parameters may be.

What decides a statement doesn't use it.
"""

from __future__ import annotations

from math import isqrt, prod

__all__ = ["divisor_count", "factorised", "is_prime", "phi", "primes"]


def primes(least: int, most: int) -> list[int]:
    """Return the primes from ``least`` to ``most``.

    Example:
        >>> primes(2, 12)
        [2, 3, 5, 7, 11]
    """
    return [n for n in range(max(least, 2), most + 1) if is_prime(n)]


def is_prime(n: int) -> bool:
    """Say whether a number is prime, by trial division."""
    return n > 1 and all(n % d for d in range(2, isqrt(n) + 1))


def factorised(n: int) -> dict[int, int]:
    """Return the exponents of a positive number's primes.

    Example:
        >>> factorised(360)
        {2: 3, 3: 2, 5: 1}
    """
    found: dict[int, int] = {}
    for d in range(2, isqrt(n) + 1):
        while n % d == 0:
            found[d] = found.get(d, 0) + 1
            n //= d
    if n > 1:
        found[n] = found.get(n, 0) + 1
    return found


def phi(n: int) -> int:
    """Return Euler's function: how many of 1, ..., n are coprime to n.

    Example:
        >>> phi(36)
        12
    """
    return prod((p - 1) * p ** (e - 1) for p, e in factorised(n).items())


def divisor_count(n: int) -> int:
    """Return how many positive divisors a positive number has.

    Example:
        >>> divisor_count(12)
        6
    """
    return prod(e + 1 for e in factorised(n).values())
