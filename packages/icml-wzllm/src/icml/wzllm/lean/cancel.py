"""Cancelling the leading coefficient of a recurrence in Lean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from icml.wzllm.lean.equation import prove_equation
from icml.wzllm.lean.factors import Point, nat_succ, nm
from icml.wzllm.lean.summand import Unprintable
from icml.wzllm.lean.terms import Atom, Frame, Num, Term, Times, succ
from icml.wzllm.ring import Poly, Ring


@dataclass(frozen=True)
class Cancel:
    """A coefficient as a product of positive numbers and of ``n + b``."""

    number: int
    offsets: tuple[int, ...]
    """The b of each factor."""

    @property
    def from_one(self) -> bool:
        """Whether it is positive for n >= 1 only."""
        return 0 in self.offsets

    def proof(self, coefficient: Callable[[Point], Term], n: Point) -> str:
        """Prove that it can be cancelled at n, or at n + 1 where it vanishes at 0.

        The proof uses ``a``, ``b`` and ``h : coefficient * a = coefficient * b``.
        """
        at = n.next() if self.from_one else n
        more = int(self.from_one)
        number = nm(n.lean)
        factors: list[tuple[Term, str]] = []
        if self.number != 1:
            factors.append((Num(self.number), str(self.number - 1)))
        for offset in self.offsets:
            up = offset + more
            term = reduce(lambda inner, _: succ(inner), range(up), number)
            factors.append((term, reduce(lambda inner, _: nat_succ(inner), range(up - 1), n.lean)))
        a, b = Atom("a"), Atom("b")
        sides = [(a, b)]
        for term, _ in reversed(factors):
            left, right = sides[-1]
            sides.append((Times(term, left), Times(term, right)))
        left, right = sides[-1]
        value = coefficient(at)
        proof = (
            f"(via {prove_equation(left, Times(value, a))} "
            f"(via h {prove_equation(Times(value, b), right)}))"
        )
        frame = Frame([left, right])
        for (_, thin), pair in zip(factors, reversed(sides[:-1]), strict=True):
            values = " ".join(f"(Ex.val Z {frame.env} {frame.ex(side)})" for side in pair)
            proof = f"(zThin {thin} {values} {proof})"
        return proof


def cancellation(ring: Ring, coefficient: Poly, n: str) -> Cancel:
    """Take a leading coefficient apart.

    Raises:
        Unprintable: If it isn't a product of that kind.
    """
    content, factors = coefficient.factor()
    offsets: list[int] = []
    for factor, multiplicity in factors:
        form = ring.linear(factor)
        fits = form is not None and form.constant >= 0 and ring.slope(form, n) == 1
        if form is None or not fits or sum(map(abs, form.slopes)) != 1:
            raise Unprintable(f"cancel: the leading coefficient {coefficient} is positive")
        offsets += [form.constant] * int(multiplicity)
    if int(content) < 0:
        raise Unprintable(f"cancel: the leading coefficient {coefficient} is positive")
    return Cancel(int(content), tuple(offsets))
