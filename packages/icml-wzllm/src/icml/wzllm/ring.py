"""Polynomials with integer coefficients in a few named variables, on python-flint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from flint import fmpz_mpoly, fmpz_mpoly_ctx

__all__ = ["Fraction", "Linear", "Poly", "Ring", "ring"]

Poly = fmpz_mpoly


class Fraction(NamedTuple):
    """A rational function."""

    num: Poly
    den: Poly


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear form with integer coefficients: an argument of a factorial, an exponent."""

    slopes: tuple[int, ...]
    """One coefficient for each variable of the ring."""
    constant: int

    def __add__(self, other: Linear) -> Linear:
        """Add two forms over the same ring."""
        slopes = tuple(a + b for a, b in zip(self.slopes, other.slopes, strict=True))
        return Linear(slopes, self.constant + other.constant)

    def __sub__(self, other: Linear) -> Linear:
        """Subtract a form over the same ring."""
        return self + other.times(-1)

    def times(self, factor: int) -> Linear:
        """Multiply by a whole number."""
        return Linear(tuple(factor * a for a in self.slopes), factor * self.constant)

    def plus(self, number: int) -> Linear:
        """Add a whole number."""
        return Linear(self.slopes, self.constant + number)

    @property
    def is_constant(self) -> bool:
        """Whether no variable occurs."""
        return not any(self.slopes)


class Ring:
    """Integer polynomials in fixed variables; get one with :func:`ring`."""

    def __init__(self, names: tuple[str, ...]) -> None:
        """Make the ring in which ``names`` are the variables."""
        self.names = names
        # A ring without variables is none to flint; its first variable is then never used.
        self._context = fmpz_mpoly_ctx.get(names or ("_",), "lex")
        self._gens = self._context.gens()
        self._index = {name: i for i, name in enumerate(names)}
        self.zero: Poly = self._context.constant(0)
        self.one: Poly = self._context.constant(1)

    def constant(self, value: int) -> Poly:
        """Return a constant polynomial."""
        return self._context.constant(value)

    def variable(self, name: str) -> Poly:
        """Return a variable as a polynomial."""
        return self._gens[self._index[name]]

    def number(self, value: int) -> Linear:
        """Return a constant linear form."""
        return Linear((0,) * len(self.names), value)

    def slope(self, form: Linear, name: str) -> int:
        """Return the coefficient of a variable."""
        return form.slopes[self._index[name]]

    def name(self, name: str) -> Linear:
        """Return a variable as a linear form."""
        index = self._index[name]
        return Linear(tuple(int(i == index) for i in range(len(self.names))), 0)

    def polynomial(self, form: Linear) -> Poly:
        """Return a linear form as a polynomial."""
        result = self.constant(form.constant)
        for slope, variable in zip(form.slopes, self._gens, strict=False):
            if slope:
                result += slope * variable
        return result

    def linear(self, poly: Poly) -> Linear | None:
        """Return a polynomial as a linear form, None if it isn't one."""
        slopes, constant = [0] * len(self.names), 0
        for powers, coefficient in poly.to_dict().items():
            total = sum(map(int, powers))
            if total > 1:
                return None
            if total == 0:
                constant = int(coefficient)
            else:
                slopes[powers.index(1)] = int(coefficient)
        return Linear(tuple(slopes), constant)

    def put(self, poly: Poly, name: str, value: Poly) -> Poly:
        """Put a polynomial in place of a variable."""
        index = self._index[name]
        return poly.compose(*[value if i == index else g for i, g in enumerate(self._gens)])

    def put_linear(self, form: Linear, name: str, value: Linear) -> Linear:
        """Put a linear form in place of a variable."""
        index = self._index[name]
        slope = form.slopes[index]
        if not slope:
            return form
        rest = tuple(0 if i == index else a for i, a in enumerate(form.slopes))
        return Linear(rest, form.constant) + value.times(slope)

    def shift(self, poly: Poly, name: str, by: int) -> Poly:
        """Put ``name + by`` in place of ``name``."""
        return self.put(poly, name, self.variable(name) + by) if by else poly

    def degree(self, poly: Poly, name: str) -> int:
        """Return the degree in a variable; -1 for 0."""
        return -1 if poly == 0 else int(poly.degrees()[self._index[name]])

    def coefficients(self, poly: Poly, name: str) -> dict[int, Poly]:
        """Return the coefficient, free of ``name``, for each power of ``name`` that occurs."""
        if poly.is_constant():
            return {} if poly == 0 else {0: poly}
        index = self._index[name]
        parts: dict[int, dict[tuple[int, ...], Any]] = {}
        for powers, coefficient in poly.to_dict().items():
            power = int(powers[index])
            key = (*powers[:index], 0, *powers[index + 1 :]) if power else powers
            parts.setdefault(power, {})[key] = coefficient
        if len(parts) == 1 and 0 in parts:
            return {0: poly}
        return {power: self._context.from_dict(part) for power, part in parts.items()}

    def lowest_terms(self, num: Poly, den: Poly) -> Fraction:
        """Cancel common factors; the leading coefficient of the denominator becomes positive."""
        if num == 0:
            return Fraction(self.zero, self.one)
        if den != 1:
            common = num.gcd(den)
            if common != 1:
                num, den = num / common, den / common
            if int(den.leading_coefficient()) < 0:
                num, den = -num, -den
        return Fraction(num, den)

    def monomials(self, poly: Poly) -> Mapping[tuple[int, ...], int]:
        """Return the coefficient of each monomial, given as a tuple of powers."""
        return {tuple(map(int, p)): int(c) for p, c in poly.to_dict().items()}


@lru_cache(maxsize=256)
def ring(names: tuple[str, ...]) -> Ring:
    """Return the ring in the variables ``names``, the same one for equal names."""
    return Ring(names)
