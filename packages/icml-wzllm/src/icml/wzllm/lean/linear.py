"""Equations that are linear in products of factors: one polynomial equation for each base."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from icml.wzllm.lean.equation import Relation, Unproved, prove_equation, prove_zero
from icml.wzllm.lean.naturals import Form, same_number
from icml.wzllm.lean.ratios import (
    ONE,
    Factor,
    Key,
    Positive,
    Ratio,
    common_base,
    family,
    known,
    to_base,
)
from icml.wzllm.lean.terms import (
    MINUS_ONE,
    Atom,
    Frame,
    Num,
    Plus,
    Term,
    Times,
    from_poly,
    lean,
    product,
)


@dataclass(frozen=True)
class Value:
    """A product of a polynomial and factors at some point, under a name of its own."""

    name: Atom
    """Lean text that is the product by definition."""
    factors: tuple[Factor, ...]
    at: Mapping[str, Form]
    raw: Term | None = None
    """The polynomial as it comes out of the definition; None for 1."""
    before: tuple[Positive, tuple[Positive, ...], Atom, Term, str] | None = None
    """For a sum so far: its scale, that scale's factors, its name, its multiple of this value."""

    def ends(self) -> list[Factor]:
        """Return the factors at the point."""
        return [factor.put(self.at) for factor in self.factors]

    def key(self) -> Key:
        """Return what values have in common that are multiples of one base."""
        found = [family(factor) for factor in self.ends()]
        return tuple(sorted((key for key in found if key is not None), key=repr))

    def ratio(self, bases: Mapping[Key, Factor]) -> Ratio:
        """Return the value as a multiple of its bases' product."""
        parts: list[Ratio] = []
        for factor, end in zip(self.factors, self.ends(), strict=True):
            key = family(end)
            moved = to_base(end, None if key is None else bases[key])
            same = [same_number(form, self.at) for form in factor.forms]
            raw = Atom(factor.text_with([text for text, _, _ in same]))
            if raw != Atom(end.text):
                names = (moved.scale, moved.of, moved.times, moved.base, raw)
                proof = f"(rEq {' '.join(map(lean, names))} {_congruent(end, same)} {moved.proof})"
                moved = Ratio(moved.scales, moved.scale, raw, moved.times, moved.base, proof)
            parts.append(moved)
        if not parts:
            found = known(ONE, ONE, "Eq.refl")
        else:
            found = reduce(lambda rest, part: part.beside(rest), reversed(parts[:-1]), parts[-1])
        if self.raw is not None and not parts:
            found = known(self.name, self.raw, "Eq.refl")
        elif self.raw is not None:
            names = (found.scale, found.of, found.times, found.base, self.raw, self.raw)
            found = Ratio(
                found.scales, found.scale, Times(self.raw, found.of),
                Times(self.raw, found.times), found.base,
                f"(rPoly {' '.join(map(lean, names))} Eq.refl {found.proof})",
            )  # fmt: skip
        found = Ratio(found.scales, found.scale, self.name, found.times, found.base, found.proof)
        done = product([Atom(bases[key].text) for key in self.key()] or [ONE])
        if done != found.base:
            names = (found.scale, found.of, found.times, found.base, done)
            same_base = prove_equation(found.base, done)
            found = Ratio(
                found.scales, found.scale, found.of, found.times, done,
                f"(rBase {' '.join(map(lean, names))} {found.proof} {same_base})",
            )  # fmt: skip
        if self.before is None:
            return found
        scale, scales, name, times, proof = self.before
        first = Ratio(scales, scale.term, name, times, self.name, proof)
        return first.then(found)


def _congruent(factor: Factor, same: Sequence[tuple[str, str, str]]) -> str:
    """Prove that a factor is the same with other texts for its numbers."""
    proofs: list[str] = []
    texts = [raw for raw, _, _ in same]
    for i, (raw, done, proof) in enumerate(same):
        if raw != done:
            hole = factor.text_with([*texts[:i], "zz", *texts[i + 1 :]])
            proofs.append(f"(@on1 Nat Whole (fun zz => {hole}) {raw} {done} {proof})")
            texts[i] = done
    return reduce(lambda one, other: f"(via {one} {other})", proofs)


def prove_linear(
    left: Term, right: Term, values: Sequence[Value], relations: Sequence[Relation] = ()
) -> str:
    """Prove an equation that is linear in values.

    Args:
        left: The left side.
        right: The right side.
        values: What the atoms of both sides are that aren't numbers.
        relations: Of the numbers.

    Raises:
        Unproved: If the values' relations don't give it.
    """
    frame = Frame([left, right, MINUS_ONE, *(_name(value) for value in values)])
    rest = frame.poly(left) - frame.poly(right)
    coefficients: dict[int, Term] = {}
    for i, value in enumerate(values):
        if frame.degree(rest, _name(value)) > 0:
            poly = frame.leading(rest, _name(value))
            rest -= poly * frame.poly(_name(value))
            coefficients[i] = from_poly(poly, frame.names)
    if rest != 0:
        rest_term = from_poly(rest, frame.names)
        raise Unproved(f"terms without a known factor are left over: {lean(rest_term)[:80]}")
    classes: dict[Key, list[int]] = {}
    for i in coefficients:
        classes.setdefault(values[i].key(), []).append(i)
    given: list[tuple[Term, Term, str]] = []
    for members in classes.values():
        given.append(_class(members, values, coefficients, relations))
    return prove_equation(left, right, given=given)


