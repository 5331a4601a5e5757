"""Does the formula in factorials mean what the statement says, on the whole range?

``u! / (l! (u-l)!)`` and ``binomial(u, l)`` differ where u is a negative whole number: the one has
a pole or depends on how the point is approached, the other is 0 for l < 0 and a polynomial in u
for l >= 0. Algebra with terms proves the statement only where they agree.
"""

from __future__ import annotations

from icml.wzllm.domain import Domain, Undetermined
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
    children,
    to_text,
)
from icml.wzllm.limits import Range
from icml.wzllm.reading import linear_form, to_term
from icml.wzllm.ring import Linear, Poly
from icml.wzllm.terms import Term

__all__ = ["check_faithful", "check_regular", "check_shifts"]


def check_faithful(domain: Domain, expr: Expr, within: Range | None) -> None:
    """Check that the term of a formula has the value of the formula, for all n but exceptions.

    Precisely: at every k of the range the limit of the term, first for k, then for the generic
    parameters to any whole values, is the formula's value wherever that is defined.

    Args:
        domain: What is known of the variables; collects the exceptions.
        expr: A formula without sums.
        within: The range of the summation variable; None if there is none.

    Raises:
        Undetermined: If that can't be shown; names the part.
    """
    _Walk(domain, within).finite(expr)


def check_shifts(domain: Domain, term: Term, k: str) -> None:
    """Except every n at which the term isn't a proper function of k, so that its shifts are not.

    Raises:
        Undetermined: If those n aren't known.
    """
    for form in term.factorials:
        if not (domain.is_generic(form) or domain.ring.slope(form, k)):
            _require_nonnegative(domain, form)
    domain.require_nonzero(term.num, k, "the summand")
    domain.require_nonzero(term.den, k, "the summand's denominator")


def check_regular(domain: Domain, term: Term) -> None:
    """Except every n at which a factorial of a closed term has a pole.

    Raises:
        Undetermined: If those n aren't known.
    """
    for form, multiplicity in term.factorials.items():
        if not domain.is_proper(form, multiplicity):
            _require_nonnegative(domain, form)


def _require_nonnegative(domain: Domain, form: Linear) -> None:
    if not domain.nonnegative(form):
        raise Undetermined(f"({domain.ring.polynomial(form)})! has a negative argument")


