"""Hypergeometric terms: a rational function times factorials and powers of linear forms.

``num/den * product (form)!^multiplicity * product base^form`` with forms of integer coefficients.
``binomial(u, l) = u! / (l! (u-l)!)``. What such a formula means where a factorial has a negative
argument is decided in :mod:`icml.wzllm.limits` and :mod:`icml.wzllm.faithful`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from icml.wzllm.ring import Fraction, Linear, Poly, Ring

__all__ = [
    "Term",
    "as_fraction",
    "combined",
    "shift_quotient",
    "shifted",
    "vanishes",
    "with_factorial",
    "with_power",
]


@dataclass(frozen=True)
class Term:
    """One hypergeometric term; treated as immutable."""

    num: Poly
    den: Poly
    factorials: Mapping[Linear, int] = field(default_factory=dict)
    """Multiplicity of each factorial, by argument."""
    powers: Mapping[str, tuple[Poly, Linear]] = field(default_factory=dict)
    """Base and exponent, by the base's text; bases are primes, -1 and irreducible polynomials."""

    @property
    def is_rational(self) -> bool:
        """Whether it is a rational function."""
        return not self.factorials and not self.powers

    def times(self, other: Term, power: int = 1) -> Term:
        """Multiply by ``other^power`` with power 1 or -1."""
        num, den = (other.num, other.den) if power > 0 else (other.den, other.num)
        factorials = dict(self.factorials)
        for form, multiplicity in other.factorials.items():
            with_factorial(factorials, form, power * multiplicity)
        powers = dict(self.powers)
        for base, exponent in other.powers.values():
            with_power(powers, base, exponent.times(power))
        return Term(self.num * num, self.den * den, factorials, powers)

    def scaled(self, num: Poly | int, den: Poly | int = 1) -> Term:
        """Multiply by a rational function."""
        return replace(self, num=self.num * num, den=self.den * den)


def with_factorial(factorials: dict[Linear, int], form: Linear, multiplicity: int) -> None:
    """Multiply by ``form!^multiplicity``, in place."""
    total = factorials.get(form, 0) + multiplicity
    if total:
        factorials[form] = total
    else:
        factorials.pop(form, None)


def with_power(powers: dict[str, tuple[Poly, Linear]], base: Poly, exponent: Linear) -> None:
    """Multiply by ``base^exponent``, in place."""
    key = str(base)
    if key in powers:
        exponent = powers[key][1] + exponent
    if exponent.is_constant and exponent.constant == 0:
        powers.pop(key, None)
    else:
        powers[key] = (base, exponent)


def shifted(ring: Ring, term: Term, name: str, by: int) -> Term:
    """Return the term with ``name + by`` in place of ``name``."""
    if by == 0:
        return term
    return Term(
        ring.shift(term.num, name, by),
        ring.shift(term.den, name, by),
        {f.plus(by * ring.slope(f, name)): m for f, m in term.factorials.items()},
        {k: (b, f.plus(by * ring.slope(f, name))) for k, (b, f) in term.powers.items()},
    )


def shift_quotient(ring: Ring, term: Term, name: str, by: int = 1) -> Fraction:
    """Return the rational function ``term(name + by) / term(name)``."""
    num = ring.shift(term.num, name, by) * term.den
    den = ring.shift(term.den, name, by) * term.num
    for form, multiplicity in term.factorials.items():
        step = by * ring.slope(form, name)
        product = _between(ring, form, step)
        if (multiplicity > 0) == (step > 0):
            num *= product ** abs(multiplicity)
        else:
            den *= product ** abs(multiplicity)
    for base, exponent in term.powers.values():
        step = by * ring.slope(exponent, name)
        if step > 0:
            num *= base**step
        elif step < 0:
            den *= base**-step
    return ring.lowest_terms(num, den)


def _between(ring: Ring, form: Linear, step: int) -> Poly:
    """Return (form + step)!/form! for a step up, form!/(form + step)! for a step down."""
    product = ring.one
    for i in range(1, step + 1) if step > 0 else range(step + 1, 1):
        product *= ring.polynomial(form.plus(i))
    return product


def as_fraction(ring: Ring, term: Term) -> Fraction | None:
    """Return a term whose factorials and powers cancel as a rational function, else None.

    Exponents of -1 count as whole numbers: only their parity matters.
    """
    num, den = term.num, term.den
    groups: dict[tuple[int, ...], list[tuple[Linear, int]]] = {}
    for form, multiplicity in term.factorials.items():
        groups.setdefault(form.slopes, []).append((form, multiplicity))
    for slopes, members in groups.items():
        lowest = min(form.constant for form, _ in members)
        if any(slopes):
            if sum(multiplicity for _, multiplicity in members):
                return None
        elif lowest < 0:
            return None
        else:
            lowest = 0
        for form, multiplicity in members:
            product = _between(ring, form.plus(lowest - form.constant), form.constant - lowest)
            num, den = _multiply(num, den, product, multiplicity)
    for base, exponent in term.powers.values():
        if base == -1:
            exponent = Linear(tuple(a % 2 for a in exponent.slopes), exponent.constant % 2)
        if not exponent.is_constant:
            return None
        num, den = _multiply(num, den, base, exponent.constant)
    return ring.lowest_terms(num, den)


def _multiply(num: Poly, den: Poly, factor: Poly, power: int) -> tuple[Poly, Poly]:
    return (num * factor**power, den) if power > 0 else (num, den * factor**-power)


def vanishes(ring: Ring, terms: Iterable[Term]) -> bool:
    """Say whether a sum of terms is 0: similar ones are added, and every total must be 0."""
    return not combined(ring, terms)


def combined(ring: Ring, terms: Iterable[Term]) -> list[Term]:
    """Return terms of the same sum, no two of them similar and none 0."""
    classes: list[tuple[Term, Fraction]] = []
    for term in terms:
        if term.num == 0:
            continue
        for i, (first, total) in enumerate(classes):
            quotient = as_fraction(ring, term.times(first, -1))
            if quotient is not None:
                num = total.num * quotient.den + quotient.num * total.den
                classes[i] = (first, ring.lowest_terms(num, total.den * quotient.den))
                break
        else:
            classes.append((term, Fraction(ring.one, ring.one)))
    found = []
    for first, total in classes:
        num, den = ring.lowest_terms(first.num * total.num, first.den * total.den)
        if num != 0:
            found.append(replace(first, num=num, den=den))
    return found
