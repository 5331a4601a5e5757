"""A printed proof with obligations left open, and how a prover's term is put into it.

A term goes between parentheses into a theorem whose statement is ours, and nowhere else. It is
scanned like any foreign text; beyond that, its brackets must balance and it may hold no word that
begins a declaration, so it can't leave its place. The kernel judges the whole file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from icml.core.errors import UserError
from icml.wzllm.certificate import Certificate
from icml.wzllm.kernel.scan import Refused, scan
from icml.wzllm.lean.cancel import Cancel
from icml.wzllm.lean.equation import Unproved
from icml.wzllm.lean.printer import LeanProof, _Printer
from icml.wzllm.lean.sketch import Sketch, SubGoal
from icml.wzllm.lean.summand import Unprintable
from icml.wzllm.statement import Identity

__all__ = ["Draft", "as_term", "draft", "draft_of_sketch", "opened"]

MAX_TERM = 200_000  # characters, ours: the printer's longest proof of one obligation is shorter

_DECLARING = frozenset(
    [
        "theorem",
        "lemma",
        "def",
        "abbrev",
        "example",
        "noncomputable",
        "private",
        "protected",
        "where",
        "open",
        "end",
        "termination_by",
        "decreasing_by",
    ]
)
_BRACKETS = {")": "(", "]": "[", "}": "{", "⟩": "⟨"}
_HOLE = re.compile(r"^theorem (?P<name>\w+)(?P<says>[^\n]*) :=\n  \?(?P<goal>\w+)$", re.MULTILINE)


class Draft(NamedTuple):
    """The text of a proof in which ``?name`` stands for what is missing."""

    text: str
    theorem: str
    statement: str
    """What the kernel is asked about."""
    goals: tuple[SubGoal, ...]
    rewritings: tuple[str, ...] = ()

    def filled(self, terms: Mapping[str, str]) -> str:
        """Put terms, as :func:`as_term` returned them, into their places."""
        text = self.text
        for name, term in terms.items():
            text = re.sub(rf"\?{name}\b", lambda _, term=term: term, text)
        return text

    def alone(self, goal: str, term: str) -> tuple[str, str]:
        """Return the declarations up to one goal, filled, and its theorem's name.

        Goals before it that are open are left out.
        """
        found = next(hole for hole in _HOLE.finditer(self.text) if hole["goal"] == goal)
        before = _HOLE.sub("", self.text[: found.start()])
        return f"{before}theorem {found['name']}{found['says']} :=\n  {term}\n", found["name"]


def as_term(text: str) -> str:
    """Return a prover's text as a Lean term in parentheses.

    Raises:
        Refused: If it holds something that is never accepted, or could leave its place.

    Example:
        >>> as_term("fun n => Eq.refl")
        '(fun n => Eq.refl)'
    """
    if len(text) > MAX_TERM:
        raise Refused(f"a term of {len(text)} characters, at most {MAX_TERM} are read")
    bare = scan(text).strip()
    if not bare:
        raise Refused("the term is empty")
    for word in re.findall(r"[^\W\d]\w*", bare):
        if word in _DECLARING:
            raise Refused(f"the word {word} is not accepted in a term")
    if re.search(r"\?\w", bare):
        raise Refused("a hole (?) is not accepted in a term")
    open_ones: list[str] = []
    for sign in bare:
        if sign in _BRACKETS.values():
            open_ones.append(sign)
        elif sign in _BRACKETS and (not open_ones or open_ones.pop() != _BRACKETS[sign]):
            raise Refused(f"a bracket {sign} closes what the term hadn't opened")
    if open_ones:
        raise Refused(f"a bracket {open_ones[-1]} isn't closed")
    return "(" + bare.replace("\n", "\n    ") + ")"


def draft(certificate: Certificate, identity: Identity, *, theorem: str = "identity") -> Draft:
    """Print a proof, with a hole for each obligation that the printer can't do.

    Raises:
        Unprintable: If the statement itself can't be printed, so that there is nothing to fill.
    """
    printer = _Open(certificate, identity)
    printed = printer.proof(theorem, identity)
    return _draft(printed)


def opened(printed: LeanProof, names: Collection[str]) -> Draft:
    """Take the proofs of obligations out of a printed proof, as goals to practise on.

    Raises:
        UserError: If the proof has no obligation of that name.
    """
    text = printed.text
    for name in names:
        found = re.search(
            rf"^(theorem {printed.theorem}_{name}\b[^\n]* :=\n)((?:  [^\n]*\n)+)",
            text,
            re.MULTILINE,
        )
        if found is None:
            raise UserError(f"the printed proof has no obligation {name!r}")
        text = text[: found.start(2)] + f"  ?{name}\n" + text[found.end(2) :]
    return _draft(replace(printed, text=text))


def draft_of_sketch(sketch: Sketch) -> Draft:
    """Return a sketch for Mathlib as a draft; every hole is a goal.

    Raises:
        UserError: If the sketch is of another form.
    """
    found = re.match(r"theorem (\w+) ?([^\n]*) :\n    ([^\n]*) := by\n", sketch.text)
    if found is None:
        raise UserError("this sketch has no single theorem with holes")
    theorem, binders, says = found.groups()
    return Draft(sketch.text, theorem, f"∀ {binders}, {says}" if binders else says, sketch.holes)


def _draft(printed: LeanProof) -> Draft:
    goals = []
    for hole in _HOLE.finditer(printed.text):
        lines = printed.text[: hole.start()].splitlines()
        context = "\n".join(line for line in lines if line.startswith("noncomputable def "))
        goals.append(SubGoal(hole["goal"], context, hole["says"].strip()))
    return Draft(printed.text, printed.theorem, printed.statement, tuple(goals), printed.rewritings)


class _NoCancel(Cancel):
    """A leading coefficient of which the printer doesn't see that it can be cancelled."""

    def proof(self, coefficient: object, n: object) -> str:
        """Say so."""
        raise Unproved("the leading coefficient is positive")


class _Open(_Printer):
    """The printer with a hole where it would give up on one obligation."""

    def _recurrence(self) -> None:
        try:
            super()._recurrence()
        except Unprintable:
            if not hasattr(self, "down"):  # anything before the last obligation
                raise
            self.cancel = _NoCancel(1, ())

    def obligations(self) -> dict[str, Callable[[], str]]:
        """Return what proves each obligation, or its hole."""

        def tried(name: str, prove: Callable[[], str]) -> Callable[[], str]:
            def run() -> str:
                try:
                    return prove()
                except Unproved:
                    return f"?{name}"

            return run

        return {name: tried(name, prove) for name, prove in super().obligations().items()}
