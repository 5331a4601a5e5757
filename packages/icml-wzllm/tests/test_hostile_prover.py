"""Provers that propose hostile Lean for an obligation: the real kernel contains all of it."""

import re
import time

import pytest

from icml.wzllm import Candidate, Identity, Proposed, Status, prove
from icml.wzllm.certify import certify
from icml.wzllm.kernel import WheelKernel
from icml.wzllm.lean.mathlib import NAT
from icml.wzllm.lean.printer import print_proof
from icml.wzllm.provers.obligations import as_term, draft, draft_of_sketch, opened
from icml.wzllm.provers.settling import settle

QUADRATIC = Identity.parse("sum(k,0,n,(k+1)*(k+2)*binomial(n,k)) = (n^2+7*n+8)*2^n/4")
"""Its recurrence's leading coefficient has no real root in whole numbers: the printer doesn't see
that it is positive."""

_N, _SEVEN = "(Z.nm n)", "(Z.nm 7)"
_REST = f"(wAdd (wMul {_N} {_N}) (wAdd (wMul {_SEVEN} {_N}) {_SEVEN}))"
_ONE = "(Whole.pos (Nat.succ Nat.zero))"
_EX = "(Ex.mul (Ex.at 0) (Ex.at 0))"
_LOWER = f"(Ex.add {_EX} (Ex.add (Ex.mul (Ex.num 7) (Ex.at 0)) (Ex.num 7)))"
_UPPER = f"(Ex.add {_EX} (Ex.add (Ex.mul (Ex.num 7) (Ex.at 0)) (Ex.num 8)))"
CANCEL = f"""
canEq (wAdd {_REST} {_ONE}) (identity_P n)
  (byNorm Z (Env.cons {_N} Env.nil) (Ex.add {_LOWER} Ex.one) {_UPPER} Eq.refl)
  (canNm (Nat.add (Nat.mul n n) (Nat.add (Nat.mul 7 n) 7)) {_REST}
    (via (nmAdd Z (Nat.mul n n) (Nat.add (Nat.mul 7 n) 7))
      (@on2 Whole wAdd (Z.nm (Nat.mul n n)) (wMul {_N} {_N})
        (Z.nm (Nat.add (Nat.mul 7 n) 7)) (wAdd (wMul {_SEVEN} {_N}) {_SEVEN})
        (nmMul Z n n)
        (via (nmAdd Z (Nat.mul 7 n) 7)
          (@on2 Whole wAdd (Z.nm (Nat.mul 7 n)) (wMul {_SEVEN} {_N}) {_SEVEN} {_SEVEN}
            (nmMul Z 7 n) Eq.refl)))))
  a b h
"""
"""n^2 + 7 n + 8 is the successor of a natural number."""


class Scripted:
    """Proposes an answer for statements and terms for obligations."""

    name = "scripted"

    def __init__(self, *terms):
        self.terms = terms
        self.goals = []

    def propose(self, goals, n, seed):
        return [self._one(goal) for goal in goals]

    def _one(self, goal):
        if isinstance(goal, Identity):
            found = certify(goal, min_order=1).certificate
            return Proposed((Candidate("certificate", found.to_json()),))
        self.goals.append(goal.name)
        terms = self.terms[0].get(goal.name, ()) if isinstance(self.terms[0], dict) else self.terms
        return Proposed(tuple(Candidate("term", term) for term in terms))


def attempts(proof):
    return [attempt for attempt in proof.attempts if attempt.goal != "statement"]


@pytest.mark.kernel
def test_a_prover_closes_what_the_printer_leaves_open():
    before = prove(QUADRATIC, prover=Scripted("Eq.refl"), tier="kernel", budget_s=60)
    assert before.status is Status.CERTIFIED
    assert [goal.name for goal in before.open_goals] == ["cancel"]
    assert "is positive" in before.detail
    prover = Scripted("h", f"```lean\n{CANCEL}```")
    proof = prove(QUADRATIC, prover=prover, tier="kernel", budget_s=60)
    assert [attempt.accepted for attempt in attempts(proof)] == [False, True]
    assert proof.status is Status.PROVED
    assert (proof.verdict.accepted, proof.verdict.axioms) == (True, ())
    assert "obligations proved by scripted (cancel)" in proof.detail
    assert "restated for the kernel: both sides multiplied by 4" in proof.detail
    assert proof.open_goals == ()


