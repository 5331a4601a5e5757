"""The plan of a proof as Lean text with named holes: what a prover, or a person, is given.

A sketch is never a proof: what fills its holes is judged by a kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from icml.core.errors import UserError
from icml.wzllm.certificate import Certificate
from icml.wzllm.expressions import Add, Expr, Integer, Name, has_sum, substitute
from icml.wzllm.lean.mathlib import NAT, RATIONAL, natural, rational
from icml.wzllm.lean.printer import print_proof
from icml.wzllm.lean.summand import Unprintable
from icml.wzllm.parser import parse
from icml.wzllm.reading import to_term
from icml.wzllm.ring import Poly
from icml.wzllm.shape import reshape
from icml.wzllm.statement import Identity
from icml.wzllm.terms import shift_quotient
from icml.wzllm.text import polynomial_text
from icml.wzllm.verification import read_claim

__all__ = ["Sketch", "Style", "SubGoal", "sketch"]

Style = Literal["prelude", "mathlib"]


@dataclass(frozen=True)
class SubGoal:
    """An obligation that is left."""

    name: str
    context: str
    """The definitions that the statement is in terms of, as Lean text."""
    statement: str


@dataclass(frozen=True)
class Sketch:
    """The plan of a proof."""

    text: str
    """Lean text; ``?name`` stands for the proof of a goal."""
    holes: tuple[SubGoal, ...]

    @property
    def is_proof(self) -> bool:
        """Whether nothing is left open; a kernel has still to check it."""
        return not self.holes

    def fill(self, proofs: Mapping[str, str]) -> Sketch:
        """Put proofs into holes.

        Args:
            proofs: A Lean tactic block for each goal's name.

        Raises:
            KeyError: If there is no such hole.
        """
        names = {goal.name for goal in self.holes}
        if unknown := set(proofs) - names:
            raise KeyError(f"no hole {sorted(unknown)[0]!r}; there are {', '.join(sorted(names))}")
        text = self.text
        for name, proof in proofs.items():
            text = text.replace(f"exact ?{name}\n", proof.strip().replace("\n", "\n    ") + "\n")
        return Sketch(text, tuple(goal for goal in self.holes if goal.name not in proofs))


def sketch(
    certificate: Certificate,
    identity: Identity,
    style: Style = "mathlib",
    *,
    name: str = "identity",
) -> Sketch:
    """Write the plan that a certificate gives.

    ``prelude`` gives the whole proof on our base, without holes. ``mathlib`` gives definitions of
    F and G over the rationals and one ``have`` for each obligation, every one of them a hole.
    Nothing is divided by a variable there: with ``H(n,k) = G(n,k+1) = U(n,k) F(n,k)`` and the
    denominator of U moved into the recurrence, G in the text is that H.

    Args:
        certificate: The recurrence and R.
        identity: What is to be proved.
        style: In whose words.
        name: Name of the theorem.

    Raises:
        UserError: If the statement can't be said in that style; the message says what.
    """
    if style == "prelude":
        try:
            return Sketch(print_proof(certificate, identity, theorem=name).text, ())
        except Unprintable as error:
            raise UserError(f"{error}: try the style mathlib") from None
    return _Mathlib(certificate, identity).sketch(name)


class _Mathlib:
    """The sketch in Mathlib's words."""

    def __init__(self, certificate: Certificate, identity: Identity) -> None:
        shape = reshape(identity)
        claim = read_claim(certificate, shape)
        if has_sum(shape.other):
            raise UserError("no sketch of a statement with sums on both sides")
        if shape.sum.low != Integer(0) or certificate.boundary != ("0",) or claim.order == 0:
            raise UserError(
                "no sketch of a sum that leaves something over at the ends of its range"
            )
        self.n, self.k, self.order = claim.n, claim.k, claim.order
        self.sum, self.right = shape.sum, shape.other
        self.parameters = tuple(name for name in identity.vars if name != self.n)
        self.bases = certificate.base_cases
        ring = claim.ring
        term = to_term(ring, shape.sum.body, frozenset((claim.k, claim.n)))
        step = shift_quotient(ring, term, claim.k)
        num, den = (ring.shift(part, claim.k, 1) for part in claim.ratio)
        up, down = ring.lowest_terms(num * step.num, den * step.den)
        if ring.degree(down, claim.k) > 0:
            raise UserError(f"no sketch with the denominator {down}, which isn't free of {claim.k}")
        self.multiplier = _formula(up)
        self.recurrence = [_formula(part * down) for part in claim.recurrence]

    def goals(self) -> dict[str, str]:
        """State the obligations, by name."""
        n, k = self.n, self.k
        high = natural(self.sum.high)
        ahead = natural(substitute(self.sum.high, {n: Add((Name(n), Integer(self.order)))}))
        bases = " ∧ ".join(f"f {base} = T {base}" for base in self.bases)
        late = [base - self.order for base in self.bases if base >= self.order]
        unless = "".join(f"{n} ≠ {base} → " for base in late)
        step = f"{self._sum('F', f' ({k} + 1)')} = G {n} ({k} + 1) - G {n} {k}"
        each = f"∀ {n} : {NAT}"
        return {
            "rec": f"∀ {n} {k} : {NAT}, {step}",
            "start": f"{each}, {self._sum('F', ' 0')} = G {n} 0",
            "last": f"∀ {n} {k} : {NAT}, {high} < {k} → F {n} {k} = 0",
            "final": f"{each}, G {n} {ahead} = 0",
            "closed": f"{each}, {self._sum('T', '')} = 0",
            "cancel": f"{each}, {unless}{rational(self.recurrence[-1])} ≠ 0",
            "zero": bases,
            "conclude": f"f {n} = T {n}",
        }

    def _sum(self, function: str, rest: str) -> str:
        terms = [
            f"{rational(coefficient)} * {function} ({self.n} + {j}){rest}"
            for j, coefficient in enumerate(self.recurrence)
        ]
        return " + ".join(terms)

    def sketch(self, name: str) -> Sketch:
        """Write it all."""
        n, k = self.n, self.k
        limits = f"∑ {k} ∈ Finset.range ({natural(self.sum.high)} + 1)"
        one, two = f"{NAT} → {RATIONAL}", f"{NAT} → {NAT} → {RATIONAL}"
        definitions = [
            f"let F : {two} := fun {n} {k} => {rational(self.sum.body)}",
            f"let G : {two} := fun {n} {k} => {rational(self.multiplier)} * F {n} {k}",
            f"let f : {one} := fun {n} => {limits}, F {n} {k}",
            f"let T : {one} := fun {n} => {rational(self.right)}",
        ]
        lines = [f"  {line}" for line in definitions]
        holes: list[SubGoal] = []
        for goal, statement in self.goals().items():
            lines += [f"  have {goal} : {statement} := by", f"    exact ?{goal}"]
            holes.append(SubGoal(goal, "\n".join(definitions), statement))
        binders = " ".join(f"({variable} : {NAT})" for variable in (*self.parameters, n))
        says = f"{limits}, {rational(self.sum.body)} = {rational(self.right)}"
        head = [f"theorem {name} {binders} :", f"    {says} := by"]
        return Sketch("\n".join([*head, *lines, "  exact conclude", ""]), tuple(holes))


def _formula(poly: Poly) -> Expr:
    return parse(polynomial_text(poly))
