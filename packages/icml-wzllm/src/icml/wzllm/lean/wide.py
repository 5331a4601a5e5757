"""From a certificate to a Lean proof, for sums whose terms are products of any known factors.

See :mod:`icml.wzllm.lean.ratios` for how equations between such products are proved, and
:mod:`icml.wzllm.lean.wide_side` for the sums. The sides agree at the first n (*base*), and their
common recurrence of order 1 or 2, whose leading coefficient is positive (*cancel*), does the rest.
A summand that doesn't contain n needs no certificate: *step* is ``T(n) + F(n+1) = T(n+1)``.
"""

from __future__ import annotations

import re
from functools import reduce

from icml.wzllm.certificate import Certificate
from icml.wzllm.expressions import Sum, free_names
from icml.wzllm.lean.equation import Unproved, prove_equation
from icml.wzllm.lean.linear import Value, prove_linear
from icml.wzllm.lean.naturals import Form
from icml.wzllm.lean.printer import LeanProof
from icml.wzllm.lean.ratios import number, successor
from icml.wzllm.lean.readback import Unfaithful, how_restated
from icml.wzllm.lean.summand import Unprintable, Variables, whole_parameters
from icml.wzllm.lean.terms import Atom, Num, Plus, Term, Times, lean, total
from icml.wzllm.lean.wide_names import Names
from icml.wzllm.lean.wide_read import Reader, clear
from icml.wzllm.lean.wide_side import MAX_START, SumSide
from icml.wzllm.ring import Fraction
from icml.wzllm.shape import reshape
from icml.wzllm.statement import Identity
from icml.wzllm.verification import read_claim

MAX_TEXT = 400_000
"""Characters of a proof without parameters, half of it with one, a third with two; ours.

Chosen after the suite's proofs had been tried, see NOTES.md: Lean checks the shorter ones.
"""

_SAFE = re.compile(r"[a-z]")


def print_wide(
    certificate: Certificate, identity: Identity, *, theorem: str, means: Identity
) -> LeanProof:
    """Print the proof that a certificate gives; see :func:`icml.wzllm.lean.printer.print_proof`.

    Raises:
        Unprintable: If the printer can't do an obligation; names it.
    """
    try:
        proof = _Wide(certificate, identity, theorem).proof(means)
    except RecursionError:
        raise Unprintable("an equation with too many terms to print") from None
    limit = MAX_TEXT // len(identity.vars)
    if len(proof.text) > limit:
        raise Unprintable(
            f"a proof of {len(proof.text) // 1000} kB; what Lean checks in time and memory are"
            f" {limit // 1000} kB"
        )
    return proof


