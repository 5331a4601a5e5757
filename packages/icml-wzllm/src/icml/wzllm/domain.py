"""What is known about the variables, and the values of n at which that isn't enough.

All variables are whole and 0 or more. A parameter that occurs rationally is first treated as a
*generic* real number: no factorial of it has a pole, and both sides are continuous in it, so that
an identity for almost all values is one for the whole ones. Those that decide how many terms a
sum has, or stand in an exponent, are *whole* from the beginning.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import NamedTuple

from icml.wzllm.ring import Linear, Poly, Ring

__all__ = ["Domain", "Undetermined"]

MAX_EXCEPTIONS = 40  # values of n that are checked one by one, ours


class Undetermined(ValueError):
    """An obligation that could not be decided; the message names it."""


class _Sign(NamedTuple):
    nonnegative: bool
    exceptions: range


class Domain:
    """Decides signs of linear forms and zeros of polynomials, but for finitely many n.

    Those n are collected in :attr:`exceptions`.
    """

    def __init__(self, ring: Ring, n: str | None, whole: Iterable[str]) -> None:
        """Say which variables are whole numbers from the beginning.

        Args:
            ring: Has all variables.
            n: The variable of the recurrence, None once it has a value.
            whole: The summation variable and the parameters that are whole.
        """
        self.ring = ring
        self.n = n
        self.whole = frozenset(whole) | ({n} if n else set())
        self.exceptions: set[int] = set()

    def is_generic(self, form: Linear) -> bool:
        """Say whether a parameter that stands for any real number occurs."""
        pairs = zip(self.ring.names, form.slopes, strict=True)
        return any(slope and name not in self.whole for name, slope in pairs)

    def is_proper(self, form: Linear, multiplicity: int) -> bool:
        """Say whether ``form!^multiplicity`` is finite and ``(form+1)! = (form+1) form!`` holds.

        So it is for a generic form; and for ``1 / form!``, which is 0 for a negative form, where
        the sign of a whole form depends on the variables.
        """
        return self.is_generic(form) or (multiplicity < 0 and self._sign(form) is None)

    def nonnegative(self, form: Linear) -> bool:
        """Say whether ``form >= 0`` for all n but exceptions, or ``form < 0`` for all of them.

        Raises:
            Undetermined: If neither can be shown.
        """
        sign = self._sign(form)
        if sign is None:
            raise Undetermined(f"the sign of {self.ring.polynomial(form)} depends on the variables")
        self._except(sign.exceptions)
        return sign.nonnegative

    def is_surely_nonnegative(self, form: Linear) -> bool:
        """Say whether ``form >= 0`` without any exception."""
        return form.constant >= 0 and all(slope >= 0 for slope in form.slopes)

    def _sign(self, form: Linear) -> _Sign | None:
        slope = self.ring.slope(form, self.n) if self.n else 0
        if all(a >= 0 for a in form.slopes):
            if form.constant >= 0:
                return _Sign(True, range(0))
            if slope:
                return _Sign(True, range(-(form.constant // slope)))
        if all(a <= 0 for a in form.slopes):
            if form.constant < 0:
                return _Sign(False, range(0))
            if slope:
                return _Sign(False, range(form.constant // -slope + 1))
        return None

    def _except(self, values: Iterable[int]) -> None:
        self.exceptions.update(values)
        if len(self.exceptions) > MAX_EXCEPTIONS:
            raise Undetermined(f"more than {MAX_EXCEPTIONS} values of {self.n} are special")

    def require_nonzero(self, poly: Poly, k: str | None, what: str) -> None:
        """Except every n at which a polynomial is 0 for all k and all generic parameters.

        Raises:
            Undetermined: If it isn't known at which n that is so.
        """
        roots: set[int] | None = None
        for coefficient in self._whole_coefficients(poly, k):
            found = self._roots(coefficient)
            if found is not None:
                roots = found if roots is None else roots & found
                if not roots:
                    return
        if roots is None:
            raise Undetermined(f"it isn't known where {what} is 0")
        self._except(roots)

    def _whole_coefficients(self, poly: Poly, k: str | None) -> list[dict[tuple[int, ...], int]]:
        """Split into coefficients, as {monomial: number}, of the powers of what isn't whole."""
        names = self.ring.names
        free = [i for i, name in enumerate(names) if name == k or name not in self.whole]
        parts: dict[tuple[int, ...], dict[tuple[int, ...], int]] = {}
        for powers, number in self.ring.monomials(poly).items():
            key = tuple(powers[i] for i in free)
            rest = tuple(0 if i in free else power for i, power in enumerate(powers))
            parts.setdefault(key, {})[rest] = number
        return list(parts.values())

    def _roots(self, part: dict[tuple[int, ...], int]) -> set[int] | None:
        """Return every whole n >= 0 at which it may be 0, None if they aren't known."""
        index = self.ring.names.index(self.n) if self.n else -1
        of_n_alone = [sum(powers) == (powers[index] if self.n else 0) for powers in part]
        if len({number > 0 for number in part.values()}) == 1 and any(of_n_alone):
            constant = part.get((0,) * len(self.ring.names), 0)
            return set() if constant else {0}
        if all(of_n_alone):
            return _whole_roots({powers[index]: number for powers, number in part.items()})
        return None

    def misses_zero(self, form: Linear) -> bool:
        """Say whether a common divisor keeps a linear form from ever being 0, as in 2 k - 1."""
        divisor = gcd(*form.slopes)
        return divisor != 0 and form.constant % divisor != 0


def _whole_roots(coefficients: dict[int, int]) -> set[int]:
    """Return the whole roots, 0 or more, of a polynomial given by its coefficients."""
    from flint import fmpz_poly

    dense = [coefficients.get(i, 0) for i in range(max(coefficients) + 1)]
    roots = set()
    for factor, _ in fmpz_poly(dense).factor()[1]:
        if factor.degree() == 1 and -factor[0] % factor[1] == 0 and -factor[0] // factor[1] >= 0:
            roots.add(int(-factor[0] // factor[1]))
    return roots