REFUSED_UNSEEN = [
    ("sorry", "the word sorry"),
    ("by sorry", "the word sorry"),
    ("(sorryAx _ false)", "the word sorryAx"),
    ("by admit", "the word admit"),
    ("h) axiom cheat : False theorem x : P := (h", "the word axiom"),
    ("h\n\naxiom cheat : False", "the word axiom"),
    ("h) theorem identity_b : Eq a a := (Eq.refl", "the word theorem"),
    ("h) unsafe def f := (h", "the word unsafe"),
    ("@[implemented_by g] h", "an attribute"),
    ("h) attribute [implemented_by g] f", "the word attribute"),
    ("by native_decide", "the word native_decide"),
    ("Lean.ofReduceBool", "the word ofReduceBool"),
    ('h)\n#eval IO.FS.writeFile "/tmp/x" "y"', "a command that begins with #"),
    ("h)\nrun_cmd throw", "the word run_cmd"),
    ("h)\nmacro_rules | `(identity_P) => `(0)", "a quoted name or syntax"),
    ('h)\nnotation "Eq" => Ne', "a string"),
    ("h)\nlocal infix:50 x => Eq", "the word local"),
    ("h)\nset_option debug.skipKernelTC true", "the word set_option"),
    ("h)\nimport Lean", "the word import"),
    ("by_elab do return x", "the word by_elab"),
    ("h)\ninstance : C := (h", "the word instance"),
    ("h) end (h", "the word end"),
    ("?cancel", "a hole (?)"),
    ("h)", "a bracket ) closes"),
    ("(h", "a bracket ( isn't closed"),
    ("h) (h", "a bracket ) closes"),
    ("(h]", "a bracket ] closes"),
    ("h /- ", "a comment doesn't end"),
    ("h -/", "a comment ends"),
    ("\uff53\uff4f\uff52\uff52\uff59", "the word sorry"),  # full-width sorry
    ("h\u202e", "U+202E"),
    ("h\u200b", "U+200B"),
    ("«sorry»", "a quoted identifier"),
    ("", "the term is empty"),
    ("-- nothing", "the term is empty"),
    ("x" * 200_001, "200001 characters"),
    ("x" * 10**8, "100000000 characters, at most 1000000 are read"),
]


@pytest.mark.parametrize(("term", "reason"), REFUSED_UNSEEN)
def test_what_can_not_be_a_term_is_refused_before_lean_sees_it(term, reason):
    class NoKernel:
        backend = "none"

        def check(self, *arguments):
            raise AssertionError("Lean was shown the text")

    found = certify(QUADRATIC, min_order=1).certificate
    start = time.monotonic()
    done = settle(draft(found, QUADRATIC), [Scripted(term)], NoKernel(), n=1, seed=0, budget_s=60)
    assert time.monotonic() - start < 5
    assert done.text is None
    (attempt,) = done.attempts
    assert not attempt.accepted
    assert reason in attempt.reason


REFUSED_BY_LEAN = [
    "h",
    "this is not Lean at all",
    "fun x => x",
    "identity_cancel n a b h",  # itself
    "identity n",  # comes later
    "let identity_P := fun n => 0; h",
    "Nat.rec (motive := fun _ => Eq a b) (h) (fun _ x => x) n",
    "s\u043erry",  # with a Cyrillic o, which is another word
    "by decide",
    "by exact h",
    "(fun (P : Prop) (x : P) => x) (Eq a b) (by assumption)",
]


@pytest.mark.kernel
@pytest.mark.parametrize(
    "terms", [REFUSED_BY_LEAN[:2], pytest.param(REFUSED_BY_LEAN[2:], marks=pytest.mark.slow)]
)
def test_terms_that_prove_something_else_are_refused_by_the_kernel(terms):
    found = certify(QUADRATIC, min_order=1).certificate
    prover = Scripted(*terms)
    made = draft(found, QUADRATIC)
    done = settle(made, [prover], WheelKernel(), n=len(terms), seed=0, budget_s=60 * len(terms))
    assert done.text is None
    assert [attempt.text for attempt in done.attempts] == terms
    assert not any(attempt.accepted for attempt in done.attempts)
    assert all(attempt.reason.startswith("the kernel: line ") for attempt in done.attempts)


@pytest.mark.kernel
def test_axioms_behind_the_scan_are_seen_by_the_kernel(monkeypatch):
    """Even if the scan let a declaration through, the re-check would name the axiom."""
    from icml.wzllm.kernel import judge

    monkeypatch.setattr(judge, "scan", lambda text, taken=(): text)
    found = certify(QUADRATIC, min_order=1).certificate
    made = draft(found, QUADRATIC)
    text = made.filled({"cancel": "cheat n a b h"})
    place = text.index("theorem identity_cancel")
    text = text[:place] + f"axiom cheat {made.goals[0].statement}\n" + text[place:]
    verdict = WheelKernel().check(text, made.theorem, made.statement, 60)
    assert not verdict.accepted
    assert verdict.axioms == ("cheat",)
    assert "the proof rests on cheat" in verdict.messages


def endless() -> str:
    """Return a term whose checking takes far more time and memory than there is."""
    number = "(Nat.succ (Nat.succ (Nat.succ Nat.zero)))"
    for _ in range(6):
        number = f"(Nat.mul {number} {number})"
    return f"(fun (x : Eq (choose {number} {number}) Nat.zero) => h) Eq.refl"


