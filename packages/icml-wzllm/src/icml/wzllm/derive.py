"""From a recurrence and R to the identity: every obligation that is left, decided or named.

The statement holds for all whole ``n >= 0`` if

1. the telescoped equation is an identity of rational functions,
2. the summand's term means what the statement says on the whole range (:mod:`faithful`),
3. summing it gives ``sum_j a_j f(n+j) = B(n)`` with a known B (:mod:`limits`),
4. the other side satisfies the same recurrence with the same B,
5. both sides agree at ``n = 0 .. J-1``, and at n+J for every n where a step fails: where a_J(n) is
   0, a denominator vanishes or one of the conditions above doesn't hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from icml.wzllm.bases import sides_agree
from icml.wzllm.domain import Domain, Undetermined
from icml.wzllm.expressions import (
    Add,
    Divide,
    Expr,
    Integer,
    Multiply,
    Negate,
    Power,
    Sum,
    free_names,
    walk,
)
from icml.wzllm.faithful import check_faithful, check_regular, check_shifts
from icml.wzllm.limits import Range, boundary
from icml.wzllm.reading import NotHypergeometric, linear_form, to_term, to_terms
from icml.wzllm.ring import Fraction, Linear, Poly, Ring
from icml.wzllm.shape import Shape
from icml.wzllm.terms import Term, combined, shift_quotient, shifted, vanishes

__all__ = ["Claim", "Derived", "Rejected", "derive", "without_powers_of_zero"]

MAX_BASE_CASES = 60  # ours


class Rejected(ValueError):
    """The certificate is wrong; the message says what doesn't hold."""


class Claim(NamedTuple):
    """What has to be checked: nothing of it is believed."""

    ring: Ring
    """In the summation variable, then all variables of the statement."""
    shape: Shape
    n: str
    recurrence: tuple[Poly, ...]
    ratio: Fraction
    right: Fraction | None
    """R for the other side, if that is a sum."""

    @property
    def k(self) -> str:
        """The summation variable."""
        return self.shape.sum.variable

    @property
    def order(self) -> int:
        """The order of the recurrence."""
        return len(self.recurrence) - 1


@dataclass(frozen=True)
class Derived:
    """What follows from a claim."""

    boundary: tuple[Term, ...]
    """Terms whose sum is B(n); none where it is 0."""
    base_cases: tuple[int, ...]
    failing_steps: tuple[int, ...]
    """The n at which the recurrence isn't used."""


def derive(claim: Claim) -> Derived:
    """Decide the identity from a claim.

    Parameters are taken as generic where they may be; where that leaves a sign open, all of them
    as whole numbers.

    Raises:
        Rejected: If the telescoped equation is wrong or a side doesn't satisfy the recurrence.
        Undetermined: If an obligation could not be decided; names it.
    """
    check_telescoping(claim)
    whole = _whole_parameters(claim)
    everything = frozenset(claim.ring.names)
    try:
        return _Derivation(claim, whole).run()
    except Undetermined:
        if everything <= whole | {claim.k, claim.n}:
            raise
        return _Derivation(claim, everything).run()


def check_telescoping(claim: Claim) -> None:
    """Check ``sum_j a_j F(n+j,k) = R(n,k+1) F(n,k+1) - R(n,k) F(n,k)`` exactly, for each sum.

    Raises:
        Rejected: If it isn't an identity of rational functions, or R is missing or needless.
    """
    other = claim.shape.other
    if (claim.right is not None) != isinstance(other, Sum):
        raise Rejected("R for the right side is needed exactly where that is a sum")
    if claim.recurrence[-1] == 0:
        raise Rejected("the leading coefficient of the recurrence is 0")
    if any(claim.ring.degree(a, claim.k) > 0 for a in claim.recurrence):
        raise Rejected(f"the recurrence contains {claim.k}")
    for side, ratio in ((claim.shape.sum, claim.ratio), (other, claim.right)):
        if isinstance(side, Sum) and ratio is not None:
            term = to_term(claim.ring, side.body, frozenset((claim.k, claim.n)))
            if term.num != 0 and not _telescopes(claim, term, ratio):
                raise Rejected("the telescoped equation isn't an identity")


def _telescopes(claim: Claim, term: Term, ratio: Fraction) -> bool:
    ring, k = claim.ring, claim.k
    num, den = claim.recurrence[0], ring.one
    for j, coefficient in enumerate(claim.recurrence[1:], start=1):
        if coefficient != 0:
            quotient = shift_quotient(ring, term, claim.n, j)
            num = num * quotient.den + coefficient * quotient.num * den
            den = den * quotient.den
    step = shift_quotient(ring, term, k)
    next_num = ring.shift(ratio.num, k, 1) * step.num
    next_den = ring.shift(ratio.den, k, 1) * step.den
    right = next_num * ratio.den - ratio.num * next_den
    return num * next_den * ratio.den == right * den


