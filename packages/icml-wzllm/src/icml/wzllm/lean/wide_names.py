"""What a wide proof's declarations are called, and its variables as whole numbers in Lean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from icml.wzllm.lean.equation import Relation
from icml.wzllm.lean.linear import Value
from icml.wzllm.lean.naturals import Form
from icml.wzllm.lean.summand import Variables
from icml.wzllm.lean.terms import Atom, Num, One, Plus, Term, Times, from_poly, lean, product
from icml.wzllm.lean.wide_read import Part
from icml.wzllm.ring import Poly


def leaf(form: Form) -> tuple[Term, list[Relation]]:
    """Return a number's text as a ring element by definition, and what it is."""
    inner = form.plus(-form.constant)
    relations: list[Relation] = []
    if not inner.parts:
        term: Term = Num(0)
    else:
        term = Atom(f"(Z.nm {inner.text})")
        if len(inner.parts) > 1 or inner.parts[0][1] > 1:
            relations = [Relation(term, inner.proof, term, inner.term)]
    return reduce(lambda t, _: Plus(t, One()), range(form.constant), term), relations


@dataclass
class Names:
    """What the declarations of a proof are called, and the statement's variables."""

    prefix: str
    variables: Variables
    binders: str
    arguments: str

    def call(self, name: str, *forms: Form) -> str:
        """Apply one of our definitions."""
        texts = "".join(f" {form.text}" for form in forms)
        return f"({self.prefix}_{name}{self.arguments}{texts})"

    def leaves(self, at: Mapping[str, Form]) -> tuple[list[Term], list[Relation]]:
        """Return what stands for each variable of the ring at a point."""
        found: list[Term] = []
        relations: list[Relation] = []
        for name in self.variables.ring.names:
            if name in self.variables.whole:
                found.append(Atom(name))
            else:
                term, more = leaf(at.get(name, Form(((name, 1),))))
                found.append(term)
                relations += more
        return found, relations

    def poly(self, poly: Poly, at: Mapping[str, Form]) -> Term:
        """Return a polynomial at a point, as it comes out of its definition."""
        return from_poly(poly, self.leaves(at)[0])

    def body(self, part: Part) -> str:
        """Return a part as Lean text in its variables."""
        factors: list[Term] = [Atom(factor.text) for factor in part.factors]
        written = self.poly(part.num, {})
        if not factors:
            return lean(written)
        return lean(product(factors) if part.num == 1 else Times(written, product(factors)))

    def value(self, name: str, part: Part, at: Mapping[str, Form], order: Sequence[str]) -> Value:
        """Return a part at a point, under the name of its definition."""
        atom = Atom(self.call(name, *(at[index] for index in order)))
        raw = None if part.num == 1 else self.poly(part.num, at)
        return Value(atom, tuple(part.factors), at, raw)
