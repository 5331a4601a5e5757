"""Sequences with a recurrence in constants, and a bound on its order that the formula shows.

A sequence s(m), m >= start, is C-finite of order r if a space of sequences of dimension r holds it
and is kept by the shift m -> m+1; then ``s(m+r)`` is a fixed combination of ``s(m) .. s(m+r-1)``.
With r and s the orders of f and h:

=================================== ==============================================
formula                             order
=================================== ==============================================
number, ``c^(a m+b)``               1
``fibonacci(a m+b)``                2
polynomial in m of degree d         d + 1
f + h, f h, ``f^e``                 r + s, r s, ``binomial(r+e-1, e)``
sum of f(k), k to a m+b             r + 1
sum of f(k) h(m-k), k = 0 .. m      r + s
the same with ``binomial(m,k)``     r s
=================================== ==============================================

Two sequences of orders r and s from the same start on are equal if r + s values in a row are: their
difference has order r + s. That is a proof by induction over as many base cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import comb
from typing import NamedTuple

from icml.wzllm.cfinite_terms import (
    Linear,
    NotCFinite,
    constant,
    degree,
    linear,
    monomials,
    shown,
    split_power,
)
from icml.wzllm.expressions import (
    Add,
    Call,
    Divide,
    Expr,
    Multiply,
    Negate,
    Power,
    Sum,
    free_names,
)

__all__ = ["Bound", "NotCFinite", "bound"]

MAX_ORDER = 400  # ours: so many values are compared
MAX_START = 200  # ours


class Bound(NamedTuple):
    """From ``start`` on the formula has values, and they satisfy a recurrence of that order."""

    order: int
    start: int
    steps: tuple[str, ...] = ()
    """How the order follows, a formula a line, parts first."""

    def then(self, order: int, start: int, step: str) -> Bound:
        """Return the bound of a larger formula."""
        if order > MAX_ORDER:
            raise NotCFinite(f"the order may be {order}, at most {MAX_ORDER} is tried")
        if start > MAX_START:
            raise NotCFinite(f"values only from {start} on, at most {MAX_START} is tried")
        return Bound(order, start, (*self.steps, f"order {order}: {step}"))


ONE = Bound(1, 0)


def bound(expr: Expr, variable: str) -> Bound:
    """Bound the order of a formula's values at 0, 1, 2, ... of its one variable.

    Raises:
        NotCFinite: If no rule of the table applies; the message names the part.

    Example:
        >>> from icml.wzllm.parser import parse
        >>> bound(parse("sum(k,0,n,binomial(n,k)*fibonacci(k))"), "n").order
        2
    """
    match expr:
        case _ if (power := degree(expr, variable)) is not None:
            return ONE.then(power + 1, 0, shown(expr)) if power else ONE
        case Negate(operand):
            return bound(operand, variable)
        case Add(parts):
            return _sum_of(_parts(Add, parts, variable), expr)
        case Multiply(parts):
            return _product_of(_parts(Multiply, parts, variable), expr)
        case Divide(numerator, denominator):
            return _quotient(expr, numerator, denominator, variable)
        case Power():
            return _power(expr, variable)
        case Call():
            return _call(expr, variable)
        case Sum():
            return _sum(expr, variable)
    raise NotCFinite(f"{shown(expr)} isn't C-finite in {variable}")


def _parts(kind: type[Add | Multiply], parts: tuple[Expr, ...], variable: str) -> list[Bound]:
    """Bound the terms or factors; those that are polynomials are one."""
    others = [part for part in parts if degree(part, variable) is None]
    polynomials = tuple(part for part in parts if part not in others)
    joined = [kind(polynomials)] if len(polynomials) > 1 else polynomials
    return [bound(part, variable) for part in (*others, *joined)]


def _joined(parts: Sequence[Bound]) -> Bound:
    """Keep what the parts said; their latest start."""
    steps = tuple(dict.fromkeys(step for part in parts for step in part.steps))
    return Bound(1, max((part.start for part in parts), default=0), steps)


def _sum_of(parts: Sequence[Bound], expr: Expr) -> Bound:
    all_of = _joined(parts)
    return all_of.then(sum(part.order for part in parts), all_of.start, shown(expr))


def _product_of(parts: Sequence[Bound], expr: Expr) -> Bound:
    all_of = _joined(parts)
    return all_of.then(_product(part.order for part in parts), all_of.start, shown(expr))


def _product(orders: Iterable[int]) -> int:
    result = 1
    for order in orders:
        result *= order
    return result


def _quotient(expr: Expr, numerator: Expr, denominator: Expr, variable: str) -> Bound:
    above = bound(numerator, variable)
    if not free_names(denominator):
        if constant(denominator) == 0:
            raise NotCFinite(f"{shown(expr)} divides by 0")
        return above
    if isinstance(denominator, Power) and split_power(denominator, variable) is not None:
        return above
    raise NotCFinite(f"{shown(expr)}: only numbers and their powers are divided by")


def _power(expr: Power, variable: str) -> Bound:
    if free_names(expr.base):
        exponent = None if free_names(expr.exponent) else constant(expr.exponent)
        if not isinstance(exponent, int) or exponent < 0:
            raise NotCFinite(f"{shown(expr)}: the exponent isn't a whole number, 0 or more")
        base = bound(expr.base, variable)
        if exponent > MAX_ORDER:
            raise NotCFinite(f"{shown(expr)}: exponents to {MAX_ORDER} are tried")
        return base.then(comb(base.order + exponent - 1, exponent), base.start, shown(expr))
    if split_power(expr, variable) is not None:
        return ONE
    form = linear(expr.exponent)
    rises = form is not None and form.names == (variable,) and form.slope(variable) > 0
    if constant(expr.base) == 0 and form is not None and rises:
        return ONE.then(1, form.first(variable, 0), shown(expr))
    raise NotCFinite(f"{shown(expr)}: the exponent isn't linear with whole coefficients")


def _call(expr: Call, variable: str) -> Bound:
    form = linear(expr.arguments[0])
    alone = form is not None and form.names == (variable,)
    if expr.function == "fibonacci" and form is not None and alone and form.slope(variable) > 0:
        return ONE.then(2, form.first(variable, 0), shown(expr))
    raise NotCFinite(f"{shown(expr)} isn't C-finite in {variable}")


class _Factors(NamedTuple):
    """A summand's factors by what they depend on."""

    outer: list[Bound]
    """On m alone."""
    inner: list[Bound]
    """On k alone."""
    mirrored: list[Bound]
    """On m - k, as sequences in that."""
    rows: int
    """How many are ``binomial(m,k)``."""