def _whole_parameters(claim: Claim) -> frozenset[str]:
    """Return the variables that can't be generic: in limits, and in exponents of most bases."""
    sums = [side for side in (claim.shape.sum, claim.shape.other) if isinstance(side, Sum)]
    found = {name for side in sums for end in (side.low, side.high) for name in free_names(end)}
    for side in (claim.shape.sum, claim.shape.other):
        for node in walk(side):
            if isinstance(node, Power) and not _is_positive_number(node.base):
                found.update(free_names(node.exponent))
    return frozenset(found | {claim.n, claim.k})


def _is_positive_number(expr: Expr) -> bool:
    return isinstance(expr, Integer) and expr.value > 0


class _Derivation:
    def __init__(self, claim: Claim, whole: frozenset[str]) -> None:
        self._claim = claim
        self._ring = claim.ring
        self._whole = whole
        self._steps: set[int] = set()
        self._bases = set(range(claim.order))

    def run(self) -> Derived:
        claim, ring = self._claim, self._ring
        left = self._sum_side(claim.shape.sum, claim.ratio)
        if isinstance(claim.shape.other, Sum):
            assert claim.right is not None
            rest = self._sum_side(claim.shape.other, claim.right)
        else:
            rest = self._closed_side(claim.shape.other)
        if not vanishes(ring, [*left, *(term.scaled(-1) for term in rest)]):
            raise Undetermined("the other side isn't seen to satisfy the same recurrence")
        leading = self._domain()
        leading.require_nonzero(claim.recurrence[-1], None, "the leading coefficient")
        self._steps |= leading.exceptions
        self._bases |= {n + claim.order for n in self._steps}
        if len(self._bases) > MAX_BASE_CASES:
            raise Undetermined(f"more than {MAX_BASE_CASES} base cases")
        for value in sorted(self._bases):
            if not sides_agree(ring, claim.shape, claim.n, value, self._whole):
                raise Undetermined(f"base case {claim.n} = {value}: the sides aren't seen to agree")
        shown = combined(ring, left)
        return Derived(tuple(shown), tuple(sorted(self._bases)), tuple(sorted(self._steps)))

    def _domain(self) -> Domain:
        return Domain(self._ring, self._claim.n, self._whole)

    def _except(self, own: Domain) -> None:
        """No step may use a side at one of its exceptions, which is then a base case itself."""
        order = self._claim.order
        self._bases |= {n + j for n in own.exceptions for j in range(order + 1)}
        self._steps |= {n - j for n in own.exceptions for j in range(order + 1) if n >= j}

    def _sum_side(self, side: Sum, ratio: Fraction) -> list[Term]:
        """Return B(n) for a sum."""
        claim, ring, k = self._claim, self._ring, side.variable
        term = to_term(ring, side.body, frozenset((k, claim.n)))
        within = Range(k, self._limit_of_sum(side.low), self._limit_of_sum(side.high))
        own = self._domain()
        if not own.nonnegative((within.high - within.low).plus(1)):
            raise Undetermined("the upper limit is below the lower one")
        check_faithful(own, side.body, within)
        if term.num != 0:
            check_shifts(own, term, k)
        self._except(own)
        if term.num == 0:
            return []
        steps = self._domain()
        steps.require_nonzero(ratio.den, k, "the certificate's denominator")
        found = boundary(steps, term, ratio, claim.recurrence, within)
        self._steps |= steps.exceptions
        return found

    def _limit_of_sum(self, expr: Expr) -> Linear:
        form = linear_form(self._ring, expr)
        if self._ring.slope(form, self._claim.k):
            raise NotHypergeometric("a limit of the sum contains its variable")
        return form

    def _closed_side(self, expr: Expr) -> list[Term]:
        """Return ``sum_j a_j T(n+j)`` for a formula without sums."""
        claim, ring, own = self._claim, self._ring, self._domain()
        expr, exponents = without_powers_of_zero(expr)
        for exponent in exponents:
            if not own.nonnegative(linear_form(ring, exponent).plus(-1)):
                raise Undetermined("0 to a negative power")
        check_faithful(own, expr, None)
        terms = to_terms(ring, expr, frozenset((claim.n,)))
        for term in terms:
            check_regular(own, term)
        self._except(own)
        return [
            shifted(ring, term, claim.n, j).scaled(coefficient)
            for term in terms
            for j, coefficient in enumerate(claim.recurrence)
            if coefficient != 0
        ]


def without_powers_of_zero(expr: Expr) -> tuple[Expr, list[Expr]]:
    """Put 0 for every ``0^e`` of a formula; return the exponents e, which must not be 0, as well.

    Example:
        >>> from icml.wzllm.parser import parse
        >>> without_powers_of_zero(parse("0^n"))
        (Integer(value=0), [Name(name='n')])
    """
    match expr:
        case Power(Integer(0), exponent) if free_names(exponent):
            return Integer(0), [exponent]
        case Add(parts) | Multiply(parts):
            pairs = [without_powers_of_zero(part) for part in parts]
            changed = type(expr)(tuple(part for part, _ in pairs))
            return changed, [exponent for _, found in pairs for exponent in found]
        case Negate(operand):
            inner, exponents = without_powers_of_zero(operand)
            return Negate(inner), exponents
        case Divide(numerator, denominator):
            inner, exponents = without_powers_of_zero(numerator)
            return Divide(inner, denominator), exponents
    return expr, []
