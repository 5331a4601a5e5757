"""Statements multiplied by a positive factor: what they become, and that the reader sees it."""

import pytest

from icml.wzllm import Status, evaluate, prove
from icml.wzllm.lean.denominators import positive_factor, without_denominators
from icml.wzllm.lean.readback import Unfaithful, how_restated
from icml.wzllm.ring import ring
from icml.wzllm.shape import reshape
from icml.wzllm.statement import Identity

CLEARED = {
    "sum(k,0,n,binomial(n,k)/(k+1)) = (2^(n+1)-1)/(n+1)":
        ("n+1", "sum(k,0,n,binomial(n+1,k+1)) = 2^(n+1)-1"),
    "sum(k,0,n,(-1)^k*binomial(n,k)/(k+1)) = 1/(n+1)":
        ("n+1", "sum(k,0,n,(-1)^k*binomial(n+1,k+1)) = 1"),
    "sum(k,0,n,binomial(2*k,k)/4^k) = (2*n+1)*binomial(2*n,n)/4^n":
        ("4^n", "sum(k,0,n,binomial(2*k,k)*4^(n-k)) = (2*n+1)*binomial(2*n,n)"),
    "sum(k,0,n,binomial(n,2*k)*2^(n-2*k)*catalan(k)) = catalan(n+1)":
        ("2^n", "sum(k,0,n,binomial(n,2*k)*2^(n-2*k+n)*catalan(k)) = catalan(n+1)*2^n"),
    "sum(k,0,n,binomial(n,k)/(k+1)/2) = (2^(n+1)-1)/(2*n+2)":
        ("2*n+2", "sum(k,0,n,binomial(n,k)/(k+1)/2) = (2^(n+1)-1)/(2*n+2)"),
}  # fmt: skip
"""By hand; the last one is positive, but no move takes k+1 away."""


@pytest.mark.parametrize("text", list(CLEARED)[:-1])
def test_sides_become_what_they_are_by_hand_and_have_those_values(text):
    identity = Identity.parse(text)
    factor, expected = CLEARED[text]
    shape = reshape(identity)
    found = positive_factor(shape, ring(("k", "n")))
    done = without_denominators(identity)
    assert str(done) == expected
    assert found is not None
    assert done is not None
    for n in range(9):
        times = evaluate(found, {"n": n})
        assert times == evaluate(Identity.parse(f"{factor} = n").left, {"n": n}) > 0
        assert evaluate(done.left, {"n": n}) == times * evaluate(identity.left, {"n": n})
        assert evaluate(done.right, {"n": n}) == times * evaluate(identity.right, {"n": n})


@pytest.mark.parametrize(
    "text",
    [
        "sum(k,0,n,binomial(n,k)/(k+1)/2) = (2^(n+1)-1)/(2*n+2)",
        "sum(k,0,n,(-1)^k*binomial(n,k)/(2*k+1)) = 4^n/((2*n+1)*binomial(2*n,n))",
        "sum(k,0,n,binomial(n,k)/n) = 2^n/n",  # n is 0 somewhere: no positive factor
        "sum(k,0,n,binomial(n,k)/(1-2*n)) = 2^n/(1-2*n)",  # negative
        "sum(k,0,n,binomial(n,k)/(-2)^n) = (-1)^n",
        "sum(k,0,n,binomial(n,k)*m/(m-1)) = 2^n*m/(m-1)",
        "sum(k,0,n,binomial(n,k)) = 2^n",
        "sum(k,0,n,binomial(n,k)/2^k) = sum(k,0,n,binomial(n,k)/2^k)",
        "1/(n+1) = 1/(n+1)",
    ],
)
def test_nothing_is_done_without_a_positive_factor_that_is_enough(text):
    assert without_denominators(Identity.parse(text)) is None


ROW = Identity.parse("sum(k,0,n,binomial(n,k)/(k+1)) = (2^(n+1)-1)/(n+1)")
SAYS = (
    "(n : Nat) → Eq (sumTo Z (fun k => (ch Z (Nat.succ n) (Nat.succ k))) n)"
    " (wAdd (pw Z (Z.nm 2) (Nat.succ n)) minusOne)"
)


def test_the_reader_finds_the_factor_by_itself():
    assert how_restated(SAYS, ROW) == ("both sides multiplied by n+1",)
    doubled = SAYS.replace("(ch Z", "(wMul (Z.nm 2) (ch Z").replace("k))) n)", "k)))) n)")
    doubled = doubled.replace("(wAdd (pw", "(wMul (Z.nm 2) (wAdd (pw") + ")"
    assert how_restated(doubled, ROW) == ("both sides multiplied by 2*(n+1)",)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(ch Z (Nat.succ n) (Nat.succ k))", "(ch Z (Nat.succ n) k)"),
        ("(ch Z (Nat.succ n) (Nat.succ k))", "(ch Z n k)"),
        ("minusOne", "(Z.nm 1)"),
        ("(pw Z (Z.nm 2) (Nat.succ n))", "(pw Z (Z.nm 2) n)"),
        (")) n)", ")) (Nat.succ n))"),  # one more term, which is 0, is another statement too
        ("(n : Nat)", "(m : Nat) → (n : Nat)"),
    ],
)
def test_another_statement_is_no_multiple(old, new):
    assert old in SAYS
    with pytest.raises(Unfaithful):
        how_restated(SAYS.replace(old, new), ROW)


def test_both_sides_times_what_may_be_0_is_refused():
    # n * sum = n * 2^n says nothing at n = 0.
    row = Identity.parse("sum(k,0,n,binomial(n,k)) = 2^n")
    says = (
        "(n : Nat) → Eq (sumTo Z (fun k => (wMul (Z.nm n) (ch Z n k))) n)"
        " (wMul (Z.nm n) (pw Z (Z.nm 2) n))"
    )
    with pytest.raises(Unfaithful):
        how_restated(says, row)


@pytest.mark.slow
@pytest.mark.parametrize("text", list(CLEARED)[:-1])
def test_the_kernel_accepts_the_multiple_and_the_factor_is_recorded(text):
    proof = prove(text, tier="kernel", budget_s=120)
    assert proof.status is Status.PROVED
    assert proof.printed is not None
    assert proof.printed.rewritings == (f"both sides multiplied by {CLEARED[text][0]}",)
    assert str(proof.certificate and proof.certificate.identity) == str(proof.identity)
