"""Equations between ring elements, proved in Lean from relations between their atoms.

Each relation ``left = right`` says what an atom is: ``left - right = scale * atom - rest``. The
difference of an equation's sides is divided by the relations one after the other; where a scale is
in the way both sides are multiplied by it, and Lean cancels it again because it is positive. The
quotients are the cofactors of a linear combination that Lean's normaliser checks. Nothing here is
trusted: a wrong cofactor is a proof that Lean rejects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from icml.wzllm.lean.terms import (
    MINUS_ONE,
    Atom,
    Frame,
    Num,
    One,
    Plus,
    Term,
    Times,
    atoms,
    from_poly,
    lean,
    put,
)

RING = "Z"
_ONE = One()


class Unproved(ValueError):
    """The relations don't give the equation."""


@dataclass(frozen=True)
class Relation:
    """What is known of an atom."""

    atom: Atom
    proof: str
    """A Lean proof of ``left = right``."""
    left: Term
    right: Term
    scale: Term = _ONE
    """The factor of the atom in ``left - right``; it doesn't contain the atom."""
    thin: str = ""
    """The natural number in Lean whose successor the scale is by definition; none for 1."""


MINUS_ONE_RELATION = Relation(MINUS_ONE, "minusOneAdd", Plus(MINUS_ONE, One()), Num(0))


class _Share(NamedTuple):
    relation: Relation
    cofactor: Any


def prove_equation(
    left: Term,
    right: Term,
    relations: Sequence[Relation] = (),
    *,
    ring: str = RING,
    given: Sequence[tuple[Term, Term, str]] = (),
) -> str:
    """Return a Lean proof of ``left = right``.

    Args:
        left: The left side; the proof's type is its value by definition.
        right: The right side.
        relations: In the order in which their atoms are eliminated: an atom may occur in what a
            later relation says only if that one eliminates it.
        given: Equations with their proofs, whose sum is subtracted from this one first.
        ring: The Lean ring; relations with a scale belong to the whole numbers.

    Raises:
        Unproved: If the relations don't give the equation.
    """
    relations = [*relations, MINUS_ONE_RELATION]
    # A relation on what occurs nowhere would only make the proof longer.
    present = set(atoms([left, right, *(side for g in given for side in g[:2])]))
    used: list[Relation] = []
    for relation in relations:
        if relation.atom in present:
            used.append(relation)
            present.update(atoms([relation.left, relation.right, relation.scale]))
    sums = [side for g in given for side in g[:2]]
    frame = Frame([left, right, *sums, *(t for r in used for t in (r.left, r.right, r.scale))])
    rest = frame.poly(left) - frame.poly(right)
    known: list[_Share] = []
    for one, other, proof in given:
        rest -= frame.poly(one) - frame.poly(other)
        known.append(_Share(Relation(MINUS_ONE, proof, one, other), frame.context.constant(1)))
    shares, scales = _divide(frame, rest, used, known)
    return _thinned(frame, (left, right), shares, scales, ring)


def _divide(
    frame: Frame, rest: Any, relations: Sequence[Relation], known: Sequence[_Share]
) -> tuple[list[_Share], list[Relation]]:
    shares = list(known)
    scales: list[Relation] = []
    for relation in relations:
        difference = frame.poly(relation.left) - frame.poly(relation.right)
        scale = frame.poly(relation.scale)
        cofactor = frame.context.constant(0)
        while frame.degree(rest, relation.atom) > 0:
            if scale != 1:
                rest, cofactor = rest * scale, cofactor * scale
                shares = [_Share(share.relation, share.cofactor * scale) for share in shares]
                scales.append(relation)
            quotient = frame.leading(rest, relation.atom) / scale
            rest, cofactor = rest - quotient * difference, cofactor + quotient
        shares.append(_Share(relation, cofactor))
    if rest != 0:
        raise Unproved(f"{len(rest)} terms are left over")
    return shares, scales


