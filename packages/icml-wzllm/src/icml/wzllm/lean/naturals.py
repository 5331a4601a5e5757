"""Natural numbers of Lean as linear forms: one text for each form, and what it is as a number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from icml.wzllm.lean.equation import prove_equation
from icml.wzllm.lean.terms import Atom, Num, One, Plus, Term, Times, lean

ONE = lean(One())


@dataclass(frozen=True)
class Form:
    """``sum of count * name + constant``, all of them natural."""

    parts: tuple[tuple[str, int], ...]
    """Names with their counts, which are 1 or more, in order."""
    constant: int = 0

    @classmethod
    def of(cls, counts: Mapping[str, int], constant: int = 0) -> Form:
        """Make a form; counts of 0 are left out."""
        return cls(tuple(sorted((n, c) for n, c in counts.items() if c)), constant)

    @property
    def is_constant(self) -> bool:
        """Whether it is a number."""
        return not self.parts

    def plus(self, number: int) -> Form:
        """Add a number."""
        return Form(self.parts, self.constant + number)

    def put(self, values: Mapping[str, Form]) -> Form:
        """Put forms in place of names."""
        counts: dict[str, int] = {}
        constant = self.constant
        for name, count in self.parts:
            value = values.get(name, Form(((name, 1),)))
            constant += count * value.constant
            for other, times in value.parts:
                counts[other] = counts.get(other, 0) + count * times
        return Form.of(counts, constant)

    @property
    def text(self) -> str:
        """The form in Lean."""
        return self.text_with({})

    def text_with(self, texts: Mapping[str, str]) -> str:
        """Return the form in Lean with texts in place of names."""
        items = [_times(count, texts.get(name, name)) for name, count in self.parts]
        inner = reduce(lambda rest, item: f"(Nat.add {item} {rest})", reversed(items[:-1]),
                       items[-1]) if items else "Nat.zero"  # fmt: skip
        return reduce(lambda text, _: f"(Nat.succ {text})", range(self.constant), inner)

    def term_with(self, leaves: Mapping[str, Term]) -> Term:
        """Return the form as a ring element of the same shape as its text."""
        items = [leaves[n] if c == 1 else Times(Num(c), leaves[n]) for n, c in self.parts]
        inner: Term = (
            reduce(lambda rest, item: Plus(item, rest), reversed(items[:-1]), items[-1])
            if items
            else Num(0)
        )
        return reduce(lambda term, _: Plus(term, One()), range(self.constant), inner)

    @property
    def term(self) -> Term:
        """The form as a whole number in Lean."""
        return self.term_with({name: Atom(f"(Z.nm {name})") for name, _ in self.parts})

    @property
    def proof(self) -> str:
        """A Lean proof of ``Z.nm text = term``."""
        return self.proof_with({})

    def proof_with(self, leaves: Mapping[str, Leaf]) -> str:
        """Return a Lean proof that the text with leaves put in is the term with them."""
        items = [(leaves.get(n) or Leaf(n, Atom(f"(Z.nm {n})")), c) for n, c in self.parts]
        proof, _, term = _proof(items)
        for _ in range(self.constant):
            if proof != "Eq.refl":
                proof = f"(on1 (fun zz => wAdd zz {ONE}) {proof})"
            term = f"(wAdd {term} {ONE})"
        return proof


class Leaf(NamedTuple):
    """A text in place of a name; ``Z.nm text`` is the term by definition."""

    text: str
    term: Term


def _times(count: int, text: str) -> str:
    return text if count == 1 else f"(Nat.mul {count} {text})"


def _proof(items: Sequence[tuple[Leaf, int]]) -> tuple[str, str, str]:
    if not items:
        return "Eq.refl", "Nat.zero", "(Whole.pos Nat.zero)"
    (leaf, count), *rest = items
    text = _times(count, leaf.text)
    term = lean(leaf.term if count == 1 else Times(Num(count), leaf.term))
    proof = "Eq.refl" if count == 1 else f"(nmMul Z {count} {leaf.text})"
    if not rest:
        return proof, text, term
    proof2, text2, term2 = _proof(rest)
    added = (
        f"(via (nmAdd Z {text} {text2})"
        f" (@on2 Whole wAdd (Z.nm {text}) {term} (Z.nm {text2}) {term2} {proof} {proof2}))"
    )
    return added, f"(Nat.add {text} {text2})", f"(wAdd {term} {term2})"


def same_number(form: Form, at: Mapping[str, Form]) -> tuple[str, str, str]:
    """Put forms in place of names, in Lean.

    Returns:
        The text as it comes out of putting, the text of the resulting form, a proof that both are
        the same number.
    """
    raw = form.text_with({name: value.text for name, value in at.items()})
    done = form.put(at)
    if raw == done.text:
        return raw, raw, "Eq.refl"
    names = {name for value in (*at.values(), form) for name, _ in value.parts}
    leaves: dict[str, Term] = {name: Atom(name) for name in names}
    put = {name: value.term_with(leaves) for name, value in at.items()}
    proof = prove_equation(
        form.term_with({**leaves, **put}), done.term_with(leaves), ring="natRing"
    )
    return raw, done.text, proof


def names_of(forms: Iterable[Form]) -> set[str]:
    """Return all names that occur."""
    return {name for form in forms for name, _ in form.parts}