def _sum(expr: Sum, variable: str) -> Bound:
    low, high = linear(expr.low), linear(expr.high)
    if low is None or high is None or low.names or low.constant < 0:
        raise NotCFinite(f"{shown(expr)}: the lower limit must be a whole number, 0 or more")
    if expr.variable == variable:
        raise NotCFinite(f"{shown(expr)}: its variable occurs outside of it as well")
    if high.names != (variable,) or high.slope(variable) < 0:
        raise NotCFinite(f"{shown(expr)}: the upper limit must be linear and rise with {variable}")
    parts = [
        _one_sum(expr, _factors(monomial, variable, expr.variable), low, high, variable)
        for monomial in monomials(expr.body)
    ]
    return parts[0] if len(parts) == 1 else _sum_of(parts, expr)


def _one_sum(expr: Sum, factors: _Factors, low: Linear, high: Linear, variable: str) -> Bound:
    outer, inner, mirrored = map(_joined, factors[:3])
    r, s, t = (_product(part.order for part in parts) for parts in factors[:3])
    if max(inner.start, mirrored.start) > low.constant:
        raise NotCFinite(f"{shown(expr)}: a term of the sum has no value")
    start = outer.start
    if factors.rows or factors.mirrored:
        if low.constant != 0 or (high.constant, high.slope(variable)) != (0, 1):
            raise NotCFinite(f"{shown(expr)}: its range must be 0 to {variable}")
        if factors.rows > 1:
            raise NotCFinite(f"{shown(expr)}: a power of binomial({variable},{expr.variable})")
        own = s * t if factors.rows else s + t
    else:
        own, start = s + 1, max(start, high.first(variable, low.constant - 1))
    return _joined((outer, inner, mirrored)).then(r * own, start, shown(expr))


def _factors(monomial: Sequence[Expr], variable: str, k: str) -> _Factors:
    found = _Factors([], [], [], 0)
    for factor in monomial:
        names = free_names(factor)
        if k not in names:
            found.outer.append(bound(factor, variable))
        elif variable not in names:
            found.inner.append(bound(factor, k))
        elif _is_row(factor, variable, k):
            found = found._replace(rows=found.rows + 1)
        elif isinstance(factor, Power) and split_power(factor, variable, k) is not None:
            continue  # c^(a m + b k + d) is a sequence of order 1 in m times one in k
        else:
            found.mirrored.append(_mirrored(factor, variable, k))
    return found


def _is_row(factor: Expr, variable: str, k: str) -> bool:
    if not isinstance(factor, Call) or factor.function != "binomial":
        return False
    upper, lower = map(linear, factor.arguments)
    if upper is None or lower is None or upper != Linear.of(variable):
        return False
    return lower in (Linear.of(k), Linear.of(variable).minus(Linear.of(k)))


def _mirrored(factor: Expr, variable: str, k: str) -> Bound:
    """Read ``fibonacci(a (m-k) + b)`` as a sequence in m-k."""
    if isinstance(factor, Call) and factor.function == "fibonacci":
        form = linear(factor.arguments[0])
        if form is not None and set(form.names) == {variable, k} and form.slope(variable) > 0:
            alone = form.plus(Linear.of(k), form.slope(variable))
            if alone.names == (variable,):
                step = f"{shown(factor)} as a sequence in {variable}-{k}"
                return ONE.then(2, alone.first(variable, 0), step)
    raise NotCFinite(f"{shown(factor)} depends on {variable} and {k} in a way that isn't known")