class _Walk:
    def __init__(self, domain: Domain, within: Range | None) -> None:
        self._domain = domain
        self._ring = domain.ring
        self._range = within

    def finite(self, expr: Expr) -> None:
        """Check a part that must be finite and may be 0."""
        match expr:
            case Integer() | Name():
                return
            case Divide(numerator, denominator):
                self.finite(numerator)
                self.nonzero(denominator)
            case Power(base, exponent):
                self._power(expr, base, exponent)
            case Call():
                self._call(expr, may_vanish=True)
            case Add() | Multiply() | Negate():
                for child in children(expr):
                    self.finite(child)
            case _:
                raise Undetermined(f"{to_text(expr)} isn't a term")

    def nonzero(self, expr: Expr) -> None:
        """Check a part that must be finite and other than 0."""
        match expr:
            case Multiply() | Negate() | Divide():
                for child in children(expr):
                    self.nonzero(child)
            case Power(base, exponent) if self._form(exponent).is_constant:
                self.nonzero(base)
            case Power():
                self.finite(expr)
            case Call():
                self._call(expr, may_vanish=False)
            case _:
                term = to_term(self._ring, expr, frozenset())
                if not term.is_rational:
                    raise Undetermined(f"it isn't known where {to_text(expr)} is 0")
                self.finite(expr)
                self._nonzero_polynomial(term.num, expr)

    def _form(self, expr: Expr) -> Linear:
        return linear_form(self._ring, expr)

    def _power(self, expr: Expr, base: Expr, exponent: Expr) -> None:
        form = self._form(exponent)
        if form.is_constant:
            return self.finite(base) if form.constant >= 0 else self.nonzero(base)
        term = to_term(self._ring, base, frozenset())
        for part in (term.num, term.den):
            linear = self._ring.linear(part)
            if linear is None or not self._domain.is_generic(linear):
                self._nonzero_polynomial(part, expr)
        return None

    def _call(self, expr: Call, *, may_vanish: bool) -> None:
        forms = [self._form(argument) for argument in expr.arguments]
        first, second = forms[0], forms[-1]
        if expr.function in ("factorial", "catalan"):
            self._at_least(first, 0, expr)
        elif second.is_constant:
            if not may_vanish:
                self._nonzero_polynomial(to_term(self._ring, expr, frozenset()).num, expr)
        else:
            self._two_arguments(expr, first, second, may_vanish=may_vanish)

    def _two_arguments(
        self, expr: Call, first: Linear, second: Linear, *, may_vanish: bool
    ) -> None:
        """Check binomial(u, l), falling(u, l) = u!/(u-l)!, rising(x, l) = (x+l-1)!/(x-1)!."""
        domain, rising = self._domain, expr.function == "rising"
        if expr.function != "binomial":
            self._at_least(second, 0, expr)
        if not self._is_polynomial(first, second):
            self._least_argument(first, int(rising), expr, always=domain.is_generic(second))
        if not may_vanish:
            differences = [] if rising else [first - second]
            if expr.function == "binomial":
                differences.append(second)
            for form in differences:
                self._at_least(form, 0, expr)
            self._least_argument(first, int(rising), expr, always=False)

    def _is_polynomial(self, first: Linear, second: Linear) -> bool:
        """Say whether the term is the right polynomial in ``first`` at each point of the range."""
        if self._domain.is_generic(second):
            return False
        if self._domain.is_generic(first):
            return True
        if self._range is None:
            return False
        k = self._range.k
        moves = self._ring.slope(first, k) != 0 and self._ring.slope(second, k) == 0
        return moves and self._domain.is_surely_nonnegative(self._lowest(second))

    def _least_argument(self, form: Linear, least: int, expr: Expr, *, always: bool) -> None:
        if always or not self._domain.is_generic(form):
            self._require(form, least, expr)

    def _at_least(self, form: Linear, least: int, expr: Expr) -> None:
        """Require it unless the form is generic; where it fails then, the statement is empty."""
        if not self._domain.is_generic(form):
            self._require(form, least, expr)

    def _require(self, form: Linear, least: int, expr: Expr) -> None:
        lowest = self._lowest(form).plus(-least)
        try:
            holds = self._domain.nonnegative(lowest)
        except Undetermined:
            holds = False
        if not holds:
            shown = self._ring.polynomial(form)
            raise Undetermined(f"{to_text(expr)}: {shown} may be below {least} in the range")

    def _lowest(self, form: Linear) -> Linear:
        """Return the form at the end of the range where it is lowest."""
        if self._range is None:
            return form
        k, low, high = self._range
        return self._ring.put_linear(form, k, low if self._ring.slope(form, k) > 0 else high)

    def _nonzero_polynomial(self, poly: Poly, expr: Expr) -> None:
        """Require that a polynomial is other than 0 on the range, for all n but exceptions."""
        if not self._surely_nonzero(poly):
            raise Undetermined(f"it isn't known where {to_text(expr)} is 0 or infinite")

    def _surely_nonzero(self, poly: Poly) -> bool:
        if poly.is_constant():
            return poly != 0
        return all(self._nonzero_factor(factor) for factor, _ in poly.factor()[1])

    def _nonzero_factor(self, poly: Poly) -> bool:
        ring, domain = self._ring, self._domain
        occurring = [name for name in ring.names if ring.degree(poly, name) > 0]
        summed = {self._range.k} if self._range else set()
        generic = [name for name in occurring if name not in domain.whole | summed]
        if generic:  # 0 for all values of a generic parameter only if all coefficients are
            return any(map(self._surely_nonzero, ring.coefficients(poly, generic[0]).values()))
        form = ring.linear(poly)
        if form is None:
            numbers = ring.monomials(poly)
            same_sign = len({number > 0 for number in numbers.values()}) == 1
            return same_sign and (0,) * len(ring.names) in numbers and self._starts_at_zero()
        return domain.misses_zero(form) or any(
            self._has_sign(form.times(sign).plus(-1)) for sign in (1, -1)
        )

    def _starts_at_zero(self) -> bool:
        return self._range is None or self._domain.is_surely_nonnegative(self._range.low)

    def _has_sign(self, form: Linear) -> bool:
        try:
            return self._domain.nonnegative(self._lowest(form))
        except Undetermined:
            return False
