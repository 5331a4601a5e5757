"""Gosper's algorithm: is a hypergeometric term a difference of another one?

The dispersion is found by factoring, not by a resultant: irreducible factors f of the numerator
and g of the denominator with ``f(k) ~ g(k + j)`` have equal degree, and the two leading
coefficients give j.
"""

from __future__ import annotations

from typing import NamedTuple

from icml.wzllm.ring import Poly, Ring

__all__ = ["GosperForm", "degree_bound", "gosper_form"]


class GosperForm(NamedTuple):
    """``u/w = p(k+1)/p(k) * q(k)/r(k)`` with gcd(q(k), r(k+i)) = 1 for every whole i >= 0."""

    p: Poly
    q: Poly
    r: Poly


def gosper_form(ring: Ring, numerator: Poly, denominator: Poly, k: str) -> GosperForm:
    """Return the Gosper form of a quotient of polynomials."""
    content_q, above = _factors(numerator)
    content_r, below = _factors(denominator)
    p = q = r = ring.one
    for i, (upper, _) in enumerate(above):
        for j, (lower, _) in enumerate(below):
            common = min(above[i][1], below[j][1])
            shift = _shift_between(ring, upper, lower, k) if common else None
            if shift is None or shift < 0:
                continue
            above[i] = (upper, above[i][1] - common)
            below[j] = (lower, below[j][1] - common)
            for step in range(shift):
                p *= ring.shift(lower, k, step) ** common
            # Both factors are primitive, so f(k) is g(k + j) or -g(k + j).
            if ring.shift(lower, k, shift) != upper:
                content_q *= (-1) ** common
    for factor, multiplicity in above:
        q *= factor**multiplicity
    for factor, multiplicity in below:
        r *= factor**multiplicity
    return GosperForm(p, content_q * q, content_r * r)


def _factors(poly: Poly) -> tuple[int, list[tuple[Poly, int]]]:
    content, factors = poly.factor()
    return int(content), [(factor, int(multiplicity)) for factor, multiplicity in factors]


def _shift_between(ring: Ring, f: Poly, g: Poly, k: str) -> int | None:
    """Return the whole j with ``f(k) = ± g(k + j)``, None if there is none."""
    degree = ring.degree(f, k)
    if degree < 1 or degree != ring.degree(g, k):
        return None
    if f == g:
        return 0
    a, b = ring.coefficients(f, k), ring.coefficients(g, k)
    lead = a[degree]
    if lead != b[degree] and lead != -b[degree]:
        return None
    # f_{d-1} / f_d = g_{d-1} / g_d + d j
    difference = a.get(degree - 1, ring.zero) * b[degree] - b.get(degree - 1, ring.zero) * lead
    quotient, remainder = divmod(difference, degree * lead * b[degree])
    if remainder != 0 or not quotient.is_constant():
        return None
    shift = int(quotient.leading_coefficient())
    moved = ring.shift(g, k, shift)
    return shift if moved in (f, -f) else None


def degree_bound(ring: Ring, form: GosperForm, degree: int, k: str) -> int:
    """Return the highest degree in k that a solution x of Gosper's equation can have.

    The equation is ``c = q(k) x(k+1) - r(k-1) x(k)``; a negative answer means: no solution.

    Args:
        ring: Holds the polynomials.
        form: Gives q and r.
        degree: The degree of c in k.
        k: The variable.
    """
    lower = ring.shift(form.r, k, -1)
    difference, total = form.q - lower, form.q + lower
    low, high = ring.degree(difference, k), ring.degree(total, k)
    if low >= high:
        return degree - low
    bounds = [degree - high + 1]
    # The leading coefficient of the right side vanishes at one degree, if that is whole.
    num = -2 * ring.coefficients(difference, k).get(high - 1, ring.zero)
    special = ring.lowest_terms(num, ring.coefficients(total, k)[high])
    if special.num == 0:
        bounds.append(0)
    elif special.num.is_constant() and special.den == 1:
        bounds.append(int(special.num.leading_coefficient()))
    return max(bounds)
