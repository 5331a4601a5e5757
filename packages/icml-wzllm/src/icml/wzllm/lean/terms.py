"""Elements of a ring in Lean, as trees that can be printed in three ways.

As Lean text; as text for the base's reflected normaliser ``Ex``, whose value is that Lean text by
definition; and as a polynomial in the atoms, with which Python finds what the normaliser checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from flint import fmpz_mpoly, fmpz_mpoly_ctx


@dataclass(frozen=True, slots=True)
class Atom:
    """A Lean text of which nothing is known but what relations say."""

    lean: str


@dataclass(frozen=True, slots=True)
class Num:
    """A natural number."""

    value: int


@dataclass(frozen=True, slots=True)
class One:
    """The ring's own 1, as in the successor of a number."""


@dataclass(frozen=True, slots=True)
class Plus:
    """A sum."""

    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class Times:
    """A product."""

    left: Term
    right: Term


Term = Atom | Num | One | Plus | Times

MINUS_ONE = Atom("minusOne")


def succ(term: Term) -> Term:
    """Return ``term + 1``, by definition the number after ``term``."""
    return Plus(term, One())


def product(terms: Sequence[Term]) -> Term:
    """Multiply, nested to the right; 1 for nothing."""
    if not terms:
        return Num(1)
    return reduce(lambda rest, term: Times(term, rest), reversed(terms[:-1]), terms[-1])


def total(terms: Sequence[Term]) -> Term:
    """Add, nested to the right; 0 for nothing."""
    if not terms:
        return Num(0)
    return reduce(lambda rest, term: Plus(term, rest), reversed(terms[:-1]), terms[-1])


def from_poly(poly: fmpz_mpoly, leaves: Sequence[Term]) -> Term:
    """Write a polynomial in the order of its monomials, a leaf for each of its variables.

    Equal polynomials give trees of one shape, whatever the leaves; negative coefficients are
    written with ``minusOne``.
    """
    monomials: list[Term] = []
    for powers, coefficient in poly.to_dict().items():
        number = int(coefficient)
        factors: list[Term] = [MINUS_ONE] if number < 0 else []
        factors += [Num(abs(number))] if abs(number) != 1 else []
        factors += [leaf for leaf, power in zip(leaves, powers, strict=False) for _ in range(power)]
        monomials.append(product(factors))
    return total(monomials)


def lean(term: Term) -> str:
    """Return the term as Lean text over the whole numbers."""
    match term:
        case Atom(text):
            return text
        case Num(value):
            return f"(Z.nm {value})" if value else "(Whole.pos Nat.zero)"
        case One():
            return "(Whole.pos (Nat.succ Nat.zero))"
        case Plus(left, right):
            return f"(wAdd {lean(left)} {lean(right)})"
        case Times(left, right):
            return f"(wMul {lean(left)} {lean(right)})"


def atoms(terms: Iterable[Term]) -> Iterator[Atom]:
    """Yield the atoms from left to right, each as often as it occurs."""
    for term in terms:
        match term:
            case Atom():
                yield term
            case Plus(left, right) | Times(left, right):
                yield from atoms((left, right))


def put(term: Term, atom: Atom, value: Term) -> Term:
    """Put a term in place of an atom."""
    match term:
        case Plus(left, right):
            return Plus(put(left, atom, value), put(right, atom, value))
        case Times(left, right):
            return Times(put(left, atom, value), put(right, atom, value))
    return value if term == atom else term


class Frame:
    """Numbers for some atoms: what an ``Ex`` and a polynomial are written in."""

    def __init__(self, terms: Iterable[Term]) -> None:
        """Number the atoms of some terms."""
        self._names = tuple(dict.fromkeys(atoms(terms)))
        self._index = {atom: i for i, atom in enumerate(self._names)}
        names = tuple(f"v{i}" for i in range(max(1, len(self._names))))
        self.context = fmpz_mpoly_ctx.get(names, "lex")
        self._gens = self.context.gens()

    @property
    def names(self) -> tuple[Atom, ...]:
        """The atoms, in the order of the polynomials' variables."""
        return self._names

    @property
    def env(self) -> str:
        """The atoms as Lean's ``Env``."""
        return reduce(
            lambda rest, atom: f"(Env.cons {atom.lean} {rest})", reversed(self._names), "Env.nil"
        )

    def ex(self, term: Term) -> str:
        """Return the term as an ``Ex``."""
        match term:
            case Atom():
                return f"(Ex.at {self._index[term]})"
            case Num(value):
                return f"(Ex.num {value or 'Nat.zero'})"
            case One():
                return "Ex.one"
            case Plus(left, right):
                return f"(Ex.add {self.ex(left)} {self.ex(right)})"
            case Times(left, right):
                return f"(Ex.mul {self.ex(left)} {self.ex(right)})"

    def sx(self, term: Term) -> str:
        """Return the term as an ``Sx``, in which ``minusOne`` is no atom."""
        match term:
            case Atom():
                return "Sx.neg" if term == MINUS_ONE else f"(Sx.at {self._index[term]})"
            case Num(value):
                return f"(Sx.num {value or 'Nat.zero'})"
            case One():
                return "Sx.one"
            case Plus(left, right):
                return f"(Sx.add {self.sx(left)} {self.sx(right)})"
            case Times(left, right):
                return f"(Sx.mul {self.sx(left)} {self.sx(right)})"

    def poly(self, term: Term) -> fmpz_mpoly:
        """Return the term as a polynomial."""
        match term:
            case Atom():
                return self._gens[self._index[term]]
            case Num(value):
                return self.context.constant(value)
            case One():
                return self.context.constant(1)
            case Plus(left, right):
                return self.poly(left) + self.poly(right)
            case Times(left, right):
                return self.poly(left) * self.poly(right)

    def degree(self, poly: fmpz_mpoly, atom: Atom) -> int:
        """Return the degree in an atom; -1 for 0."""
        return -1 if poly == 0 else int(poly.degrees()[self._index[atom]])

    def leading(self, poly: fmpz_mpoly, atom: Atom) -> fmpz_mpoly:
        """Return the terms of highest degree in an atom, divided by that atom once."""
        index, degree = self._index[atom], self.degree(poly, atom)
        return self.context.from_dict(
            {
                (*powers[:index], degree - 1, *powers[index + 1 :]): coefficient
                for powers, coefficient in poly.to_dict().items()
                if powers[index] == degree
            }
        )

    def signed_ex(self, poly: fmpz_mpoly) -> tuple[str | None, str | None]:
        """Return the parts with positive and with negative coefficients, both made positive."""
        parts: list[str | None] = []
        for sign in (1, -1):
            part = {p: sign * c for p, c in poly.to_dict().items() if sign * int(c) > 0}
            written = from_poly(self.context.from_dict(part), self._names) if part else None
            parts.append(None if written is None else self.ex(written))
        return parts[0], parts[1]
