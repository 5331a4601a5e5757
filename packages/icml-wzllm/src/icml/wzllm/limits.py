"""Values of terms at points where factorials have poles, and what telescoping leaves over.

Near a negative whole number, ``(-a-1 + e)! = (-1)^a / (a! e) (1 + O(e))``. So a term at
``k = point + e`` is a leading coefficient times a power of e, and its limit is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial
from typing import NamedTuple

from icml.wzllm.domain import Domain, Undetermined
from icml.wzllm.reading import OutOfReach
from icml.wzllm.ring import Fraction, Linear, Poly
from icml.wzllm.terms import Term, shifted

__all__ = ["Range", "boundary", "limit", "settled"]

MAX_FACTORIAL = 400  # of a number in a term, ours
MAX_CORRECTIONS = 60  # terms that other upper limits add or take away, ours


class Range(NamedTuple):
    """``low <= k <= high``, both linear and free of k."""

    k: str
    low: Linear
    high: Linear


def limit(domain: Domain, term: Term, k: str, point: Linear) -> Term:
    """Return the limit of a term for k to a point, for all n but exceptions.

    Raises:
        Undetermined: If it is infinite, or not known to be finite.
    """
    ring, at = domain.ring, domain.ring.polynomial(point)
    if term.num == 0:
        return Term(ring.zero, ring.one)
    numerator, factorials = _absorbed(domain, term, k, point)
    num, order = _leading(domain, numerator, k, at)
    den, order_below = _leading(domain, term.den, k, at)
    order -= order_below
    result = Term(num, den)
    for form, multiplicity in factorials:
        value = ring.put_linear(form, k, point)
        if domain.is_proper(value, multiplicity) or domain.nonnegative(value):
            result = result.times(Term(ring.one, ring.one, {value: multiplicity}))
            continue
        order -= multiplicity
        result = _times_poles(domain, result, (form, value), k, multiplicity)
    # Also before a limit is called 0: where this denominator is 0, the zero may be cancelled.
    domain.require_nonzero(den, None, f"a denominator at {k} = {at}")
    if order > 0:
        return Term(ring.zero, ring.one)
    if order < 0:
        raise Undetermined(f"the boundary value at {k} = {at} is infinite")
    for base, exponent in term.powers.values():
        value = ring.put_linear(exponent, k, point)
        result = result.times(Term(ring.one, ring.one, {}, {str(base): (base, value)}))
    return settled(domain, result)


def settled(domain: Domain, term: Term) -> Term:
    """Multiply out factorials of numbers and powers with a number for an exponent.

    A factorial of a negative number in the denominator makes the term 0.

    Raises:
        Undetermined: If there is one in the numerator.
    """
    ring, num, den = domain.ring, term.num, term.den
    factorials, powers = dict(term.factorials), dict(term.powers)
    for form, multiplicity in term.factorials.items():
        if not form.is_constant:
            continue
        del factorials[form]
        if form.constant < 0 and multiplicity < 0:
            return Term(ring.zero, ring.one)
        if form.constant < 0 or form.constant > MAX_FACTORIAL:
            raise Undetermined(f"{form.constant}! occurs")
        value = ring.constant(factorial(form.constant))
        num, den = _multiplied(num, den, value, multiplicity)
    for key, (base, exponent) in term.powers.items():
        if exponent.is_constant:
            del powers[key]
            num, den = _multiplied(num, den, base, exponent.constant)
    return Term(*ring.lowest_terms(num, den), factorials, powers)


def _multiplied(num: Poly, den: Poly, factor: Poly, power: int) -> tuple[Poly, Poly]:
    return (num * factor**power, den) if power >= 0 else (num, den * factor**-power)


def _leading(domain: Domain, poly: Poly, k: str, at: Poly) -> tuple[Poly, int]:
    """Divide by ``k - at`` as often as it goes; return what is left at the point, and how often."""
    ring, order = domain.ring, 0
    while (value := ring.put(poly, k, at)) == 0:
        poly = poly / (ring.variable(k) - at)
        order += 1
    return value, order


def _times_poles(
    domain: Domain, term: Term, pole: tuple[Linear, Linear], k: str, multiplicity: int
) -> Term:
    """Multiply by powers of the coefficient of 1/e in ``(value + slope e)!``, value < 0."""
    ring, (form, value) = domain.ring, pole
    slope = ring.slope(form, k)
    if slope == 0:
        raise Undetermined(f"({ring.polynomial(form)})! is infinite for every {k}")
    depth, minus_one = value.times(-1).plus(-1), ring.constant(-1)
    sign = {str(minus_one): (minus_one, depth)}
    coefficient = Term(ring.one, ring.constant(slope), {depth: -1}, sign)
    for _ in range(abs(multiplicity)):
        term = term.times(coefficient, 1 if multiplicity > 0 else -1)
    return term


def _absorbed(
    domain: Domain, term: Term, k: str, point: Linear
) -> tuple[Poly, list[tuple[Linear, int]]]:
    """Write ``l / l!`` as ``1 / (l-1)!`` where the sign of l isn't known and that of l-1 is.

    Returns:
        The numerator, and the factorials with their multiplicities.
    """
    ring, num, factorials = domain.ring, term.num, []
    for form, multiplicity in term.factorials.items():
        value = ring.put_linear(form, k, point)
        undecided = value.constant == 0 and not value.is_constant and max(value.slopes) <= 0
        if undecided and multiplicity == -1 and not domain.is_generic(value):
            quotient, remainder = divmod(num, ring.polynomial(form))
            if remainder == 0:
                num, form = quotient, form.plus(-1)
        factorials.append((form, multiplicity))
    return num, factorials


def boundary(
    domain: Domain, term: Term, ratio: Fraction, recurrence: Sequence[Poly], within: Range
) -> list[Term]:
    """Return terms whose sum is ``B(n) = sum_j a_j f(n+j)``, for all n but exceptions.

    Summing the telescoped equation over ``k = low(n) .. high(n+J)`` leaves G at both ends; terms
    that lie outside of the range of f(n+j) are taken away.

    Raises:
        Undetermined: If a value isn't known.
        OutOfReach: If the limits move too fast.
    """
    ring, n, (k, low, high) = domain.ring, domain.n, within
    order = len(recurrence) - 1
    rise, fall = (ring.slope(high, n), ring.slope(low, n)) if n else (0, 0)
    if rise < 0 or fall < 0:
        raise Undetermined(f"a limit of the sum falls as {n} grows")
    if (rise + fall) * order > MAX_CORRECTIONS:
        raise OutOfReach(f"the limits of the sum move by more than {MAX_CORRECTIONS} with {n}")
    telescoped = Term(term.num * ratio.num, term.den * ratio.den, term.factorials, term.powers)
    last = high.plus(order * rise)
    bottom = limit(domain, telescoped, k, low)
    found = [limit(domain, telescoped, k, last.plus(1)), bottom.scaled(-1)]
    for j, coefficient in enumerate(recurrence):
        outside = [high.plus(j * rise + i) for i in range(1, rise * (order - j) + 1)]
        outside += [low.plus(i) for i in range(fall * j)]
        moved = shifted(ring, term, n, j) if n and outside else term
        found += [limit(domain, moved, k, point).scaled(-coefficient) for point in outside]
    return [term for term in found if term.num != 0]
