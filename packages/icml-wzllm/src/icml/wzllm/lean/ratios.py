"""Factors of any kind, as multiples of few: ``l * factor = m * base`` with a positive l.

Every factor of a sum's terms moves to a common base by unit steps: a binomial's lower number up,
its upper number down, a power's exponent or a factorial's argument up. None of the steps needs to
know whether a binomial is 0. An equation that is linear in products of factors becomes, for each
kind of base, one polynomial equation in the variables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from icml.wzllm.lean.equation import Relation, prove_equation
from icml.wzllm.lean.naturals import Form, Leaf, same_number
from icml.wzllm.lean.terms import (
    MINUS_ONE,
    Atom,
    Num,
    One,
    Plus,
    Term,
    Times,
    lean,
    product,
    total,
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
        proof = f"(rTrans _ _ _ _ _ _ _ {self.proof} {other.proof})"
        return Ratio(
            (*other.scales, *self.scales), Times(other.scale, self.scale), self.of,
            Times(self.times, other.times), other.base, proof,
        )  # fmt: skip

    def beside(self, other: Ratio) -> Ratio:
        """Multiply two ratios."""
        proof = f"(rMul _ _ _ _ _ _ _ _ {self.proof} {other.proof})"
        return Ratio(
            (*self.scales, *other.scales), Times(self.scale, other.scale),
            Times(self.of, other.of), Times(self.times, other.times),
            Times(self.base, other.base), proof,
        )  # fmt: skip


def itself(term: Term) -> Ratio:
    """Return the ratio of something to itself."""
    return Ratio((), ONE, term, ONE, term, f"(@Eq.refl Whole {lean(Times(ONE, term))})")


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
    trivial = not parts[-1]
    if factor.kind == "ch":
        trivial = trivial or parts[0] == parts[1] or _excess(*factor.forms) is not None
    if factor.kind == "pw":
        trivial = trivial or _is_zero_power(factor)
        return None if trivial else ("pw", lean(factor.base or ONE), *parts)
    return None if trivial else (factor.kind, *parts)


def _is_zero_power(factor: Factor) -> bool:
    return factor.base == Num(0) and factor.forms[0].constant > 0


def _excess(upper: Form, lower: Form) -> Form | None:
    """Return ``lower - upper - 1`` where that is natural, so that the binomial is 0."""
    counts = dict(lower.parts)
    for name, count in upper.parts:
        counts[name] = counts.get(name, 0) - count
    constant = lower.constant - upper.constant - 1
    if constant < 0 or min(counts.values(), default=0) < 0:
        return None
    return Form.of(counts, constant)


def _ch(factor: Factor) -> Factor:
    """Return the binomial to which a Catalan number belongs."""
    (form,) = factor.forms
    double = Form.of({name: 2 * count for name, count in form.parts}, 2 * form.constant)
    return Factor("ch", (double, form))


def _is_diagonal(factor: Factor) -> bool:
    """Say whether it is ``binomial(u+1, l+1)`` with a number u <= l: equal to ``binomial(u, l)``.

    Unit steps can't say so, since ``binomial(1, m)``, to which they would lead, is 1 for two m.
    """
    if factor.kind != "ch":
        return False
    upper, lower = factor.forms
    return upper.is_constant and not lower.is_constant and 0 < upper.constant <= lower.constant


def _down_the_diagonal(factor: Factor) -> Factor:
    while _is_diagonal(factor):
        factor = Factor("ch", tuple(form.plus(-1) for form in factor.forms))
    return factor


def _along_diagonal(factor: Factor) -> tuple[Factor, Ratio]:
    """Return ``binomial(u, l)`` and ``binomial(u+1, l+1)`` as 1 times it, by Pascal's rule."""
    upper, lower = (form.plus(-1) for form in factor.forms)
    below = Factor("ch", (upper, lower))
    beside = Factor("ch", (upper, lower.plus(1)))
    here, there, zero = Atom(factor.text), Atom(below.text), Atom(beside.text)
    excess = _excess(upper, lower.plus(1))
    assert excess is not None  # l - u is natural
    relations = [
        Relation(here, f"(pascal Z {upper.text} {lower.text})", here, Plus(there, zero)),
        Relation(zero, _beyond_proof(upper, lower.plus(1), excess), zero, Num(0)),
    ]
    proof = prove_equation(here, Times(ONE, there), relations)
    names = f"{lean(here)} {lean(ONE)} {there.lean}"
    return below, Ratio((), ONE, here, ONE, there, f"(rOne {names} {proof})")


def common_base(factors: Sequence[Factor]) -> Factor:
    """Return the base of one family."""
    members = [_ch(factor) if factor.kind == "catalan" else factor for factor in factors]
    members = [_down_the_diagonal(member) for member in members]
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
    if base is not None and _is_diagonal(factor):
        below, ratio = _along_diagonal(factor)
        return ratio.then(to_base(below, base))
    if factor.kind == "ch":
        return _binomial(factor, base)
    return _chain(factor, base)


