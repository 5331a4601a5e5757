"""Factors of a hypergeometric term that the printer knows, and what the base says of each."""

from __future__ import annotations

from dataclasses import dataclass

from icml.wzllm.lean.equation import Relation
from icml.wzllm.lean.terms import MINUS_ONE, Atom, Num, Plus, Term, Times, lean, succ

ZERO = "Nat.zero"


def nat_succ(number: str) -> str:
    """Return the natural number after ``number`` in Lean."""
    return f"(Nat.succ {number})"


def nm(number: str) -> Atom:
    """Return a natural number of Lean as a whole one."""
    return Atom(f"(Z.nm {number})")


@dataclass(frozen=True)
class Point:
    """A natural number in Lean, and as a ring element."""

    lean: str
    term: Term

    def next(self) -> Point:
        """Return the number after it."""
        return Point(nat_succ(self.lean), succ(self.term))


@dataclass(frozen=True)
class Base:
    """The base of a power: a number, a variable, or 1 plus a variable."""

    number: int
    variable: str = ""
    is_nat: bool = False
    """Whether the variable is a natural number in Lean; else a whole one."""

    @property
    def term(self) -> Term:
        """The base as a ring element."""
        if not self.variable:
            return MINUS_ONE if self.number == -1 else Num(self.number)
        variable = nm(self.variable) if self.is_nat else Atom(self.variable)
        return Plus(Num(self.number), variable) if self.number else variable


@dataclass(frozen=True)
class RowBinomial:
    """``binomial(n, k)``, or ``binomial(m, k)`` with a parameter m."""

    upper: str = ""
    """The parameter; the shifted variable itself if empty."""

    def at(self, n: str, k: str) -> Atom:
        """Return the factor at natural numbers of Lean."""
        return Atom(f"(ch Z {self.upper or n} {k})")

    def step_both(self, n: str, k: str) -> list[Relation]:
        """Relate the values at (n+1, k+1) and (n, k+1) to the one at (n, k)."""
        here, right = self.at(n, k), self.at(n, nat_succ(k))
        both = self.at(nat_succ(n), nat_succ(k))
        upper = self.upper or n
        next_k = Relation(
            right,
            f"(step Z {upper} {k})",
            Plus(Times(succ(nm(k)), right), Times(nm(k), here)),
            Times(nm(upper), here),
            succ(nm(k)),
            k,
        )
        if self.upper:
            return [next_k]
        return [Relation(both, f"(pascal Z {n} {k})", both, Plus(here, right)), next_k]

    def at_zero(self, n: str) -> list[Relation]:
        """Give the value at k = 0."""
        here = self.at(n, ZERO)
        return [Relation(here, f"(chNone Z {self.upper or n})", here, Num(1))]


@dataclass(frozen=True)
class PowerOf:
    """``base^k`` or ``base^n``."""

    base: Base
    in_k: bool

    def at(self, n: str, k: str) -> Atom:
        """Return the factor at natural numbers of Lean."""
        return Atom(f"(pw Z {lean(self.base.term)} {k if self.in_k else n})")

    def step_both(self, n: str, k: str) -> list[Relation]:
        """Relate the values one step ahead in the exponent to the present one."""
        here = self.at(n, k)
        ahead = self.at(n, nat_succ(k)) if self.in_k else self.at(nat_succ(n), k)
        return [Relation(ahead, "Eq.refl", ahead, Times(here, self.base.term))]

    def at_zero(self, n: str) -> list[Relation]:
        """Give the value at k = 0, where that is known."""
        here = self.at(n, ZERO)
        return [Relation(here, "Eq.refl", here, Num(1))] if self.in_k or n == ZERO else []


@dataclass(frozen=True)
class CentralBinomial:
    """``binomial(2 n, n)``."""

    def at(self, n: str, k: str) -> Atom:
        """Return the factor at a natural number of Lean."""
        return Atom(f"(ch Z (dbl {n}) {n})")

    def step_both(self, n: str, k: str) -> list[Relation]:
        """Relate the value at n+1 to the one at n."""
        here, ahead, number = self.at(n, k), self.at(nat_succ(n), k), nm(n)
        return [
            Relation(
                ahead,
                f"(central {n})",
                Times(succ(number), ahead),
                Times(Num(2), Times(succ(Times(Num(2), number)), here)),
                succ(number),
                n,
            )
        ]

    def at_zero(self, n: str) -> list[Relation]:
        """Give the value at n = 0."""
        here = self.at(n, ZERO)
        return [Relation(here, "Eq.refl", here, Num(1))] if n == ZERO else []


@dataclass(frozen=True)
class ShiftedBinomial:
    """``binomial(n + m, n)`` with a parameter m."""

    parameter: str

    def at(self, n: str, k: str) -> Atom:
        """Return the factor at a natural number of Lean."""
        return Atom(f"(ch Z (Nat.add {self.parameter} {n}) {n})")

    def step_both(self, n: str, k: str) -> list[Relation]:
        """Relate the value at n+1 to the one at n."""
        here, ahead = self.at(n, k), self.at(nat_succ(n), k)
        upper = f"(Nat.add {self.parameter} {n})"
        absorbed = Relation(
            ahead,
            f"(absorb Z {upper} {n})",
            Times(succ(nm(n)), ahead),
            Times(succ(nm(upper)), here),
            succ(nm(n)),
            n,
        )
        added = Relation(
            nm(upper),
            f"(nmAdd Z {self.parameter} {n})",
            nm(upper),
            Plus(nm(self.parameter), nm(n)),
        )
        return [absorbed, added]

    def at_zero(self, n: str) -> list[Relation]:
        """Give the value at n = 0."""
        here = self.at(n, ZERO)
        proof = f"(chNone Z (Nat.add {self.parameter} Nat.zero))"
        return [Relation(here, proof, here, Num(1))] if n == ZERO else []


Factor = RowBinomial | PowerOf | CentralBinomial | ShiftedBinomial
