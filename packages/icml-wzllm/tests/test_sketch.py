"""Sketches: each obligation is a hole, each hole is true, and a sketch with holes is no proof."""

import re
from fractions import Fraction
from math import comb

import pytest

from icml.core.errors import UserError
from icml.wzllm.certify import certify
from icml.wzllm.lean.sketch import sketch
from icml.wzllm.statement import Identity

N, Z, Q = "\u2115", "\u2124", "\u211a"  # Mathlib's number sets

GOALS = ["rec", "start", "last", "final", "closed", "cancel", "zero", "conclude"]
STATEMENTS = [
    "sum(k,0,n,binomial(n,k)) = 2^n",
    "sum(k,0,n,binomial(n,k)^2) = binomial(2*n,n)",
    "sum(k,0,n,k*binomial(n,k)^2) = n*binomial(2*n,n)/2",
    "sum(k,0,n,k*binomial(n,k)) = n*2^(n-1)",
    "sum(k,0,n,2^k*binomial(n,k)) = 3^n",
]


def sketched(text, **options):
    identity = Identity.parse(text)
    certificate = certify(identity).certificate
    assert certificate is not None
    return sketch(certificate, identity, **options)


def python(lean: str) -> str:
    """Translate one line of a sketch into Python with Lean's meaning, as far as sketches go."""
    number = r"(\(.*?\)|\S+)"
    text = re.sub(rf"\(Nat\.choose {number} {number} : {Q}\)", r"Q(comb(\1, \2))", lean)
    text = re.sub(rf"\((\w+) : {Q}\)", r"Q(\1)", text)
    text = re.sub(rf"\((\w+) : {Z}\)", r"(\1)", text)
    text = re.sub(r"\b([FG]) (\(.*?\)|\w+) (\(.*?\)|\w+)", r"\1(\2, \3)", text)
    text = re.sub(r"\b([Tf]) (\(.*?\)|\w+)", r"\1(\2)", text)
    return text.replace("^", "**").replace(" = ", " == ").replace("≠", "!=").replace("∧", "and")


def holds(sketched_proof, goal, n, k) -> bool:
    """Evaluate a goal at a point by its own definitions."""
    scope = {"Q": Fraction, "comb": comb, "n": n, "k": k}
    for line in goal.context.splitlines():
        name, body = re.match(r"let (\w) : .*? := (.*)", line).groups()
        arguments, body = re.match(r"fun (.*?) => (.*)", body).groups()
        arguments = ", ".join(arguments.split())
        if name == "f":
            high = re.search(r"Finset.range (\(.*\)), F", body)[1]
            body = f"sum(F(n, k) for k in range({high}))"
        scope[name] = eval(f"lambda {arguments}: {python(body)}", scope)
    *conditions, claim = re.sub(rf"^∀ [\w ]+ : {N}, ", "", goal.statement).split(" → ")
    return not all(eval(python(c), scope) for c in conditions) or eval(python(claim), scope)


@pytest.mark.parametrize("text", STATEMENTS)
def test_each_obligation_is_a_hole_and_true_at_small_numbers(text):
    plan = sketched(text)
    assert [goal.name for goal in plan.holes] == GOALS
    for goal in plan.holes:
        assert f"have {goal.name} : {goal.statement} := by" in plan.text
        assert f"exact ?{goal.name}\n" in plan.text
        for n in range(4):
            for k in range(10):
                assert holds(plan, goal, n, k), (goal.name, n, k)


def test_wrong_obligation_is_seen_as_wrong():
    # Guards the evaluation above: the same plan for another closed form.
    plan = sketched(STATEMENTS[0])
    closed = next(goal for goal in plan.holes if goal.name == "closed")
    other = closed.context.replace(f"(2 : {Q})", f"(3 : {Q})")
    wrong = type(closed)(closed.name, other, closed.statement)
    assert not holds(plan, wrong, 1, 0)


def test_sketch_with_holes_is_no_proof():
    assert not sketched(STATEMENTS[0]).is_proof


def test_filled_holes_are_gone():
    plan = sketched(STATEMENTS[0])
    partly = plan.fill({"zero": "norm_num"})
    assert "zero" not in [goal.name for goal in partly.holes]
    assert "?zero" not in partly.text
    assert not partly.is_proof
    assert plan.fill(dict.fromkeys(GOALS, "simp")).is_proof


def test_unknown_hole_is_refused():
    with pytest.raises(KeyError, match="no hole 'other'"):
        sketched(STATEMENTS[0]).fill({"other": "simp"})


def test_prelude_sketch_is_the_printed_proof():
    plan = sketched(STATEMENTS[0], style="prelude")
    assert plan.is_proof
    assert "theorem identity (n : Nat) :" in plan.text


@pytest.mark.parametrize(
    ("text", "style", "why"),
    [
        ("sum(k,0,n,binomial(n,k)/(k+1)) = (2^(n+1)-1)/(n+1)", "prelude", "denominator"),
        ("sum(k,0,n,k^2) = n*(n+1)*(2*n+1)/6", "mathlib", "leaves something over"),
        (
            "sum(k,0,n,binomial(m,k)*binomial(r,n-k))=binomial(m+r,n)",
            "mathlib",
            "natural numbers",
        ),
    ],
)
def test_what_cannot_be_sketched_says_why(text, style, why):
    with pytest.raises(UserError, match=why):
        sketched(text, style=style)