def _chain(factor: Factor, base: Factor | None) -> Ratio:
    """Powers and factorials: count the number down."""
    (form,) = factor.forms
    here = Atom(factor.text)
    if _is_zero_power(factor) and base is None:
        proof = f"(wMulZ (pw Z {lean(Num(0))} {form.plus(-1).text}))"
        return known(here, Num(0), proof)
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


def _primitive(form: Form) -> tuple[int, Form]:
    """Return the content of a form and the form divided by it."""
    content = gcd(form.constant, *(count for _, count in form.parts))
    parts = tuple((name, count // content) for name, count in form.parts)
    return content, Form(parts, form.constant // content)


def _difference(upper: Form, lower: Form) -> Term:
    """Return ``upper - lower`` in one way only, whatever the two are; its content apart."""
    rest = dict(upper.parts)
    for name, count in lower.parts:
        rest[name] = rest.get(name, 0) - count
    constant = upper.constant - lower.constant
    sides: list[Term] = []
    content = gcd(constant, *rest.values()) or 1
    for sign in (1, -1):
        counts = {n: sign * c // content for n, c in rest.items() if sign * c > 0}
        form = Form.of(counts, max(0, sign * constant // content))
        if form != Form(()):
            sides.append(form.term if sign > 0 else Times(MINUS_ONE, form.term))
    term = total(sides)
    return term if content == 1 else Times(Num(content), term)


def _simplest(ratio: Ratio, scale: Form, upper: Form, lower: Form) -> Ratio:
    """Write a unit step's scale, the form, and multiple, a difference, in one way only."""
    content, form = _primitive(scale)
    times = _difference(upper, lower)
    scales: tuple[Positive, ...] = (successor(form.plus(-1)),)
    if content > 1:
        scales = (number(content), *scales)
    scale_term = product([positive.term for positive in scales])
    if (scale_term, times) == (ratio.scale, ratio.times):
        return ratio
    names = (ratio.scale, ratio.of, ratio.times, ratio.base, scale_term, times)
    equal = f"{prove_equation(ratio.scale, scale_term)} {prove_equation(ratio.times, times)}"
    proof = f"(rSame {' '.join(map(lean, names))} {equal} {ratio.proof})"
    return Ratio(scales, scale_term, ratio.of, times, ratio.base, proof)


def _lower_up(upper: Form, lower: Form) -> Ratio:
    """Return ``binomial(upper, lower + 1)`` over ``binomial(upper, lower)``."""
    here, there = (Factor("ch", (upper, form)).text for form in (lower.plus(1), lower))
    terms = f"{lean(upper.term)} {lean(lower.term)}"
    proof = f"(lowerUp {upper.text} {lower.text} {terms} {upper.proof} {lower.proof})"
    scale = successor(lower)
    times = Plus(upper.term, Times(MINUS_ONE, lower.term))
    found = Ratio((scale,), scale.term, Atom(here), times, Atom(there), proof)
    return _simplest(found, lower.plus(1), upper, lower)


def _upper_down(upper: Form, lower: Form) -> Ratio:
    """Return ``binomial(upper, lower)`` over ``binomial(upper + 1, lower)``."""
    here, there = (Factor("ch", (form, lower)).text for form in (upper, upper.plus(1)))
    terms = f"{lean(upper.term)} {lean(lower.term)}"
    proof = f"(upperDown {upper.text} {lower.text} {terms} {upper.proof} {lower.proof})"
    scale = successor(upper)
    times = Plus(scale.term, Times(MINUS_ONE, lower.term))
    found = Ratio((scale,), scale.term, Atom(here), times, Atom(there), proof)
    return _simplest(found, upper.plus(1), upper.plus(1), lower)


def _binomial(factor: Factor, base: Factor | None) -> Ratio:
    upper, lower = factor.forms
    here = Atom(factor.text)
    if base is None:
        if (rest := _excess(upper, lower)) is not None:
            return _beyond(upper, lower, rest)
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


def _beyond(upper: Form, lower: Form, rest: Form) -> Ratio:
    here = Atom(Factor("ch", (upper, lower)).text)
    return known(here, Num(0), _beyond_proof(upper, lower, rest))


def _beyond_proof(upper: Form, lower: Form, rest: Form) -> str:
    names = {name: Atom(name) for form in (upper, lower, rest) for name, _ in form.parts}
    left, right = lower.term_with(names), Plus(upper.term_with(names), rest.term_with(names))
    equal = prove_equation(left, Plus(right, ONE), ring="natRing")
    return f"(beyond {upper.text} {lower.text} {rest.text} {equal})"


def _fixed_difference(upper: Form, lower: Form) -> Ratio:
    gap = upper.constant - lower.constant
    here = Atom(Factor("ch", (upper, lower)).text)
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