def _name(value: Value) -> Atom:
    return value.name if value.before is None else value.before[2]


def _class(
    members: Sequence[int],
    values: Sequence[Value],
    coefficients: Mapping[int, Term],
    relations: Sequence[Relation],
) -> tuple[Term, Term, str]:
    """Prove that the members' part of an equation is 0."""
    found: dict[Key, list[Factor]] = {}
    for i in members:
        for end in values[i].ends():
            if (key := family(end)) is not None:
                found.setdefault(key, []).append(end)
    bases = {key: common_base(factors) for key, factors in found.items()}
    ratios = [values[i].ratio(bases) for i in members]
    proofs = {lean(p.term): p for ratio in ratios for p in ratio.scales}
    counts = [Counter(lean(p.term) for p in ratio.scales) for ratio in ratios]
    most: Counter[str] = reduce(lambda a, b: a | b, counts, Counter())
    whole, cancel = _scale(most, proofs)
    weights: list[tuple[Term, Counter[str]]] = []
    leaves: dict[str, Term] = {lean(ONE): ONE}
    for ratio, count in zip(ratios, counts, strict=True):
        missing, _ = _scale(most - count, proofs)
        found_leaves = [*_leaves(missing), *_leaves(ratio.times)]
        leaves.update((lean(leaf), leaf) for leaf in found_leaves)
        weights.append((missing, Counter(map(lean, found_leaves))))
    common = reduce(lambda a, b: a & b, (leaf_counts for _, leaf_counts in weights))
    # What is 0 can't be divided out: it makes its own value 0 and says nothing of the others.
    common = Counter(
        {text: n for text, n in common.items() if not _is_zero(leaves[text], relations)}
    )
    shared = product([leaves[text] for text in sorted(common.elements())] or [ONE])
    base = Times(shared, ratios[0].base)
    sum_: Term | None = None
    weight: Term | None = None
    proof = ""
    for i, ratio, (missing, leaf_counts) in zip(members, ratios, weights, strict=True):
        own = product([leaves[text] for text in sorted((leaf_counts - common).elements())] or [ONE])
        scaled = prove_equation(_opaque(Times(missing, ratio.scale), most), _opaque(whole, most))
        split = prove_equation(
            _opaque(Times(missing, ratio.times), leaves), _opaque(Times(own, shared), leaves)
        )
        c = coefficients[i]
        names = (whole, c, ratio.of, ratio.scale, ratio.times, ratio.base, missing, own, shared)
        step = f"(gatherBy {' '.join(map(lean, names))} {ratio.proof} {scaled} {split})"
        part, part_weight = Times(c, ratio.of), Times(c, own)
        if sum_ is None or weight is None:
            sum_, weight, proof = part, part_weight, step
        else:
            proof = f"(gatherMore _ _ _ _ _ _ {proof} {step})"
            sum_, weight = Plus(sum_, part), Plus(weight, part_weight)
    assert sum_ is not None
    assert weight is not None
    zero = prove_zero(weight, relations)
    names = (whole, sum_, weight, base)
    return sum_, Num(0), f"(gathered {' '.join(map(lean, names))} {cancel} {proof} {zero})"


def _is_zero(term: Term, relations: Sequence[Relation]) -> bool:
    try:
        prove_zero(term, relations)
    except Unproved:
        return False
    return True


def _leaves(term: Term) -> list[Term]:
    """Return the factors of a product but 1."""
    if isinstance(term, Times):
        return [*_leaves(term.left), *_leaves(term.right)]
    return [] if term == ONE else [term]


def _scale(counts: Mapping[str, int], proofs: Mapping[str, Positive]) -> tuple[Term, str]:
    """Return a product of positive factors, and that it can be cancelled."""
    term: Term = ONE
    proof = "canOne"
    for text, count in sorted(counts.items()):
        for _ in range(count):
            one = proofs[text]
            proof = f"(canMul {lean(one.term)} {lean(term)} {one.proof} {proof})"
            term = Times(one.term, term)
    return term, proof


def _opaque(term: Term, texts: Collection[str]) -> Term:
    """Take the factors of a scale as atoms."""
    if term != ONE and lean(term) in texts:
        return Atom(lean(term))
    match term:
        case Times(left, right):
            return Times(_opaque(left, texts), _opaque(right, texts))
    return term
