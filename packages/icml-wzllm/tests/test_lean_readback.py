"""Lean statements read back: what they say, and that another statement isn't taken for ours."""

import pytest

from icml.wzllm.expressions import to_text
from icml.wzllm.lean import check_faithful
from icml.wzllm.lean.readback import Unfaithful, how_restated, read_statement
from icml.wzllm.statement import Identity

SQUARES = Identity.parse("sum(k,0,n,binomial(n,k)^2) = binomial(2*n,n)")
SAYS = "(n : Nat) → Eq (sumTo Z (fun k => (wMul (ch Z n k) (ch Z n k))) n) (ch Z (dbl n) n)"


def test_statement_is_read_word_by_word():
    said = read_statement(SAYS)
    assert said.variables == ("n",)
    assert to_text(said.left) == "sum(k,0,n,binomial(n,k)*binomial(n,k))"
    assert to_text(said.right) == "binomial(2*n,n)"


def test_all_words_are_read():
    said = read_statement(
        "(x : Whole) → (n : Nat) → Eq (wMul minusOne (pw Z (wAdd (Z.nm 1) x) (Nat.succ n)))"
        " (wAdd (Whole.pos Nat.zero) (ch Z (Nat.add n 3) Nat.zero))"
    )
    assert to_text(said.left) == "-1*(1+x)^(n+1)"
    assert to_text(said.right) == "0+binomial(n+3,0)"


VANDERMONDE = Identity.parse("sum(k,0,n,binomial(m,k)*binomial(r,n-k)) = binomial(m+r,n)")
SAYS_DIFFERENCE = (
    "(m : Nat) → (r : Nat) → (n : Nat) → Eq"
    " (sumTo Z (fun k => (wMul (ch Z m k) (ch Z r (sub n k)))) n) (ch Z (Nat.add m r) n)"
)


def test_difference_within_the_range_factorials_and_multiples_are_read():
    assert check_faithful(SAYS_DIFFERENCE, VANDERMONDE) == 1
    said = read_statement("(n : Nat) → Eq (fac (Nat.mul 3 n)) (catalan (Nat.succ n))")
    assert to_text(said.left) == "factorial(3*n)"
    assert to_text(said.right) == "catalan(n+1)"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(sub n k)", "(sub m k)"),
        ("(sub n k)", "(sub k n)"),
        ("(sub n k)", "(sub (Nat.succ n) k)"),
        ("(ch Z (Nat.add m r) n)", "(ch Z (Nat.add m r) (sub n m))"),
        ("(sub n k)", "(Nat.mul k n)"),
    ],
)
def test_truncated_difference_is_never_read_as_another(old, new):
    # sub is 0 where a difference would be negative: only upper limit minus k is one for certain.
    assert old in SAYS_DIFFERENCE
    with pytest.raises(Unfaithful):
        check_faithful(SAYS_DIFFERENCE.replace(old, new), VANDERMONDE)


SUMS = Identity.parse("sum(k,0,n,binomial(n,k)*binomial(n+k,k)) = sum(k,0,n,2^k*binomial(n,k)^2)")
SAYS_SUMS = (
    "(n : Nat) → Eq (sumTo Z (fun k => (wMul (ch Z n k) (ch Z (Nat.add n k) k))) n)"
    " (sumTo Z (fun k => (wMul (pw Z (Z.nm 2) k) (wMul (ch Z n k) (ch Z n k)))) n)"
)


@pytest.mark.parametrize("new", ["(ch Z n k)", "(wMul (pw Z (Z.nm 2) k) (ch Z n k))"])
def test_second_sum_is_compared_as_well(new):
    assert check_faithful(SAYS_SUMS, SUMS) == 1
    old = "(wMul (pw Z (Z.nm 2) k) (wMul (ch Z n k) (ch Z n k)))"
    assert old in SAYS_SUMS
    with pytest.raises(Unfaithful):
        check_faithful(SAYS_SUMS.replace(old, new), SUMS)


def test_faithful_statement_passes_with_factor_one():
    assert check_faithful(SAYS, SQUARES) == 1


def test_doubled_statement_passes_with_factor_two():
    doubled = SAYS.replace("(wMul (ch", "(wMul (Z.nm 2) (wMul (ch").replace("k)))", "k))))")
    doubled = doubled.replace("(ch Z (dbl n) n)", "(wMul (Z.nm 2) (ch Z (dbl n) n))")
    assert check_faithful(doubled, SQUARES) == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(wMul (ch Z n k) (ch Z n k))", "(ch Z n k)"),
        ("(ch Z (dbl n) n)", "(ch Z (dbl n) (Nat.succ n))"),
        ("(ch Z (dbl n) n)", "(wMul (Z.nm 2) (ch Z (dbl n) n))"),
        (")) n)", ")) (Nat.succ n))"),
        ("(wMul (ch Z n k) (ch Z n k))", "(wMul (ch Z n k) (ch Z n (Nat.succ k)))"),
        ("(n : Nat)", "(m : Nat) → (n : Nat)"),
    ],
)
def test_other_statements_are_refused(old, new):
    assert old in SAYS
    with pytest.raises(Unfaithful):
        check_faithful(SAYS.replace(old, new), SQUARES)


HALF = Identity.parse("sum(k,0,n,binomial(2*n,2*k)) = (4^n+0^n)/2")
SAYS_HALF = (
    "(n : Nat) → Eq (sumTo Z (fun k => (wMul (Z.nm 2) (ch Z (dbl n) (dbl k)))) n)"
    " (wAdd (pw Z (Z.nm 4) n) (pw Z (Z.nm 0) n))"
)


def test_power_of_zero_is_compared_as_what_it_is():
    assert how_restated(SAYS_HALF, HALF) == ("both sides multiplied by 2",)
    for other in (
        "(pw Z (Z.nm 0) (Nat.succ n))", "(Z.nm 0)", "(wMul (Z.nm 3) (pw Z (Z.nm 0) n))",
        "(wMul (pw Z (Z.nm 0) n) (pw Z (Z.nm 0) n))",  # the same number, but not the same words
    ):  # fmt: skip
        with pytest.raises(Unfaithful):
            how_restated(SAYS_HALF.replace("(pw Z (Z.nm 0) n)", other), HALF)


def test_true_but_other_statement_is_refused():
    # The summands agree in their sums only: by symmetry sum k C(n,k)^2 = sum (n-k) C(n,k)^2.
    moment = Identity.parse("sum(k,0,n,k*binomial(n,k)^2) = sum(k,0,n,(n-k)*binomial(n,k)^2)")
    with pytest.raises(Unfaithful):
        check_faithful(SAYS, moment)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "(n : Nat) → n",
        "(n : Nat) → Eq (ch Z n n",
        "(n : Nat) → Eq (ch Z n n) (Z.nm 1)) (",
        "(n : Nat) → Eq (unknown n) (Z.nm 1)",
        "(n : Nat) → Eq (sumTo Z (fun n => (Z.nm n)) n) (Z.nm 1)",
        "(n : Nat) → Eq (Z.nm m) (Z.nm 1)",
    ],
)
def test_what_is_no_statement_of_the_base_is_refused(text):
    with pytest.raises(Unfaithful):
        read_statement(text)
