"""Factors of any kind, as multiples of few: ``l * factor = m * base`` with a positive l.

Every factor of a sum's terms moves to a common base by unit steps: a binomial's lower number up,
its upper number down, a power's exponent or a factorial's argument up. None of the steps needs to
know whether a binomial is 0. An equation that is linear in products of factors becomes, for each
kind of base, one polynomial equation in the variables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from icml.wzllm.lean.equation import Relation, Unproved, prove_equation
from icml.wzllm.lean.naturals import Form, Leaf, same_number
from icml.wzllm.lean.terms import (
    MINUS_ONE,
    Atom,
    Frame,
    Num,
    One,
    Plus,
    Term,
    Times,
    from_poly,
    lean,
    product,
)

ONE = One()


@dataclass(frozen=True)
class Factor:
    """``binomial``, ``factorial``, ``catalan`` or a power, of natural numbers."""

    kind: str
    """ch, fac, catalan or pw."""
    forms: tuple[Form, ...]
    base: Term | None = None

    def text_with(self, texts: Sequence[str]) -> str:
        """Return the factor in Lean, with texts for its numbers."""
        head = {"ch": "ch Z ", "pw": f"pw Z {lean(self.base) if self.base else ''} "}
        return f"({head.get(self.kind, self.kind + ' ')}{' '.join(texts)})"

    @property
    def text(self) -> str:
        """The factor in Lean."""
        return self.text_with([form.text for form in self.forms])

    def put(self, at: Mapping[str, Form]) -> Factor:
        """Put forms in place of names."""
        return Factor(self.kind, tuple(form.put(at) for form in self.forms), self.base)


@dataclass(frozen=True)
class Positive:
    """A ring element that can be cancelled."""

    term: Term
    proof: str
    """Of ``Can term``."""


def successor(form: Form, leaves: Mapping[str, Leaf] | None = None) -> Positive:
    """Return ``form + 1``."""
    leaves = leaves or {}
    text = form.text_with({name: leaf.text for name, leaf in leaves.items()})
    names = {name: Atom(f"(Z.nm {name})") for name, _ in form.parts}
    term = form.term_with({**names, **{name: leaf.term for name, leaf in leaves.items()}})
    proof = f"(canNm {text} {lean(term)} {form.proof_with(leaves)})"
    return Positive(Plus(term, ONE), proof)


def number(value: int) -> Positive:
    """Return a positive number."""
    proof = f"(canNm {value - 1 or 'Nat.zero'} {lean(Num(value - 1))} Eq.refl)"
    return Positive(Plus(Num(value - 1), ONE), proof)


@dataclass(frozen=True)
class Ratio:
    """``scale * of = times * base``."""

    scales: tuple[Positive, ...]
    scale: Term
    of: Term
    times: Term
    base: Term
    proof: str

    def then(self, other: Ratio) -> Ratio:
        """Go on from the base, which the other ratio is of."""
        if self.scale == ONE and self.times == ONE and self.of == other.of:
            return other
        names = (self.scale, self.of, self.times, self.base, other.scale, other.times, other.base)
        proof = f"(rTrans {' '.join(map(lean, names))} {self.proof} {other.proof})"
        return Ratio(
            (*other.scales, *self.scales), Times(other.scale, self.scale), self.of,
            Times(self.times, other.times), other.base, proof,
        )  # fmt: skip

    def beside(self, other: Ratio) -> Ratio:
        """Multiply two ratios."""
        names = (self.scale, self.of, self.times, self.base, other.scale, other.of, other.times,
                 other.base)  # fmt: skip
        proof = f"(rMul {' '.join(map(lean, names))} {self.proof} {other.proof})"
        return Ratio(
            (*self.scales, *other.scales), Times(self.scale, other.scale),
            Times(self.of, other.of), Times(self.times, other.times),
            Times(self.base, other.base), proof,
        )  # fmt: skip


def itself(term: Term) -> Ratio:
    """Return the ratio of something to itself."""
    return Ratio((), ONE, term, ONE, term, "Eq.refl")


def known(term: Term, value: Term, proof: str) -> Ratio:
    """Return the ratio to 1 of something whose value is known."""
    return Ratio((), ONE, term, value, ONE, f"(rKnown {lean(term)} {lean(value)} {proof})")


Key = tuple


def family(factor: Factor) -> Key | None:
    """Return what factors have in common that are multiples of one base; None for those of 1."""
    if factor.kind == "catalan":
        (form,) = factor.forms
        if form.is_constant:
            return None
        double = Form.of({name: 2 * count for name, count in form.parts})
        return ("ch", double.parts, form.parts)
    parts = tuple(form.parts for form in factor.forms)
    trivial = not parts[-1] or (factor.kind == "ch" and parts[0] == parts[1])
    if factor.kind == "pw":
        return None if trivial else ("pw", lean(factor.base or ONE), *parts)
    return None if trivial else (factor.kind, *parts)


def _ch(factor: Factor) -> Factor:
    """Return the binomial to which a Catalan number belongs."""
    (form,) = factor.forms
    double = Form.of({name: 2 * count for name, count in form.parts}, 2 * form.constant)
    return Factor("ch", (double, form))


def common_base(factors: Sequence[Factor]) -> Factor:
    """Return the base of one family."""
    members = [_ch(factor) if factor.kind == "catalan" else factor for factor in factors]
    first = members[0]
    low = min(member.forms[-1].constant for member in members)
    forms = [Form(first.forms[-1].parts, low)]
    if first.kind == "ch":
        high = max(member.forms[0].constant for member in members)
        forms.insert(0, Form(first.forms[0].parts, high))
    return Factor(first.kind, tuple(forms), first.base)


def to_base(factor: Factor, base: Factor | None) -> Ratio:
    """Return a factor as a multiple of its family's base, or of 1."""
    if factor.kind == "catalan":
        (form,) = factor.forms
        proof = f"(catalanIs {form.text} {lean(form.term)} {form.proof})"
        binomial = _ch(factor)
        raw = Factor("ch", (form, form)).text_with([f"(Nat.mul 2 {form.text})", form.text])
        _, _, same = same_number(Form((("form", 2),)), {"form": form})
        scale = successor(form)
        first = Ratio((scale,), scale.term, Atom(factor.text), ONE, Atom(raw), proof)
        moved = to_base(binomial, base)
        if raw != binomial.text:
            other = Atom(raw)
            names = (moved.scale, moved.of, moved.times, moved.base, other)
            same = f"(on1 (fun zz => ch Z zz {form.text}) {same})"
            proof = f"(rEq {' '.join(map(lean, names))} {same} {moved.proof})"
            moved = Ratio(moved.scales, moved.scale, other, moved.times, moved.base, proof)
        return first.then(moved)
    if factor.kind == "ch":
        return _binomial(factor, base)
    return _chain(factor, base)


