"""Zeilberger's creative telescoping: the recurrence of a sum and the rational R that proves it.

Nothing here is trusted: :mod:`icml.wzllm.verification` checks what is found.
"""

from __future__ import annotations

from dataclasses import dataclass

from icml.wzllm.gosper import degree_bound, gosper_form
from icml.wzllm.nullspace import nullspace
from icml.wzllm.ring import Fraction, Poly, Ring
from icml.wzllm.terms import Term, shift_quotient

__all__ = ["MAX_DEGREE", "Telescoper", "telescoper"]

MAX_DEGREE = 200  # of the unknown polynomial, ours: the suite needs 12 at most


@dataclass(frozen=True)
class Telescoper:
    """``sum_j recurrence[j] F(n+j, k) = G(n, k+1) - G(n, k)`` with ``G = ratio F``."""

    recurrence: tuple[Poly, ...]
    ratio: Fraction


def telescoper(ring: Ring, term: Term, k: str, n: str | None, order: int) -> Telescoper | None:
    """Look for a recurrence of exactly that order, with a leading coefficient other than 0.

    With ``n`` None and order 0 this is Gosper's algorithm: ``F(k) = G(k+1) - G(k)`` up to a
    factor free of k.

    Args:
        ring: Has the variables of the term.
        term: The summand F.
        k: The summation variable.
        n: The variable of the recurrence.
        order: J, 0 or more.

    Returns:
        None if there is none.
    """
    step = shift_quotient(ring, term, k)
    numerators, common = [ring.one], ring.one
    if n is not None and order > 0:
        quotients = [shift_quotient(ring, term, n, j) for j in range(1, order + 1)]
        for quotient in quotients:
            common = common * (quotient.den / common.gcd(quotient.den))
        numerators = [common, *(quotient.num * (common / quotient.den) for quotient in quotients)]
        step = ring.lowest_terms(common * step.num, ring.shift(common, k, 1) * step.den)
    form = gosper_form(ring, *step, k)
    targets = [form.p * numerator for numerator in numerators]
    bound = degree_bound(ring, form, max(ring.degree(t, k) for t in targets), k)
    if not 0 <= bound <= MAX_DEGREE:
        return None
    return _solve(
        ring, form.q, ring.shift(form.r, k, -1), targets, bound, k=k, p_den=form.p * common
    )


def _solve(
    ring: Ring, q: Poly, r: Poly, targets: list[Poly], bound: int, *, k: str, p_den: Poly
) -> Telescoper | None:
    """Solve ``sum_j a_j targets[j] = q x(k+1) - r x(k)`` for the a_j and x, linear in both."""
    variable = ring.variable(k)
    powers = [variable**i for i in range(bound + 1)]
    columns = [q * (variable + 1) ** i - r * power for i, power in enumerate(powers)]
    columns += [-target for target in targets]
    by_power = [ring.coefficients(column, k) for column in columns]
    top = max((power for column in by_power for power in column), default=0)
    rows = [[column.get(power, ring.zero) for column in by_power] for power in range(top + 1)]
    for vector in nullspace(ring, rows, len(columns)):
        recurrence = vector[bound + 1 :]
        if recurrence[-1] == 0:
            continue
        x = ring.zero
        for coefficient, power in zip(vector, powers, strict=False):
            x += coefficient * power
        return Telescoper(tuple(recurrence), ring.lowest_terms(r * x, p_den))
    return None
