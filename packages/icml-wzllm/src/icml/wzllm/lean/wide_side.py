"""One sum, summed up to its end: from the telescoped equation to the recurrence, in Lean.

For fixed n let ``X(K) = sum_{k<=K} sum_i a_i F(n+i,k)``. With E the factors of F and ``j`` the
distance from the upper limit, ``den(K) X(K) = num(K) E(n+b,K)`` is proved by induction along
``K + j = high`` (*start*, *hop*, *claim*); what is left at the end is *last*. ``den`` is a product
of positive numbers, so nothing is divided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from icml.wzllm.derive import Claim
from icml.wzllm.expressions import Sum, to_text
from icml.wzllm.lean.equation import Relation, Unproved, prove_equation
from icml.wzllm.lean.linear import Value, prove_linear
from icml.wzllm.lean.naturals import Form, Leaf
from icml.wzllm.lean.ratios import Positive, number, successor
from icml.wzllm.lean.summand import Unprintable
from icml.wzllm.lean.terms import Atom, Num, One, Plus, Term, Times, lean, product, total
from icml.wzllm.lean.wide_names import Names, leaf
from icml.wzllm.lean.wide_read import DISTANCE, Part, Reader
from icml.wzllm.reading import linear_form, to_term
from icml.wzllm.ring import Fraction, Linear, Poly
from icml.wzllm.terms import shift_quotient

MAX_START = 3
"""The largest n from which a recurrence is used first; ours."""

ZERO = Form(())


class SumSide:
    """A sum from 0 to ``slope * n + constant`` and its part of the proof."""

    def __init__(self, names: Names, claim: Claim, side: Sum, letter: str) -> None:
        """Read the sum.

        Raises:
            Unprintable: If its terms or its range aren't of the kind that is known.
        """
        self.names, self.claim, self.side, self.letter = names, claim, side, letter
        ring, n = claim.ring, claim.n
        low, high = (linear_form(ring, end) for end in (side.low, side.high))
        slope = ring.slope(high, n)
        counts = {n: slope}
        if (
            low != ring.number(0)
            or high.slopes != ring.name(n).times(slope).slopes
            or (slope < 1 or high.constant < 0)
        ):
            shown = f"{to_text(side.low)} to {to_text(side.high)}"
            raise Unprintable(f"a sum from {shown}; only from 0 to a multiple of {n}")
        self.slope, self.high_linear = slope, high
        self.high = Form.of(counts, high.constant)
        found = Reader(names.variables, high).parts(side.body)
        if len(found) != 1:
            raise Unprintable("a summand that isn't one product")
        self.part = found[0]

    @property
    def uses_distance(self) -> bool:
        """Whether a number falls with k."""
        return any(
            name == DISTANCE
            for f in self.part.factors
            for form in f.forms
            for name, _ in form.parts
        )

    # --- definitions ------------------------------------------------------------------------

    def summand_at(self, high: str, k: str) -> str:
        """Return the summand in the statement's words."""
        return self.names.body(self.part).replace(DISTANCE, f"(sub {high} {k})")

    def definitions(self) -> list[str]:
        """Define F, E, the partial sums and the sum."""
        names, n, k, letter = self.names, self.claim.n, self.claim.k, self.letter
        head = f"noncomputable def {names.prefix}_"
        bare = Part(self.claim.ring.one, 1, self.part.factors)
        high = self.high.text
        three = f"Nat → Nat → Nat → Whole := fun {n} {k} {DISTANCE} =>"
        own = f"{names.prefix}_{letter}{names.arguments}"
        return [
            f"{head}{letter}{names.binders} : {three} {names.body(self.part)}",
            f"{head}{letter}e{names.binders} : {three} {names.body(bare)}",
            f"{head}{letter}a{names.binders} : Nat → Nat → Whole := fun {n} hh =>"
            f" sumTo Z (fun {k} => {own} {n} {k} (sub {high} {k})) hh",
            f"{head}{letter}s{names.binders} : Nat → Whole := fun {n} =>"
            f" {names.prefix}_{letter}a{names.arguments} {n} {high}",
        ]

    def term(self, at: Mapping[str, Form]) -> Value:
        """Return the summand at a point."""
        order = (self.claim.n, self.claim.k, DISTANCE)
        return self.names.value(self.letter, self.part, at, order)

    def bare(self, at: Mapping[str, Form]) -> Value:
        """Return the summand's factors at a point."""
        order = (self.claim.n, self.claim.k, DISTANCE)
        part = Part(self.claim.ring.one, 1, self.part.factors)
        return self.names.value(self.letter + "e", part, at, order)

    def at(self, n: Form, k: Form, j: Form) -> dict[str, Form]:
        """Make a point."""
        return {self.claim.n: n, self.claim.k: k, DISTANCE: j}

    def sum_at(self, n: Form) -> Atom:
        """The whole sum."""
        return Atom(self.names.call(self.letter + "s", n))

    # --- the telescoped sum -----------------------------------------------------------------

    def telescope(self, ratio: Fraction, start: int, recurrence: Sequence[Poly]) -> None:
        """Choose b, den and num; ``start`` is the first n that is used.

        Raises:
            Unprintable: If no denominator is seen to be positive.
        """
        self.recurrence, self.start = tuple(recurrence), start
        self.before_first = self.below(ratio).num
        claim, ring, k = self.claim, self.claim.ring, self.claim.k
        whole = to_term(ring, self.side.body, frozenset((k, claim.n)))
        ahead = [ring.shift(part, k, 1) for part in ratio]
        step = shift_quotient(ring, whole, k)
        trouble = ""
        for base in range(claim.order, -1, -1):
            back = shift_quotient(ring, whole, claim.n, base)
            num, den = ring.lowest_terms(
                ahead[0] * step.num * back.den * ring.shift(self.part.num, claim.n, base),
                ahead[1] * step.den * back.num,
            )
            try:
                self.den, sign = self.positive(den)
            except Unprintable as error:
                trouble = str(error)
                continue
            self.base, self.num = base, num * sign
            return
        raise Unprintable(f"hop: {trouble}")

    def below(self, ratio: Fraction) -> Fraction:
        """Return ``G(n,0) / E(n,0)``, 0 where R has a pole there; the kernel is the judge."""
        ring, k = self.claim.ring, self.claim.k
        both = ring.lowest_terms(ratio.num * self.part.num, ratio.den)
        num, den = (ring.put(part, k, ring.zero) for part in both)
        return ring.lowest_terms(num, den) if den != 0 else Fraction(ring.zero, ring.one)

    def positive(self, poly: Poly) -> tuple[list[Form | int], int]:
        """Write a polynomial as a sign times numbers and successors of natural forms.

        Raises:
            Unprintable: If it isn't seen to be positive from ``start`` on.
        """
        content, factors = poly.factor()
        found: list[Form | int] = []
        sign = 1 if int(content) > 0 else -1
        if abs(int(content)) != 1:
            found.append(abs(int(content)))
        for factor, multiplicity in factors:
            linear = self.claim.ring.linear(factor)
            if linear is None:
                raise Unprintable(f"that {factor} is positive")
            for way in (1, -1):
                form = self._successor_of(linear.times(way))
                if form is not None:
                    sign *= way ** int(multiplicity)
                    found += [form] * int(multiplicity)
                    break
            else:
                raise Unprintable(f"that {factor} is positive")
        return found, sign

    def _successor_of(self, linear: Linear) -> Form | None:
        """Return the form whose successor it is, in the n from ``start`` on, k and j."""
        ring, n, k = self.claim.ring, self.claim.n, self.claim.k
        counts: dict[str, int] = {}
        if (slope := ring.slope(linear, k)) < 0:
            linear = ring.put_linear(linear, k, self.high_linear)
            counts[DISTANCE] = -slope
        for name in ring.names:
            if count := ring.slope(linear, name):
                counts[name] = count
        # The form is in n - start, which is what the lemmas call n.
        constant = linear.constant + self.start * counts.get(n, 0) - 1
        good = constant >= 0 and min(counts.values(), default=0) >= 0
        if not good or set(counts) & self.names.variables.whole:
            return None
        return Form.of(counts, constant)

    def scale(self, at: Mapping[str, Form]) -> tuple[Positive, tuple[Positive, ...]]:
        """Return den at a point, and its factors; n itself is never moved."""
        leaves = {name: Leaf(form.text, leaf(form)[0]) for name, form in at.items()}
        factors: list[Positive] = []
        for form in self.den:
            if isinstance(form, int):
                factors.append(number(form))
            else:
                inside = {name: leaves[name] for name, _ in form.parts if name in leaves}
                factors.append(successor(form, inside))
        term: Term = product([factor.term for factor in factors]) if factors else One()
        return Positive(term, ""), tuple(factors)

    def theorems(self, closed: Sequence[tuple[str, Part]]) -> list[str]:
        """Prove the recurrence, with the closed form's parts on the other side.

        Raises:
            Unproved: If an equation can't be proved.
        """
        claim, names = self.claim, self.names
        letter, prefix = self.letter, self.names.prefix + "_" + self.letter
        n0 = Form(((claim.n, 1),), self.start)
        k, j = Form(((claim.k, 1),)), Form(((DISTANCE, 1),))
        high = self.high.put({claim.n: n0})
        coefficients = [names.poly(a, {claim.n: n0}) for a in self.recurrence]
        binder = f"{names.binders} ({claim.n} : Nat)"
        orders = range(len(coefficients))
        s = self.slope

        def point(i: int, at_k: Form, at_j: Form) -> dict[str, Form]:
            return self.at(n0.plus(i), at_k, at_j.plus(i * s))

        def weighted(atoms: Sequence[Term]) -> Term:
            return total([Times(a, y) for a, y in zip(coefficients, atoms, strict=True)])

        def num(at_k: Form) -> Term:
            return names.poly(self.num, {claim.n: n0, claim.k: at_k})

        def den(at_k: Form, at_j: Form) -> tuple[Positive, tuple[Positive, ...]]:
            return self.scale({claim.k: at_k, DISTANCE: at_j})

        def extra(*points: Mapping[str, Form]) -> list[Relation]:
            return [r for at in points for r in names.leaves(at)[1]]

        first = self.bare(self.at(n0, ZERO, high))
        fixed = Times(names.poly(self.before_first, {claim.n: n0}), first.name)
        has_fixed = self.before_first != 0

        def and_fixed(term: Term) -> Term:
            return Plus(term, fixed) if has_fixed else term

        lines: list[str] = []
        # start
        values = [self.term(point(i, ZERO, high)) for i in orders]
        bare = self.bare(point(self.base, ZERO, high))
        left = Times(den(ZERO, high)[0].term, and_fixed(weighted([v.name for v in values])))
        right = Times(num(ZERO), bare.name)
        everything = [*values, bare, *([first] if first.name != bare.name else [])]
        proof = self._named("start", left, right, everything, extra({"": high}))
        lines.append(f"theorem {prefix}_start{binder} : {_eq(left, right)} :=\n  {proof}")
        # hop
        k1, j1 = k.plus(1), j.plus(1)
        values = [self.term(point(i, k1, j)) for i in orders]
        before, after = self.bare(point(self.base, k, j1)), self.bare(point(self.base, k1, j))
        xx = Atom("xx")
        scale, scales = den(k, j1)
        known = Value(
            before.name, before.factors, before.at, None, (scale, scales, xx, num(k), "hx")
        )
        left = Times(den(k1, j)[0].term, Plus(xx, weighted([v.name for v in values])))
        right = Times(num(k1), after.name)
        distance = Relation(
            Atom(f"(Z.nm {DISTANCE})"),
            f"(via (turn (nmAdd Z {k1.text} {j.text})) (via (on1 Z.nm he) {high.proof}))",
            Plus(Plus(k.term, One()), j.term),
            high.term,
        )
        hypothesis = _eq(Times(scale.term, xx), Times(num(k), before.name))
        along = f"(he : Eq (Nat.add {k1.text} {DISTANCE}) {high.text})"
        proof = self._named("hop", left, right, [*values, known, after], [distance])
        lines.append(
            f"theorem {prefix}_hop{binder} ({claim.k} {DISTANCE} : Nat) {along} (xx : Whole)"
            f" (hx : {hypothesis}) : {_eq(left, right)} :=\n  {proof}"
        )
        # claim
        partial = [names.call(letter + "a", n0.plus(i), k) for i in orders]
        grown = [names.call(letter + "a", n0.plus(i), k1) for i in orders]
        grow: list[Relation] = []
        for i in orders:
            high_i = self.high.put({claim.n: n0.plus(i)})
            far = j.plus(i * s)
            add = f"(fun zz => wAdd {partial[i]} ({self._head()} {n0.plus(i).text} {k1.text} zz))"
            moved = f"(subOf {high_i.text} {k1.text} {far.text} {_lifted('he', i * s)})"
            proof = f"(@on1 Nat Whole {add} (sub {high_i.text} {k1.text}) {far.text} {moved})"
            grow.append(
                Relation(
                    Atom(grown[i]), proof, Atom(grown[i]), Plus(Atom(partial[i]), values[i].name)
                )
            )
        more = weighted([v.name for v in values])
        x_here = and_fixed(weighted([Atom(t) for t in partial]))
        x_next = and_fixed(weighted([Atom(t) for t in grown]))
        lines.append(
            f"theorem {prefix}_grow{binder} ({claim.k} {DISTANCE} : Nat) {along} :"
            f" {_eq(x_next, Plus(x_here, more))} :=\n"
            f"  {prove_equation(x_next, Plus(x_here, more), grow)}"
        )
        here = _eq(
            Times(den(k, j)[0].term, x_here),
            Times(num(k), self.bare(point(self.base, k, j)).name),
        )
        args = f"{names.arguments} {claim.n}"
        hop = f"({prefix}_hop{args} {claim.k} {DISTANCE} he {lean(x_here)} hx)"
        grow_call = f"({prefix}_grow{args} {claim.k} {DISTANCE} he)"
        lines.append(
            f"theorem {prefix}_claim{binder} : ({claim.k} {DISTANCE} : Nat) →"
            f" Eq (Nat.add {claim.k} {DISTANCE}) {high.text} → {here} :=\n"
            f"  along {high.text} (fun {claim.k} {DISTANCE} => {here}) ({prefix}_start{args})\n"
            f"    (fun {claim.k} {DISTANCE} he hx =>"
            f" via (on1 (wMul {lean(den(k1, j)[0].term)}) {grow_call}) {hop})"
        )
        # last
        bare = self.bare(point(self.base, high, ZERO))
        scale, scales = den(high, ZERO)
        known = Value(bare.name, bare.factors, bare.at, None, (scale, scales, xx, num(high), "hx"))
        beyond = [
            [
                self.term(self.at(n0.plus(i), high.plus(m), ZERO.plus(i * s - m)))
                for m in range(1, i * s + 1)
            ]
            for i in orders
        ]
        left = Plus(
            xx,
            total([
                Times(a, v.name) for a, vs in zip(coefficients, beyond, strict=True) for v in vs
            ]),
        )  # fmt: skip
        targets = [
            [names.value(name, part, {claim.n: n0.plus(i)}, (claim.n,)) for name, part in closed]
            for i in orders
        ]
        right = weighted([total([v.name for v in vs]) for vs in targets]) if closed else Num(0)
        aim = and_fixed(right)
        everything = [known, first, *(v for vs in (*beyond, *targets) for v in vs)]
        hypothesis = _eq(Times(scale.term, xx), Times(num(high), bare.name))
        proof = self._named("last", left, aim, everything, extra({claim.k: high}))
        lines.append(
            f"theorem {prefix}_last{binder} (xx : Whole) (hx : {hypothesis}) :"
            f" {_eq(left, aim)} :=\n  {proof}"
        )
        # the recurrence
        sums = [self.sum_at(n0.plus(i)) for i in orders]
        ends = [names.call(letter + "a", n0.plus(i), high) for i in orders]
        relations: list[Relation] = []
        for i in orders:
            text, term, proof = ends[i], Atom(ends[i]), "Eq.refl"
            so_far: Term = term
            for m, v in enumerate(beyond[i], start=1):
                high_i = self.high.put({claim.n: n0.plus(i)})
                at_k, far = high.plus(m), ZERO.plus(i * s - m)
                away = f"(sub {high_i.text} {at_k.text})"
                raw = f"({self._head()} {n0.plus(i).text} {at_k.text} {away})"
                moved = (
                    f"(@on1 Nat Whole (fun zz => {self._head()} {n0.plus(i).text} {at_k.text} zz)"
                    f" (sub {high_i.text} {at_k.text}) {far.text}"
                    f" (subOf {high_i.text} {at_k.text} {far.text} Eq.refl))"
                )
                proof = (
                    f"(@on2 Whole wAdd {text} {lean(so_far)} {raw} {v.name.lean} {proof} {moved})"
                )
                text, so_far = f"(wAdd {text} {raw})", Plus(so_far, v.name)
            relations.append(Relation(sums[i], proof, sums[i], so_far))
        x_end = and_fixed(weighted([Atom(t) for t in ends]))
        end = Plus(x_end, left.right)
        claimed = f"({prefix}_claim{args} {high.text} Nat.zero Eq.refl)"
        done = f"({prefix}_last{args} {lean(x_end)} {claimed})"
        proof = prove_equation(weighted(sums), right, relations, given=[(end, aim, done)])
        lines.append(f"theorem {prefix}_rec{binder} : {_eq(weighted(sums), right)} :=\n  {proof}")
        return lines

    def _head(self) -> str:
        return f"{self.names.prefix}_{self.letter}{self.names.arguments}"

    def _named(
        self, name: str, left: Term, right: Term, values: Sequence[Value],
        relations: Sequence[Relation],
    ) -> str:  # fmt: skip
        try:
            return prove_linear(left, right, values, relations)
        except Unproved as error:
            raise Unprintable(f"{name}: {error}") from None


def _lifted(proof: str, by: int) -> str:
    if not by:
        return proof
    inner = reduce(lambda text, _: f"(Nat.succ {text})", range(by), "zz")
    return f"(on1 (fun zz => {inner}) {proof})"


def _eq(left: Term, right: Term) -> str:
    return f"Eq {lean(left)} {lean(right)}"