@pytest.mark.kernel
@pytest.mark.slow
@pytest.mark.parametrize(
    ("term", "memory_mb", "budget_s", "reason"),
    [
        (endless(), 130, 60, "the kernel: .*(memory|more than 130 MB)"),
        (endless(), 2000, 3, r"the kernel: stopped after 1\.\d+ s"),
        ("by repeat (first | skip | assumption)", 512, 60, "the kernel: line "),
        ("(" * 20_000 + "h" + ")" * 20_000, 512, 60, "the kernel: "),
        ("fun " + " ".join(f"x{i}" for i in range(30_000)) + " => h", 512, 60, "the kernel: "),
        (f"(Eq.refl : Eq {'9' * 150_000} n)", 512, 60, "the kernel: "),
    ],
    ids=["memory", "time", "tactics", "nesting", "names", "number"],
)
def test_loops_and_bombs_end_within_their_limits(term, memory_mb, budget_s, reason):
    found = certify(QUADRATIC, min_order=1).certificate
    kernel = WheelKernel(memory_mb=memory_mb)
    kernel.prepare()
    start = time.monotonic()
    made = draft(found, QUADRATIC)
    done = settle(made, [Scripted(term)], kernel, n=1, seed=0, budget_s=budget_s)
    assert time.monotonic() - start < budget_s + 30
    assert done.text is None
    (attempt,) = done.attempts
    assert not attempt.accepted
    assert re.match(reason, attempt.reason), attempt.reason


@pytest.mark.kernel
@pytest.mark.slow
def test_a_term_without_end_leaves_time_for_the_next():
    """One that never ends gets its share; the right one after it is still judged."""
    prover = Scripted(endless(), endless(), CANCEL)
    proof = prove(QUADRATIC, prover=prover, tier="kernel", budget_s=80)
    assert proof.status is Status.PROVED
    assert [attempt.accepted for attempt in attempts(proof)] == [False, False, True]
    assert all(attempt.reason.startswith("the kernel: ") for attempt in attempts(proof)[:2])


# --- several obligations --------------------------------------------------------------------


@pytest.fixture(scope="module")
def row():
    identity = Identity.parse("sum(k,0,n,binomial(n,k)) = 2^n")
    printed = print_proof(certify(identity).certificate, identity)
    names = ("hop", "start", "closed")
    made = opened(printed, names)
    proofs = {}
    lines = printed.text.split("\n")
    for name in names:
        at = next(i for i, line in enumerate(lines) if line.startswith(f"theorem identity_{name}"))
        proofs[name] = lines[at + 1].strip()
    return printed, made, proofs


def test_opened_goals_are_the_statements_of_the_printed_proof(row):
    printed, made, proofs = row
    assert {goal.name for goal in made.goals} == set(proofs)
    assert all("noncomputable def identity_F" in goal.context for goal in made.goals)
    assert made.filled(proofs) == printed.text
    with pytest.raises(ValueError, match="no obligation 'nothing'"):
        opened(printed, ["nothing"])


@pytest.mark.kernel
def test_each_goal_is_tried_for_itself_and_a_second_prover_gets_the_rest(row):
    _, made, proofs = row
    first = Scripted({"hop": ["h", proofs["hop"]], "start": ["Eq.refl"], "closed": []})
    then = Scripted({"start": [proofs["start"]], "closed": [proofs["closed"]]})
    done = settle(made, [first, then], WheelKernel(), n=4, seed=0, budget_s=120)
    assert then.goals == ["start", "closed"]
    assert done.text is not None
    assert done.verdict.accepted
    assert [(a.goal, a.accepted) for a in done.attempts] == [
        ("start", False), ("hop", False), ("hop", True), ("start", True), ("closed", True)
    ]  # fmt: skip


@pytest.mark.kernel
def test_a_proof_of_one_goal_does_not_pass_for_another(row):
    _, made, proofs = row
    swapped = {"hop": [proofs["start"]], "start": [proofs["hop"]], "closed": [proofs["closed"]]}
    done = settle(made, [Scripted(swapped)], WheelKernel(), n=1, seed=0, budget_s=120)
    assert done.text is None
    assert {goal.name for goal in done.open_goals} == {"hop", "start"}


# --- sketches for Mathlib -------------------------------------------------------------------


def test_terms_go_into_a_mathlib_sketch_and_nowhere_else():
    from icml.wzllm.lean.sketch import sketch

    identity = Identity.parse("sum(k,0,n,binomial(n,k)*x^k) = (1+x)^n")
    made = draft_of_sketch(sketch(certify(identity).certificate, identity))
    assert made.theorem == "identity"
    assert made.statement.startswith(f"∀ (x : {NAT}) (n : {NAT}), ∑ k ∈ Finset.range (n + 1)")
    terms = {goal.name: as_term("by\n  intro n\n  simp") for goal in made.goals}
    text = made.filled(terms)
    assert "?" not in text
    assert text.count("exact (by\n      intro n\n      simp)") == len(made.goals)


@pytest.mark.kernel
def test_a_mathlib_sketch_is_tried_as_a_whole_and_not_accepted_without_mathlib():
    from icml.wzllm.lean.sketch import sketch

    identity = Identity.parse("sum(k,0,n,binomial(n,k)) = 2^n")
    made = draft_of_sketch(sketch(certify(identity).certificate, identity))
    prover = Scripted("by simp", "by omega")
    done = settle(made, [prover], WheelKernel(), n=2, seed=0, budget_s=60, one_by_one=False)
    assert done.text is None
    assert len(done.attempts) == 2 * len(made.goals)
    assert not any(attempt.accepted for attempt in done.attempts)
