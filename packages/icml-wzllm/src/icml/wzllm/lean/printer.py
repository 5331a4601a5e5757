"""From a certificate to a Lean proof on the base: no division, no axiom.

Printed is ``sum_{k=0}^{n} F(n,k) = T(n)`` with a recurrence ``p f(n+1) = q f(n)`` of order 1. With
``H(k) = G(n,k+1) = U(n,k)`` times the factors of F, and ``U = U⁺ - U⁻``, the obligations are

- *hop*: ``p F(n+1,k+1) + U⁺(k) + U⁻(k+1) = q F(n,k+1) + U⁺(k+1) + U⁻(k)``, *start*: the same before
  the first k, *last*: ``F(n,n+1) = 0``, *final*: ``U⁺(n+1) = U⁻(n+1)``;
- *closed*: ``p T(n+1) = q T(n)``, *cancel*: ``p a = p b`` gives ``a = b``;
- *zero*: ``F(0,0) = T(0)``.

Where p vanishes at n = 0 alone, the sums are compared from n = 1 on (*one*).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd

from icml.wzllm.certificate import Certificate
from icml.wzllm.expressions import Integer, Name, has_sum, to_text
from icml.wzllm.lean.cancel import Cancel, cancellation
from icml.wzllm.lean.equation import Relation, Unproved, prove_equation
from icml.wzllm.lean.factors import ZERO, Factor, Point, RowBinomial, nat_succ, nm
from icml.wzllm.lean.readback import Unfaithful, how_restated
from icml.wzllm.lean.summand import (
    Unprintable,
    Variables,
    read_product,
    whole_parameters,
)
from icml.wzllm.lean.template import proof_text
from icml.wzllm.lean.terms import Atom, Num, Plus, Term, Times, from_poly, lean, product
from icml.wzllm.reading import to_term
from icml.wzllm.ring import Poly, Ring
from icml.wzllm.shape import reshape
from icml.wzllm.statement import Identity
from icml.wzllm.terms import shift_quotient
from icml.wzllm.verification import read_claim

__all__ = ["LeanProof", "Unprintable", "print_proof"]

_SAFE = re.compile(r"[a-z]")


@dataclass(frozen=True)
class LeanProof:
    """A proof as Lean text, not yet checked by anyone."""

    text: str
    """Declarations for :meth:`icml.wzllm.kernel.Kernel.check`."""
    theorem: str
    statement: str
    """The proposition that the theorem states, in the base's words."""
    rewritings: tuple[str, ...]
    """How the statement differs from the identity; none if it says the same word by word."""

    @property
    def verbatim(self) -> bool:
        """Whether the statement is the identity itself."""
        return not self.rewritings


def print_proof(
    certificate: Certificate,
    identity: Identity,
    *,
    theorem: str = "identity",
    means: Identity | None = None,
) -> LeanProof:
    """Print the proof that a certificate gives.

    Args:
        certificate: Not believed: a wrong one is refused here or by the kernel.
        identity: What is to be proved; the certificate's own or the same.
        theorem: Name of the theorem, letters and digits.
        means: The identity that the statement must say, if ``identity`` is that one multiplied by
            something.

    Raises:
        Unprintable: If the printer can't do an obligation; names it.
    """
    try:
        return _Printer(certificate, identity).proof(theorem, means or identity)
    except Unprintable:
        # The shorter proofs first; what they can't say, the wider class often can.
        from icml.wzllm.lean.wide import print_wide

        return print_wide(certificate, identity, theorem=theorem, means=means or identity)