def _thinned(
    frame: Frame,
    equation: tuple[Term, Term],
    shares: Sequence[_Share],
    scales: Sequence[Relation],
    ring: str,
) -> str:
    """Prove the scaled equation and cancel the scales one by one."""
    sides = [equation]
    for relation in reversed(scales):
        a, b = sides[-1]
        sides.append((Times(relation.scale, a), Times(relation.scale, b)))
    proof = _combination(frame, *sides[-1], shares, ring)
    env = frame.env
    for relation, (a, b) in zip(scales, reversed(sides[:-1]), strict=True):
        values = " ".join(f"(Ex.val {RING} {env} {frame.ex(side)})" for side in (a, b))
        proof = f"(zThin {relation.thin} {values} {proof})"
    return proof


def _combination(frame: Frame, left: Term, right: Term, shares: Sequence[_Share], ring: str) -> str:
    """Prove ``left = right`` from ``sum of cofactor * (relation's sides)``."""
    parts: list[tuple[str, str, str, str]] = []
    for relation, cofactor in shares:
        a, b = frame.ex(relation.left), frame.ex(relation.right)
        plus, minus = frame.signed_ex(cofactor)
        if plus is not None:
            parts.append((plus, relation.proof, a, b))
        if minus is not None:
            parts.append((minus, f"(turn {relation.proof})", b, a))
    head = f"{ring} {frame.env}"
    sides = f"{frame.ex(left)} {frame.ex(right)}"
    if not parts:
        return f"(byNorm {head} {sides} Eq.refl)"
    known = [
        (
            f"(Ex.mul {c} {a})",
            f"(Ex.mul {c} {b})",
            f"(relScale {head} {c} (a := {a}) (b := {b}) {proof})",
        )
        for c, proof, a, b in parts
    ]
    left_sum, right_sum, proof = known[-1]
    for a, b, step in reversed(known[:-1]):
        proof = (
            f"(relPlus {head} (a := {a}) (b := {b}) (c := {left_sum}) (d := {right_sum})"
            f" {step} {proof})"
        )
        left_sum, right_sum = f"(Ex.add {a} {left_sum})", f"(Ex.add {b} {right_sum})"
    return f"(byRel {head} {sides} {left_sum} {right_sum} {proof} Eq.refl)"


def prove_zero(term: Term, relations: Sequence[Relation] = ()) -> str:
    """Return a Lean proof of ``term = 0``, by normal forms of what is added and taken away.

    Args:
        term: Its value by definition is what the proof is about.
        relations: ``left - right`` of each is its atom minus a term without it: that replaces it.

    Raises:
        Unproved: If the term isn't 0 then.
    """
    swaps: list[tuple[Atom, Term, str]] = []
    done = term
    for relation in relations:
        if relation.atom not in set(atoms([done])):
            continue
        frame = Frame([relation.left, relation.right, MINUS_ONE])
        rest = frame.poly(relation.atom) - frame.poly(relation.left) + frame.poly(relation.right)
        value = from_poly(rest, frame.names)
        proof = relation.proof
        if (relation.left, relation.right) != (relation.atom, value):
            known = Relation(relation.atom, proof, relation.left, relation.right)
            proof = prove_equation(relation.atom, value, [known])
        swaps.append((relation.atom, value, proof))
        done = put(done, relation.atom, value)
    frame = Frame([*(atom for atom in atoms([done]) if atom != MINUS_ONE), MINUS_ONE])
    rest = frame.poly(done)
    minus = frame.poly(MINUS_ONE)
    while frame.degree(rest, MINUS_ONE) > 0:
        rest -= frame.leading(rest, MINUS_ONE) * (minus + 1)
    if rest != 0:
        raise Unproved(f"{len(rest)} terms are left over")
    proof = f"(bySign {frame.env} {frame.sx(done)} Eq.refl)"
    texts = [term]
    for atom, value, _ in swaps:
        texts.append(put(texts[-1], atom, value))
    for (atom, _, equal), before in zip(reversed(swaps), reversed(texts[:-1]), strict=True):
        hole = lean(put(before, atom, Atom("zz")))
        proof = f"(carry (fun zz => Eq {hole} (Whole.pos Nat.zero)) (turn {equal}) {proof})"
    return proof
