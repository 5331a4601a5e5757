"""From formulas to hypergeometric terms."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from flint import fmpz

from icml.wzllm.expressions import (
    Add,
    Call,
    Divide,
    Expr,
    Integer,
    Multiply,
    Name,
    Negate,
    Power,
    Sum,
    free_names,
    to_text,
)
from icml.wzllm.ring import Linear, Poly, Ring
from icml.wzllm.terms import Term, as_fraction, with_factorial, with_power
from icml.wzllm.values import Undefined, evaluate

__all__ = ["NotHypergeometric", "OutOfReach", "linear_form", "to_term", "to_terms"]

MAX_POWER = 60  # constant exponents, ours: 60 keeps every polynomial of the search small
MAX_SLOPE = 40  # coefficients in factorials and exponents, ours: a shift costs that many factors
MAX_EXPANDED = 200  # terms of a side when products of sums are multiplied out, ours


class NotHypergeometric(ValueError):
    """The formula is outside of the class; the message names the part."""


class OutOfReach(ValueError):
    """The formula is in the class, but too large for the search; the message names the part."""


def to_term(ring: Ring, expr: Expr, shifts: frozenset[str]) -> Term:
    """Return a formula as one term.

    Args:
        ring: Has all variables of the formula.
        expr: The formula.
        shifts: The summation variable and the one of the recurrence; bases of symbolic powers
            must be free of them.

    Raises:
        NotHypergeometric: If it isn't one term.
        OutOfReach: If it is one with too large numbers in it.
        icml.wzllm.values.Undefined: If a constant in it has no value.
    """
    return _Reader(ring, shifts).term(expr)


def linear_form(ring: Ring, expr: Expr, shifts: frozenset[str] = frozenset()) -> Linear:
    """Return a formula as a linear form with integer coefficients.

    Raises:
        NotHypergeometric: If it isn't one.
    """
    return _Reader(ring, shifts).linear(expr)


def to_terms(ring: Ring, expr: Expr, shifts: frozenset[str]) -> list[Term]:
    """Return a formula as a sum of terms; products of sums are multiplied out.

    Raises:
        NotHypergeometric: If a part is in no way a term.
        OutOfReach: If there are too many terms, or too large numbers.
    """
    match expr:
        case Add(parts):
            found = [term for part in parts for term in to_terms(ring, part, shifts)]
        case Negate(operand):
            found = [term.scaled(-1) for term in to_terms(ring, operand, shifts)]
        case Multiply(factors):
            found = [Term(ring.one, ring.one)]
            for factor in factors:
                found = _products(found, to_terms(ring, factor, shifts))
        case Divide(numerator, denominator):
            divisor = to_term(ring, denominator, shifts)
            _refuse_zero(divisor, denominator)
            found = [term.times(divisor, -1) for term in to_terms(ring, numerator, shifts)]
        case Power(Add() as base, Integer(exponent)) if 2 <= exponent <= 8:
            return to_terms(ring, Multiply((base,) * exponent), shifts)
        case _:
            found = [to_term(ring, expr, shifts)]
    if len(found) > MAX_EXPANDED:
        raise OutOfReach(f"more than {MAX_EXPANDED} terms in {_short(expr)}")
    return found


def _products(left: list[Term], right: list[Term]) -> list[Term]:
    if len(left) * len(right) > MAX_EXPANDED:
        raise OutOfReach(f"a product of sums has more than {MAX_EXPANDED} terms")
    return [a.times(b) for a in left for b in right]


def _short(expr: Expr) -> str:
    text = to_text(expr)
    return text if len(text) <= 60 else text[:57] + "..."


def _refuse_zero(divisor: Term, expr: Expr) -> None:
    if divisor.num == 0 and not free_names(expr):
        raise Undefined("division by zero")
    if divisor.num == 0:
        raise NotHypergeometric(f"division by {_short(expr)}, which is 0")


class _Reader:
    def __init__(self, ring: Ring, shifts: frozenset[str]) -> None:
        self._ring = ring
        self._shifts = shifts

    def term(self, expr: Expr) -> Term:
        ring = self._ring
        match expr:
            case Integer(value):
                return Term(ring.constant(value), ring.one)
            case Name(name):
                return Term(ring.variable(name), ring.one)
            case Negate(operand):
                return self.term(operand).scaled(-1)
            case Add(parts) | Multiply(parts):
                terms = [self.term(part) for part in parts]
                return self._sum(expr, terms) if isinstance(expr, Add) else _product(terms)
            case Divide(numerator, denominator):
                divisor = self.term(denominator)
                _refuse_zero(divisor, denominator)
                return self.term(numerator).times(divisor, -1)
            case Power():
                return self._power(expr)
            case Call():
                return self._call(expr)
        what = "a sum inside of a term" if isinstance(expr, Sum) else "rounding"
        raise NotHypergeometric(f"{what}: {_short(expr)}")

    def linear(self, expr: Expr) -> Linear:
        form = self._plainly_linear(expr)
        if form is not None:
            return form
        term = self.term(expr)
        if term.is_rational:
            num, den = self._ring.lowest_terms(term.num, term.den)
            form = self._ring.linear(num) if den == 1 else None
            if form is not None:
                return form
        raise NotHypergeometric(f"{_short(expr)} isn't linear with whole coefficients")

    def _plainly_linear(self, expr: Expr) -> Linear | None:
        """Read the usual forms without polynomials, several times as fast."""
        match expr:
            case Integer(value):
                return self._ring.number(value)
            case Name(name):
                return self._ring.name(name)
            case Negate(operand):
                form = self._plainly_linear(operand)
                return None if form is None else form.times(-1)
            case Multiply((Integer(value), factor)):
                form = self._plainly_linear(factor)
                return None if form is None else form.times(value)
            case Add(parts):
                total = self._ring.number(0)
                for part in parts:
                    form = self._plainly_linear(part)
                    if form is None:
                        return None
                    total += form
                return total
        return None

    def _sum(self, expr: Expr, parts: list[Term]) -> Term:
        ring, (total, *rest) = self._ring, parts
        for part in rest:
            if part.num == 0:
                continue
            if total.num == 0:
                total = part
                continue
            quotient = as_fraction(ring, part.times(total, -1))
            if quotient is None:
                raise NotHypergeometric(f"{_short(expr)} adds terms that aren't similar")
            num, den = ring.lowest_terms(
                total.num * (quotient.den + quotient.num), total.den * quotient.den
            )
            total = replace(total, num=num, den=den)
        return total

    def _power(self, expr: Power) -> Term:
        ring, term, form = self._ring, self.term(expr.base), self.linear(expr.exponent)
        if any(abs(slope) > MAX_SLOPE for slope in form.slopes):
            raise OutOfReach(f"the exponent of {_short(expr)} has coefficients beyond {MAX_SLOPE}")
        if form.is_constant:
            return self._whole_power(expr, term, form.constant)
        if not term.is_rational:
            raise NotHypergeometric(f"{_short(expr)}: the base has factorials")
        if term.num == 0:
            raise NotHypergeometric(f"{_short(expr)}: the base is 0")
        if any(ring.degree(part, v) > 0 for part in (term.num, term.den) for v in self._shifts):
            raise NotHypergeometric(f"{_short(expr)}: the base depends on {_names(self._shifts)}")
        powers: dict[str, tuple[Poly, Linear]] = {}
        for part, sign in ((term.num, 1), (term.den, -1)):
            for factor, multiplicity in _irreducible(ring, part):
                with_power(powers, factor, form.times(sign * multiplicity))
        return Term(ring.one, ring.one, {}, powers)

    def _whole_power(self, expr: Expr, term: Term, exponent: int) -> Term:
        if not free_names(expr):
            value = evaluate(expr, {})
            return self._number(value.numerator, value.denominator)
        if abs(exponent) > MAX_POWER:
            raise OutOfReach(f"the exponent of {_short(expr)} is beyond {MAX_POWER}")
        if exponent < 0:
            _refuse_zero(term, expr)
        result = Term(self._ring.one, self._ring.one)
        for _ in range(abs(exponent)):
            result = result.times(term, 1 if exponent > 0 else -1)
        return result

    def _number(self, num: int, den: int = 1) -> Term:
        return Term(self._ring.constant(num), self._ring.constant(den))

    def _call(self, expr: Call) -> Term:
        if not free_names(expr):
            value = evaluate(expr, {})
            return self._number(value.numerator, value.denominator)
        if expr.function not in ("binomial", "catalan", "factorial", "falling", "rising"):
            raise NotHypergeometric(f"{_short(expr)} isn't hypergeometric")
        forms = [self.linear(argument) for argument in expr.arguments]
        if any(abs(slope) > MAX_SLOPE for form in forms for slope in form.slopes):
            raise OutOfReach(f"{_short(expr)} has coefficients beyond {MAX_SLOPE}")
        if len(forms) == 2 and forms[1].is_constant and forms[1].constant <= MAX_POWER:
            return self._falling_product(expr.function, forms[0], forms[1].constant)
        return self._factorials(expr.function, forms)

    def _factorials(self, function: str, forms: list[Linear]) -> Term:
        first, second = forms[0], forms[-1]
        den = self._ring.one
        if function == "factorial":
            parts = [(first, 1)]
        elif function == "binomial":
            parts = [(first, 1), (second, -1), (first - second, -1)]
        elif function == "catalan":
            parts = [(first.times(2), 1), (first, -2)]
            den = self._ring.polynomial(first.plus(1))
        elif function == "rising":
            parts = [((first + second).plus(-1), 1), (first.plus(-1), -1)]
        else:
            parts = [(first, 1), (first - second, -1)]
        factorials: dict[Linear, int] = {}
        for form, multiplicity in parts:
            with_factorial(factorials, form, multiplicity)
        return Term(self._ring.one, den, factorials)

    def _falling_product(self, function: str, form: Linear, length: int) -> Term:
        """Write what has a constant second argument as the polynomial that it is."""
        if length < 0:
            if function == "binomial":
                return self._number(0)
            raise NotHypergeometric(f"{function} of negative length {length}")
        start = form.plus(length - 1) if function == "rising" else form
        product = self._ring.one
        for i in range(length):
            product *= self._ring.polynomial(start.plus(-i))
        return Term(
            product, self._ring.constant(math.factorial(length) if function == "binomial" else 1)
        )


def _product(terms: list[Term]) -> Term:
    result = terms[0]
    for term in terms[1:]:
        result = result.times(term)
    return result


def _names(names: Iterable[str]) -> str:
    return " or ".join(sorted(names))


def _irreducible(ring: Ring, poly: Poly) -> list[tuple[Poly, int]]:
    content, factors = poly.factor()
    found = [(factor, int(multiplicity)) for factor, multiplicity in factors]
    number = int(content)
    if number < 0:
        found.append((ring.constant(-1), 1))
    # Larger numbers stay whole: equal powers of them are then found only as they were written.
    pieces = fmpz(abs(number)).factor() if abs(number) < 10**12 else [(abs(number), 1)]
    return found + [(ring.constant(int(prime)), int(m)) for prime, m in pieces if prime != 1]