class _Printer:
    """The parts of one proof."""

    def __init__(self, certificate: Certificate, identity: Identity) -> None:
        self._read(certificate, identity)
        self._recurrence()

    def _read(self, certificate: Certificate, identity: Identity) -> None:
        self.identity = identity
        shape = reshape(identity)
        self.claim = claim = read_claim(certificate, shape)
        if has_sum(shape.other):
            raise Unprintable("a statement with sums on both sides")
        if claim.order != 1:
            raise Unprintable(f"a recurrence of order {claim.order}")
        if (shape.sum.low, shape.sum.high) != (Integer(0), Name(claim.n)):
            limits = f"{to_text(shape.sum.low)} to {to_text(shape.sum.high)}"
            raise Unprintable(f"a sum from {limits}; only 0 to {claim.n}")
        for name in claim.ring.names:
            if not _SAFE.fullmatch(name):
                raise Unprintable(f"a statement with the variable {name}; only single letters")
        sides = (shape.sum.body, shape.other)
        whole = whole_parameters(claim.ring, claim.k, claim.n, sides)
        self.variables = Variables(claim.ring, claim.k, claim.n, whole)
        self.summand = read_product(shape.sum.body, self.variables)
        self.closed = read_product(shape.other, self.variables)
        self._clear_denominators()

    def _clear_denominators(self) -> None:
        one, other = self.summand, self.closed
        scale = abs(one.den * other.den // gcd(one.den, other.den))
        for side in (one, other):
            side.num, side.den = side.num * (scale // side.den), 1

    def _recurrence(self) -> None:
        """Move denominators free of k from U into p and q."""
        claim, ring = self.claim, self.claim.ring
        a0, a1 = claim.recurrence
        term = to_term(ring, claim.shape.sum.body, frozenset((claim.k, claim.n)))
        step = shift_quotient(ring, term, claim.k)
        ratio = [ring.shift(part, claim.k, 1) for part in claim.ratio]
        up, down = ring.lowest_terms(ratio[0] * step.num * self.summand.num, ratio[1] * step.den)
        if ring.degree(down, claim.k) > 0:
            raise Unprintable(f"hop: the denominator {down} isn't free of {claim.k}")
        if int((a1 * down).leading_coefficient()) < 0:
            up, down = -up, -down
        self.p, self.q = a1 * down, -a0 * down
        self.up, self.down = split_signs(ring, up)
        self.cancel: Cancel = cancellation(ring, self.p, claim.n)

    # --- values at points -------------------------------------------------------------------

    def _leaves(self, n: Term, k: Term) -> list[Term]:
        """Return what stands for each variable of the ring."""
        fixed = {self.claim.k: k, self.claim.n: n}
        whole = self.variables.whole
        return [
            fixed.get(name) or (_atom(name) if name in whole else nm(name))
            for name in self.claim.ring.names
        ]

    def _value(self, poly: Poly, factors: Sequence[Factor], n: Point, k: Point) -> Term:
        """Return ``poly`` times factors at a point, always of the same shape."""
        written = from_poly(poly, self._leaves(n.term, k.term))
        parts: list[Term] = [factor.at(n.lean, k.lean) for factor in factors]
        if not parts:
            return written
        return product(parts) if poly == 1 else Times(written, product(parts))

    def f(self, n: Point, k: Point) -> Term:
        """The summand."""
        return self._value(self.summand.num, self.summand.factors, n, k)

    def u(self, n: Point, k: Point) -> Term:
        """The positive part of U."""
        return self._value(self.up, self.summand.factors, n, k)

    def d(self, n: Point, k: Point) -> Term:
        """The negative part of U."""
        return self._value(self.down, self.summand.factors, n, k)

    def t(self, n: Point) -> Term:
        """The closed form."""
        return self._value(self.closed.num, self.closed.factors, n, AT_ZERO)

    def coefficient(self, poly: Poly, n: Point) -> Term:
        """A coefficient of the recurrence."""
        return from_poly(poly, self._leaves(n.term, Num(0)))

    # --- obligations ------------------------------------------------------------------------

    def obligations(self) -> dict[str, Callable[[], str]]:
        """Return how each obligation is proved, by its name."""
        n, k = _variable(self.claim.n), _variable(self.claim.k)
        n1, k1 = n.next(), k.next()
        p, q = self.coefficient(self.p, n), self.coefficient(self.q, n)
        u, d, f, t = self.u, self.d, self.f, self.t
        summand = self.summand.factors
        return {
            "hop": lambda: prove_equation(
                Plus(Times(p, f(n1, k1)), Plus(u(n, k), d(n, k1))),
                Plus(Times(q, f(n, k1)), Plus(u(n, k1), d(n, k))),
                _steps(summand, n, k),
            ),
            "start": lambda: prove_equation(
                Plus(Times(p, f(n1, AT_ZERO)), d(n, AT_ZERO)),
                Plus(Times(q, f(n, AT_ZERO)), u(n, AT_ZERO)),
                [*_starts(summand, n), *_starts(summand, n1), *_steps(summand, n, AT_ZERO)],
            ),
            "last": lambda: prove_equation(f(n, n1), Num(0), _ends(summand, n)),
            "final": lambda: prove_equation(u(n, n1), d(n, n1), _ends(summand, n)),
            "closed": lambda: prove_equation(
                Times(p, t(n1)), Times(q, t(n)), _steps(self.closed.factors, n, AT_ZERO)
            ),
            "cancel": lambda: self.cancel.proof(lambda at: self.coefficient(self.p, at), n),
            "zero": lambda: prove_equation(f(AT_ZERO, AT_ZERO), t(AT_ZERO), self._at_zero()),
            "one": self._one,
        }

    def _at_zero(self) -> list[Relation]:
        return _starts([*self.summand.factors, *self.closed.factors], AT_ZERO)

    def _one(self) -> str:
        if not self.cancel.from_one:
            return ""
        one = AT_ZERO.next()
        factors = [*self.summand.factors, *self.closed.factors]
        known = [*_steps(factors, AT_ZERO, AT_ZERO), *_starts(factors, one), *self._at_zero()]
        left = Plus(self.f(one, AT_ZERO), self.f(one, one))
        return prove_equation(left, self.t(one), [*known, ZERO_RELATION])

    # --- the text ---------------------------------------------------------------------------

    def proof(self, theorem: str, means: Identity) -> LeanProof:
        """Put everything together."""
        n, k = _variable(self.claim.n), _variable(self.claim.k)
        proofs: dict[str, str] = {}
        for name, prove in self.obligations().items():
            try:
                proofs[name] = prove()
            except Unproved as error:
                raise Unprintable(f"{name}: {error}") from None
        whole = self.variables.whole
        binders = [
            f"({name} : {'Whole' if name in whole else 'Nat'})"
            for name in self.variables.parameters
        ]
        summed = f"(sumTo Z (fun {k.lean} => {lean(self.f(n, k))}) {n.lean})"
        conclusion = f"Eq {summed} {lean(self.t(n))}"
        text = proof_text(
            name=theorem,
            binders="".join(f" {binder}" for binder in binders),
            arguments="".join(f" {name}" for name in self.variables.parameters),
            n=n.lean,
            k=k.lean,
            definitions={
                "F": lean(self.f(n, k)),
                "T": lean(self.t(n)),
                "U": lean(self.u(n, k)),
                "D": lean(self.d(n, k)),
                "P": lean(self.coefficient(self.p, n)),
                "Q": lean(self.coefficient(self.q, n)),
            },
            proofs=proofs,
            conclusion=conclusion,
        )
        statement = " → ".join([*binders, f"({n.lean} : Nat)", conclusion])
        try:
            rewritings = how_restated(statement, means)
        except Unfaithful as error:
            raise Unprintable(f"the statement itself: {error}") from None
        return LeanProof(text, theorem, statement, rewritings)


def split_signs(ring: Ring, poly: Poly) -> tuple[Poly, Poly]:
    """Return two polynomials with positive coefficients whose difference is ``poly``."""
    variables = [ring.variable(name) for name in ring.names]
    parts = [ring.zero, ring.zero]
    for powers, coefficient in ring.monomials(poly).items():
        monomial = ring.constant(abs(coefficient))
        for variable, power in zip(variables, powers, strict=True):
            monomial *= variable**power
        parts[coefficient < 0] += monomial
    return parts[0], parts[1]


AT_ZERO = Point(ZERO, Num(0))
ZERO_RELATION = Relation(nm(ZERO), "Eq.refl", nm(ZERO), Num(0))


def _variable(name: str) -> Point:
    return Point(name, nm(name))


def _atom(name: str) -> Term:
    return Atom(name)


def _steps(factors: Sequence[Factor], n: Point, k: Point) -> list[Relation]:
    return [
        relation
        for factor in dict.fromkeys(factors)
        for relation in factor.step_both(n.lean, k.lean)
    ]


def _starts(factors: Sequence[Factor], n: Point) -> list[Relation]:
    return [relation for factor in dict.fromkeys(factors) for relation in factor.at_zero(n.lean)]


def _ends(factors: Sequence[Factor], n: Point) -> list[Relation]:
    """Give the value just above the range."""
    row = RowBinomial()
    if row not in factors:
        raise Unprintable(f"last: no factor binomial({n.lean}, k) ends the range")
    beyond = row.at(n.lean, nat_succ(n.lean))
    return [Relation(beyond, f"(chTop Z {n.lean})", beyond, Num(0))]
