"""Formulas as products of factors whose numbers are natural on the whole range of the sum.

Where a number falls with k it is written with ``j``, the distance of k from the upper limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import lcm

from icml.wzllm.expressions import (
    Add,
    Call,
    Divide,
    Expr,
    Integer,
    Multiply,
    Negate,
    Power,
    to_text,
)
from icml.wzllm.lean.naturals import Form
from icml.wzllm.lean.ratios import Factor
from icml.wzllm.lean.summand import Unprintable, Variables
from icml.wzllm.lean.terms import MINUS_ONE, Atom, Num, Plus, Term
from icml.wzllm.reading import NotHypergeometric, linear_form, to_term
from icml.wzllm.ring import Linear, Poly

DISTANCE = "jj"
"""The name of j in Lean."""

FUNCTIONS = {"binomial": "ch", "factorial": "fac", "catalan": "catalan"}


@dataclass
class Part:
    """``num / den`` times factors."""

    num: Poly
    den: int = 1
    factors: list[Factor] = field(default_factory=list)


@dataclass(frozen=True)
class Reader:
    """Reads the formulas of one statement."""

    variables: Variables
    high: Linear | None = None
    """The upper limit of the sum in whose summand we are."""

    def parts(self, expr: Expr) -> list[Part]:
        """Read a sum of products.

        Raises:
            Unprintable: If a part isn't one.
        """
        match expr:
            case Add(terms):
                return [part for term in terms for part in self.parts(term)]
            case Negate(operand):
                found = self.parts(operand)
                for part in found:
                    part.num = -part.num
                return found
            case Divide(numerator, Integer(number)) if number > 0:
                found = self.parts(numerator)
                for part in found:
                    part.den *= number
                return found
        if self._is_polynomial(expr):
            part = Part(self.variables.ring.one)
            self._rational(expr, 1, part)
            return [part]
        part = Part(self.variables.ring.one)
        self._read(expr, 1, part)
        return [part] if part.num != 0 else []

    def _read(self, expr: Expr, times: int, part: Part) -> None:
        match expr:
            case Multiply(inner):
                for one in inner:
                    self._read(one, times, part)
            case Negate(operand):
                part.num *= (-1) ** times
                self._read(operand, times, part)
            case Divide(numerator, denominator):
                self._read(numerator, times, part)
                self._rational(Divide(Integer(1), denominator), times, part)
            case Power(base, Integer(exponent)) if exponent >= 0:
                self._read(base, times * exponent, part)
            case Power(base, exponent):
                for _ in range(times):
                    self._power(expr, base, self._linear(exponent), part)
            case Call(function, arguments) if function in FUNCTIONS and not self._is_polynomial(
                expr
            ):
                forms = tuple(self.form(self._linear(a), to_text(expr)) for a in arguments)
                part.factors += [Factor(FUNCTIONS[function], forms)] * times
            case _:
                self._rational(expr, times, part)

    def _is_polynomial(self, expr: Expr) -> bool:
        variables = self.variables
        try:
            term = to_term(variables.ring, expr, frozenset((variables.k, variables.n)))
        except (NotHypergeometric, ArithmeticError):
            return False
        return (
            term.is_rational and variables.ring.lowest_terms(term.num, term.den).den.is_constant()
        )

    def _rational(self, expr: Expr, times: int, part: Part) -> None:
        variables = self.variables
        try:
            term = to_term(variables.ring, expr, frozenset((variables.k, variables.n)))
        except (NotHypergeometric, ArithmeticError) as error:
            raise Unprintable(f"{to_text(expr)[:60]}: {error}") from None
        num, den = variables.ring.lowest_terms(term.num, term.den)
        if not term.is_rational:
            raise Unprintable(f"a statement with the factor {to_text(expr)[:60]}")
        if not den.is_constant():
            raise Unprintable(f"a statement with the denominator {den}")
        part.num *= num**times
        part.den *= int(den.leading_coefficient()) ** times

    def _linear(self, expr: Expr) -> Linear:
        try:
            return linear_form(self.variables.ring, expr)
        except NotHypergeometric as error:
            raise Unprintable(f"{error}") from None

    def form(self, linear: Linear, shown: str) -> Form:
        """Write a linear form so that it is natural on the range.

        Raises:
            Unprintable: If that can't be seen.
        """
        ring, k = self.variables.ring, self.variables.k
        counts: dict[str, int] = {}
        if (slope := ring.slope(linear, k)) < 0:
            if self.high is None:
                raise Unprintable(f"a statement with the factor {shown[:60]}")
            linear = ring.put_linear(linear, k, self.high)
            counts[DISTANCE] = -slope
        for name in ring.names:
            if count := ring.slope(linear, name):
                counts[name] = count
        if linear.constant < 0 or min(counts.values(), default=0) < 0:
            raise Unprintable(f"{shown[:60]}: that {ring.polynomial(linear)} is natural")
        if wrong := set(counts) & self.variables.whole:
            raise Unprintable(f"{shown[:60]}: that {min(wrong)} is natural")
        return Form.of(counts, linear.constant)

    def _power(self, expr: Expr, base: Expr, exponent: Linear, part: Part) -> None:
        found, value = self._base(expr, base)
        shift = min(0, exponent.constant)
        if shift and value is None:
            raise Unprintable(f"{to_text(expr)[:60]}: that the exponent is natural")
        if shift and value is not None:
            part.den *= abs(value) ** -shift
            part.num *= -1 if value < 0 and shift % 2 else 1
        form = self.form(exponent.plus(-shift), to_text(expr))
        part.factors.append(Factor("pw", (form,), found))

    def _base(self, expr: Expr, base: Expr) -> tuple[Term, int | None]:
        variables = self.variables
        linear = self._linear(base)
        slopes = {n: s for n, s in zip(variables.ring.names, linear.slopes, strict=True) if s}
        if not slopes and linear.constant >= -1:
            value = linear.constant
            return (MINUS_ONE if value == -1 else Num(value)), value
        if len(slopes) == 1 and linear.constant >= 0 and set(slopes.values()) == {1}:
            (name,) = slopes
            if name in variables.parameters:
                variable = Atom(name if name in variables.whole else f"(Z.nm {name})")
                return (Plus(Num(linear.constant), variable) if linear.constant else variable), None
        raise Unprintable(f"a statement with the power {to_text(expr)[:60]}")


def clear(sides: Sequence[Sequence[Part]]) -> None:
    """Multiply all parts by one positive number so that no denominator is left."""
    scale = lcm(*(abs(part.den) for side in sides for part in side))
    for side in sides:
        for part in side:
            part.num, part.den = part.num * (scale // part.den), 1