def _chain(factor: Factor, base: Factor | None) -> Ratio:
    """Powers and factorials: count the number down."""
    (form,) = factor.forms
    here = Atom(factor.text)
    if form.constant == (base.forms[0].constant if base else 0):
        return itself(here) if base else known(here, ONE, "Eq.refl")
    below = Factor(factor.kind, (form.plus(-1),), factor.base)
    inner = below.forms[0]
    if factor.kind == "fac":
        times: Term = Plus(inner.term, ONE)
        proof = f"(facUp {inner.text} {lean(inner.term)} {inner.proof})"
    else:
        assert factor.base is not None
        times = factor.base
        proof = f"(powUp {lean(times)} {inner.text})"
    names = f"{lean(here)} {lean(times)} {below.text}"
    step = Ratio((), ONE, here, times, Atom(below.text), f"(rOne {names} {proof})")
    return step.then(_chain(below, base))


def _lower_up(upper: Form, lower: Form) -> Ratio:
    """Return ``binomial(upper, lower + 1)`` over ``binomial(upper, lower)``."""
    here, there = (Factor("ch", (upper, form)).text for form in (lower.plus(1), lower))
    terms = f"{lean(upper.term)} {lean(lower.term)}"
    proof = f"(lowerUp {upper.text} {lower.text} {terms} {upper.proof} {lower.proof})"
    scale = successor(lower)
    times = Plus(upper.term, Times(MINUS_ONE, lower.term))
    return Ratio((scale,), scale.term, Atom(here), times, Atom(there), proof)


