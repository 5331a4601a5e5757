"""Certificates are sound: no false statement gets one, and what is certified is true."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from icml.wzllm.certify import certify
from icml.wzllm.finite import check_small_values
from icml.wzllm.parser import parse
from icml.wzllm.statement import Identity
from icml.wzllm.values import TooLarge, Undefined, evaluate
from icml.wzllm.verification import verify

FALSE = [
    "sum(k,0,n,binomial(n,k)) = 2^n+n",
    "sum(k,0,n,binomial(n,k)^2) = binomial(2*n,n)+n*(n-1)*(n-2)",
    "sum(k,0,4,binomial(n,k)) = 2^n",
    "sum(k,0,2*n,(-1)^k*binomial(2*n,k)^3) = factorial(3*n)/factorial(n)^3",
    "sum(k,0,n,binomial(2*n+1,k)) = 2*4^n",  # right recurrence, wrong base case
    "sum(k,0,n,binomial(n,k)^2) = 2*binomial(2*n,n)",
    "sum(k,0,n,binomial(n,k)) = 2^n+0^n",  # wrong at n = 0 alone
    "sum(k,0,n,(-1)^k*binomial(n,k)) = 0",  # n = 0
    "sum(k,1,n,binomial(n,k)) = 2^n",
    "sum(k,0,n-1,binomial(n,k)) = 2^n",
    "sum(k,0,n,k*binomial(n,k)) = n*2^(n-1)+0^n",
    "sum(k,0,n,binomial(n,k)*k*(k-1)) = n*(n-1)*2^(n-2)+0^(n-1)",
    "sum(k,0,n,binomial(k-3,k)) = sum(k,0,n,1)",  # signs of negative binomials
    "sum(k,0,n,binomial(k-2,k-2)) = n+1",  # a symmetric binomial with a negative top is 0
    "sum(k,0,n,binomial(n-3,k)) = 2^(n-3)",  # binomial(-1,0) + ... differs for n < 3
    "sum(k,0,n,binomial(m-k,n-k)) = binomial(m,n)",
]


@pytest.mark.parametrize("text", FALSE)
def test_a_false_statement_is_not_certified_though_no_small_value_was_looked_at(text):
    assert certify(Identity.parse(text)).status != "certified"


@pytest.mark.parametrize("text", FALSE)
def test_a_false_statement_is_refuted_at_small_values(text):
    found = check_small_values(Identity.parse(text)).counterexample
    identity = Identity.parse(text)
    sides = [evaluate(side, found.values) for side in (identity.left, identity.right)]
    assert sides[0] != sides[1]


TRUE = [
    "sum(k,0,n,binomial(2*n+1,k)) = 4^n",  # the boundary isn't 0
    "2^n = sum(k,0,n,binomial(n,k))",
    "sum(j,0,n,binomial(n,j)^3) = sum(k,0,n,binomial(n,k)^2*binomial(2*k,n))",
    "n*sum(k,0,n,binomial(n,k))/2 - n*2^(n-1) = 0",
    "1+sum(k,1,n,binomial(n,k)) = 2^n",
    "sum(k,0,n-1,2^k) = 2^n-1",
    "sum(k,n,2*n,1) = n+1",  # the lower limit moves
    "sum(k,0,n,binomial(n+m,k)-binomial(n+m,k)) = 0",
    "sum(k,0,n,0*binomial(n,k)) = 0",
    "sum(k,0,m,binomial(m,k)*binomial(n,k)) = binomial(n+m,m)",
    "sum(k,0,n,(-1)^k*binomial(n,k)) = 0^n",
    "sum(k,0,n,binomial(k,m)) = binomial(n+1,m+1)",
    "sum(k,0,n,rising(x,k)/factorial(k)) = rising(x+1,n)/factorial(n)",
]


@pytest.mark.parametrize("text", TRUE)
def test_a_true_statement_is_certified_whatever_its_form(text):
    outcome = certify(Identity.parse(text))
    assert outcome.status == "certified", outcome.detail


@pytest.mark.parametrize(
    ("text", "status", "detail"),
    [
        ("n = n", "not hypergeometric", "there is no sum"),
        ("sum(k,0,n,k^n) = n", "not hypergeometric", "the base depends on k"),
        ("sum(k,0,n,harmonic(k)) = n", "not hypergeometric", r"harmonic\(k\)"),
        ("sum(k,0,n,1)*sum(k,0,n,k) = n", "not hypergeometric", "one sum times a factor"),
        ("sum(k,0,n//2,k) = n", "open", "rounding"),
        ("sum(k,0,n,(k+1)^999) = n", "open", "beyond 60"),
        ("sum(k,0,n,1/(k-3)) = n", "open", r"1/\(k-3\)|k-3"),
    ],
)
def test_what_is_not_certified_says_why(text, status, detail):
    outcome = certify(Identity.parse(text))
    assert outcome.status in (status, "not hypergeometric")
    assert parse_detail(outcome.detail, detail)


def parse_detail(text, pattern):
    import re

    return re.search(pattern, text) is not None


FACTORS = ["binomial(n,k)", "binomial(n+k,k)", "binomial(2*k,k)", "binomial(2*n,k)",
           "binomial(n+2,k)", "binomial(m,k)", "binomial(2*n-k,n)", "binomial(n,2*k)", "2^k",
           "(-1)^k", "x^k", "(k+1)", "1/(k+1)"]  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(FACTORS), min_size=1, max_size=3))
def test_every_recurrence_holds_for_the_exact_sums(factors):
    text = f"sum(k,0,n,{'*'.join(sorted(factors))})"
    # A sum equals itself: that is certified exactly if a recurrence and its boundary are known.
    certificate = certify(Identity.parse(f"{text} = {text}"), max_order=2).certificate
    if certificate is None:
        return
    assert verify(certificate).accepted
    total = parse(text)
    recurrence = [parse(coefficient) for coefficient in certificate.recurrence]
    boundary = [parse(part) for part in certificate.boundary]
    for n in range(6):
        if n + certificate.order in certificate.base_cases:
            continue  # not claimed there
        values = {"n": n, "m": 3, "x": 2}
        try:
            right = sum(evaluate(part, values) for part in boundary)
        except (Undefined, TooLarge):
            continue
        left = sum(
            evaluate(a, values) * evaluate(total, {**values, "n": n + j})
            for j, a in enumerate(recurrence)
        )
        assert left == right