class _Wide:
    def __init__(self, certificate: Certificate, identity: Identity, theorem: str) -> None:
        self.identity, self.theorem = identity, theorem
        shape = reshape(identity)
        self.claim = claim = read_claim(certificate, shape)
        for name in claim.ring.names:
            if not _SAFE.fullmatch(name):
                raise Unprintable(f"a statement with the variable {name}; only single letters")
        other = shape.other
        bodies = (shape.sum.body, other.body if isinstance(other, Sum) else other)
        whole = whole_parameters(claim.ring, claim.k, claim.n, bodies)
        variables = Variables(claim.ring, claim.k, claim.n, whole)
        kinds = [(name, "Whole" if name in whole else "Nat") for name in variables.parameters]
        self.binders = [f"({name} : {kind})" for name, kind in kinds]
        binders = "".join(f" {binder}" for binder in self.binders)
        arguments = "".join(f" {name}" for name, _ in kinds)
        self.names = Names(theorem, variables, binders, arguments)
        self.left = SumSide(self.names, claim, shape.sum, "F")
        self.right = SumSide(self.names, claim, other, "G") if isinstance(other, Sum) else None
        parts = [] if isinstance(other, Sum) else Reader(variables).parts(other)
        self.closed = [(f"T{i}", part) for i, part in enumerate(parts)]
        sides = [[self.left.part], [self.right.part] if self.right else parts]
        clear(sides)

    # --- text -------------------------------------------------------------------------------

    def _other_text(self) -> str:
        if self.right is not None:
            return self._sum_text(self.right)
        return lean(total([Atom(self.names.body(part)) for _, part in self.closed]))

    def _sum_text(self, side: SumSide) -> str:
        high, k = side.high.text, self.claim.k
        return f"(sumTo Z (fun {k} => {side.summand_at(high, k)}) {high})"

    def proof(self, means: Identity) -> LeanProof:
        """Put everything together."""
        n = self.claim.n
        lines = list(self.left.definitions())
        head = f"noncomputable def {self.theorem}_"
        binders = self.names.binders
        for name, part in self.closed:
            body = self.names.body(part)
            lines.append(f"{head}{name}{binders} : Nat → Whole := fun {n} => {body}")
        if self.right is not None:
            lines += self.right.definitions()
            other = f"fun {n} => {self.right.sum_at(Form(((n, 1),))).lean}"
        else:
            calls = [Atom(self.names.call(name, Form(((n, 1),)))) for name, _ in self.closed]
            other = f"fun {n} => {lean(total(calls))}"
        lines.append(f"{head}T{binders} : Nat → Whole := {other}")
        simple = n not in free_names(self.left.side.body) and self.left.high == Form(((n, 1),))
        try:
            if simple and self.right is None:
                lines += self._direct()
            else:
                lines += self._by_recurrence()
        except Unproved as error:
            raise Unprintable(f"{error}") from None
        conclusion = f"Eq {self._sum_text(self.left)} {self._other_text()}"
        call = f"{self.theorem}_all{self.names.arguments} {n}"
        lines.append(f"theorem {self.theorem}{binders} ({n} : Nat) : {conclusion} :=\n  {call}")
        statement = " → ".join([*self.binders, f"({n} : Nat)", conclusion])
        try:
            rewritings = how_restated(statement, means)
        except Unfaithful as error:
            raise Unprintable(f"the statement itself: {error}") from None
        text = "\n\n".join(lines) + "\n"
        return LeanProof(text, self.theorem, statement, rewritings)

    def _goal(self, n: Form) -> str:
        return f"Eq {self.left.sum_at(n).lean} {self.names.call('T', n)}"

    def _values(self, n: Form) -> list[Value]:
        at = {self.claim.n: n}
        return [self.names.value(name, part, at, (self.claim.n,)) for name, part in self.closed]

    def _base(self, value: int) -> str:
        """Prove that both sides agree at a number."""
        n = Form((), value)

        def opened(side: SumSide) -> tuple[Term, list[Value]]:
            high = side.high.put({self.claim.n: n}).constant
            values = [side.term(side.at(n, Form((), k), Form((), high - k)))
                      for k in range(high + 1)]  # fmt: skip
            terms: list[Term] = [v.name for v in values]
            return reduce(Plus, terms[1:], terms[0]), values

        left, values = opened(self.left)
        if self.right is None:
            others = self._values(n)
            right = total([v.name for v in others])
        else:
            right, others = opened(self.right)
        try:
            proof = prove_linear(left, right, [*values, *others])
        except Unproved as error:
            raise Unprintable(f"base {self.claim.n} = {value}: {error}") from None
        name = f"{self.theorem}_base{value}{self.names.binders}"
        return f"theorem {name} : Eq {lean(left)} {lean(right)} :=\n  {proof}"

    def _direct(self) -> list[str]:
        """Induct on n, adding one term."""
        n = self.claim.n
        here, ahead = Form(((n, 1),)), Form(((n, 1),), 1)
        new = self.left.term(self.left.at(ahead, ahead, Form(())))
        now, then = self._values(here), self._values(ahead)
        left = Plus(total([v.name for v in now]), new.name)
        right = total([v.name for v in then])
        try:
            step = prove_linear(left, right, [*now, new, *then])
        except Unproved as error:
            raise Unprintable(f"step: {error}") from None
        args = self.names.arguments
        name, binder = self.theorem, f"{self.names.binders} ({n} : Nat)"
        # The term is F(n+1, k, j) at k = n+1: it contains neither n nor j.
        return [
            self._base(0),
            f"theorem {name}_step{binder} : Eq {lean(left)} {lean(right)} :=\n  {step}",
            f"theorem {name}_all{binder} : {self._goal(here)} :=\n"
            f"  byOne (fun {n} => {self._goal(here)}) ({name}_base0{args})\n"
            f"    (fun {n} ih => via (on1 (fun zz => wAdd zz {new.name.lean}) ih)"
            f" ({name}_step{args} {n})) {n}",
        ]

    def _by_recurrence(self) -> list[str]:
        claim, trouble = self.claim, ""
        if claim.order > 2:
            raise Unprintable(f"a recurrence of order {claim.order}")
        sides = [(self.left, claim.ratio)]
        if self.right is not None:
            assert claim.right is not None
            sides.append((self.right, claim.right))
        below = [side.below(ratio).den for side, ratio in sides]
        scale = below[0] * below[-1] / below[0].gcd(below[-1])
        for start in range(MAX_START + 1):
            self.left.start = start
            try:
                leading, sign = self.left.positive(claim.recurrence[-1] * scale)
                recurrence = [a * scale * sign for a in claim.recurrence]
                for side, ratio in sides:
                    side.telescope(Fraction(ratio.num * scale * sign, ratio.den), start, recurrence)
                return self._with_start(start, leading, recurrence)
            except (Unprintable, Unproved) as error:
                trouble = trouble or str(error)
        raise Unprintable(trouble.removeprefix("no printed proof of "))

    def _with_start(self, start: int, leading: list, recurrence: list) -> list[str]:
        claim, names, n = self.claim, self.names, self.claim.n
        order = claim.order
        lines = self.left.theorems(self.closed)
        if self.right is not None:
            lines += self.right.theorems([])
        lines += [self._base(value) for value in range(start + order)]
        n0 = Form(((n, 1),), start)
        at = {n: n0}
        coefficients = [names.poly(a, at) for a in recurrence]
        factors = [number(f) if isinstance(f, int) else successor(f) for f in leading]
        term, can = (factors[-1].term, factors[-1].proof) if factors else (Num(1), "canOne")
        for factor in reversed(factors[:-1]):
            can = f"(canMul {lean(factor.term)} {lean(term)} {factor.proof} {can})"
            term = Times(factor.term, term)
        equal = prove_equation(term, coefficients[-1])
        binder = f"{names.binders} ({n} : Nat)"
        args = f"{names.arguments} {n}"
        cancel = f"(canEq {lean(term)} {lean(coefficients[-1])} {equal} {can})"
        name = self.theorem
        lines.append(f"theorem {name}_cancel{binder} : Can {lean(coefficients[-1])} :=\n  {cancel}")
        sums = [self.left.sum_at(n0.plus(i)).lean for i in range(order + 1)]
        others = [names.call("T", n0.plus(i)) for i in range(order + 1)]
        rec = f"({name}_F_rec{args})"
        if self.right is not None:
            rec = f"(via {rec} (turn ({name}_G_rec{args})))"
        texts = [lean(a) for a in coefficients]
        pairs = " ".join(f"{a} {b}" for a, b in zip(sums, others, strict=True))
        cancelled = f"({name}_cancel{args})"
        if order == 0:
            inner = f"({cancelled} {pairs} {rec})"
        elif order == 1:
            inner = (
                f"(byOne (fun {n} => {self._goal(n0)}) ({name}_base{start}{names.arguments})"
                f" (fun {n} ih => nextOf1 {' '.join(texts)} {pairs} {cancelled} {rec} ih) {n})"
            )
        else:
            bases = " ".join(f"({name}_base{start + i}{names.arguments})" for i in range(2))
            inner = (
                f"(byTwo (fun {n} => {self._goal(n0)}) {bases}"
                f" (fun {n} ih ig => nextOf2 {' '.join(texts)} {pairs} {cancelled} {rec} ih ig)"
                f" {n})"
            )
        for value in range(start - 1, -1, -1):
            goal = self._goal(Form(((n, 1),), value))
            inner = (
                f"(Nat.rec (motive := fun {n} => {goal}) ({name}_base{value}{names.arguments})"
                f" (fun {n} _ => {inner}) {n})"
            )
        here = self._goal(Form(((n, 1),)))
        lines.append(f"theorem {name}_all{binder} : {here} :=\n  {inner}")
        return lines