def _upper_down(upper: Form, lower: Form) -> Ratio:
    """Return ``binomial(upper, lower)`` over ``binomial(upper + 1, lower)``."""
    here, there = (Factor("ch", (form, lower)).text for form in (upper, upper.plus(1)))
    terms = f"{lean(upper.term)} {lean(lower.term)}"
    proof = f"(upperDown {upper.text} {lower.text} {terms} {upper.proof} {lower.proof})"
    scale = successor(upper)
    times = Plus(scale.term, Times(MINUS_ONE, lower.term))
    return Ratio((scale,), scale.term, Atom(here), times, Atom(there), proof)


def _binomial(factor: Factor, base: Factor | None) -> Ratio:
    upper, lower = factor.forms
    here = Atom(factor.text)
    if base is None:
        if lower.is_constant:
            if lower.constant == 0:
                return known(here, ONE, f"(chNone Z {upper.text})")
            below = Factor("ch", (upper, lower.plus(-1)))
            return _lower_up(*below.forms).then(_binomial(below, None))
        return _fixed_difference(upper, lower)
    if lower.constant > base.forms[1].constant:
        below = Factor("ch", (upper, lower.plus(-1)))
        return _lower_up(*below.forms).then(_binomial(below, base))
    if upper.constant < base.forms[0].constant:
        return _upper_down(upper, lower).then(_binomial(Factor("ch", (upper.plus(1), lower)), base))
    return itself(here)


def _fixed_difference(upper: Form, lower: Form) -> Ratio:
    gap = upper.constant - lower.constant
    here = Atom(Factor("ch", (upper, lower)).text)
    if gap < 0:
        rest = -gap - 1 or "Nat.zero"
        proof = f"(beyond {upper.text} {lower.text} {rest} Eq.refl)"
        return known(here, Num(0), proof)
    if gap == 0:
        return known(here, ONE, f"(chAll Z {lower.text})")
    under = upper.plus(-1)
    scale = number(gap)
    there = Factor("ch", (under, lower))
    top = Plus(under.term, ONE)
    difference = prove_equation(Plus(top, Times(MINUS_ONE, lower.term)), scale.term)
    terms = f"{lean(under.term)} {lean(lower.term)} {lean(scale.term)}"
    proof = f"(upperUp {under.text} {lower.text} {terms} {under.proof} {lower.proof} {difference})"
    step = Ratio((scale,), scale.term, here, top, Atom(there.text), proof)
    return step.then(_fixed_difference(under, lower))


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
    total: Term | None = None
    sum_, proof = total, ""
    weight: Term | None = None
    for i, ratio, count in zip(members, ratios, counts, strict=True):
        missing, _ = _scale(most - count, proofs)
        opaque = _opaque(Times(missing, ratio.scale), most), _opaque(whole, most)
        scaled = prove_equation(*opaque)
        c = coefficients[i]
        names = (whole, c, ratio.of, ratio.scale, ratio.times, ratio.base, missing)
        step = f"(gather {' '.join(map(lean, names))} {ratio.proof} {scaled})"
        part = Times(c, ratio.of)
        part_weight = Times(c, Times(missing, ratio.times))
        if sum_ is None or weight is None:
            sum_, weight, proof = part, part_weight, step
        else:
            names = (whole, sum_, part, weight, part_weight, ratio.base)
            proof = f"(gatherMore {' '.join(map(lean, names))} {proof} {step})"
            sum_, weight = Plus(sum_, part), Plus(weight, part_weight)
    assert sum_ is not None
    assert weight is not None
    zero = prove_equation(weight, Num(0), relations)
    names = (whole, sum_, weight, ratios[0].base)
    return sum_, Num(0), f"(gathered {' '.join(map(lean, names))} {cancel} {proof} {zero})"


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


def _opaque(term: Term, texts: Mapping[str, int]) -> Term:
    """Take the factors of a scale as atoms."""
    if lean(term) in texts:
        return Atom(lean(term))
    match term:
        case Times(left, right):
            return Times(_opaque(left, texts), _opaque(right, texts))
    return term
