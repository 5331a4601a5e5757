"""Printed proofs: the kernel accepts the true ones and rejects every corruption of them."""

import re
from dataclasses import replace

import pytest

from icml.wzllm.certify import certify
from icml.wzllm.kernel import WheelKernel
from icml.wzllm.lean import Unprintable, check_faithful, print_proof
from icml.wzllm.statement import Identity

VERBATIM = {
    "row sum": "sum(k,0,n,binomial(n,k)) = 2^n",
    "weights": "sum(k,0,n,2^k*binomial(n,k)) = 3^n",
    "binomial theorem": "sum(k,0,n,binomial(n,k)*x^k) = (1+x)^n",
    "squares": "sum(k,0,n,binomial(n,k)^2) = binomial(2*n,n)",
    "Vandermonde": "sum(k,0,n,binomial(n,k)*binomial(m,k)) = binomial(n+m,n)",
}
WIDE = {
    "no sign of n in the summand": ("sum(k,0,n,k*factorial(k)) = factorial(n+1)-1", 1),
    "a number added to n": ("sum(k,0,n,(-1)^k*binomial(n+1,k)) = (-1)^n", 1),
    "an upper parameter and n-k": ("sum(k,0,n,binomial(m,k)*binomial(r,n-k)) = binomial(m+r,n)", 1),
    "a boundary that isn't 0": ("sum(k,0,n,binomial(n+k,k)*2^(n-k)) = 4^n", 1),
    "a certificate that isn't 0 at k = 0": (
        "sum(k,0,n,(2*k+1)*binomial(2*n+1,n-k)) = (2*n+1)*binomial(2*n,n)",
        1,
    ),
    "Catalan numbers": ("sum(k,0,n,catalan(k)*catalan(n-k)) = catalan(n+1)", 1),
    "a coefficient that is 0 at 1": ("sum(k,0,n,k*(k-1)*binomial(n,k)) = n*(n-1)*2^(n-2)", 4),
    "binomial(1,m+1) = binomial(0,m)": ("sum(k,0,n,binomial(k,m)) = binomial(n+1,m+1)", 1),
    "a power of 0": ("sum(k,0,n,(-1)^k*binomial(n+m,k+m)*binomial(k+m,m)) = 0^n", 1),
    "a polynomial over a number": ("sum(k,0,n,k^2) = n*(n+1)*(2*n+1)/6", 6),
}
RESTATED = {
    "first moment": ("sum(k,0,n,k*binomial(n,k)) = n*2^(n-1)", 2),
    "second moment": ("sum(k,0,n,k^2*binomial(n,k)) = n*(n+1)*2^(n-2)", 4),
    "moment of squares": ("sum(k,0,n,k*binomial(n,k)^2) = n*binomial(2*n,n)/2", 2),
}


@pytest.fixture(scope="module")
def kernel():
    return WheelKernel()


def printed(text, **options):
    identity = Identity.parse(text)
    certificate = certify(identity).certificate
    assert certificate is not None
    return print_proof(certificate, identity, **options)


@pytest.mark.parametrize("name", VERBATIM)
def test_kernel_accepts_a_verbatim_proof_without_axioms(kernel, name):
    proof = printed(VERBATIM[name])
    verdict = kernel.check(proof.text, proof.theorem, proof.statement)
    assert verdict.messages == ()
    assert verdict.accepted
    assert proof.verbatim
    assert verdict.max_rss_mb is not None
    assert verdict.max_rss_mb < 200


@pytest.mark.parametrize(
    "name",
    ["first moment", *(pytest.param(n, marks=pytest.mark.slow) for n in list(RESTATED)[1:])],
)
def test_kernel_accepts_a_restated_proof_and_the_factor_is_recorded(kernel, name):
    text, factor = RESTATED[name]
    proof = printed(text)
    verdict = kernel.check(proof.text, proof.theorem, proof.statement)
    assert verdict.messages == ()
    assert not proof.verbatim
    assert proof.rewritings == (f"both sides multiplied by {factor}",)
    assert check_faithful(proof.statement, Identity.parse(text)) == factor


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "sum(k,0,2*n,(-1)^k*binomial(2*n,k)^2) = (-1)^n*binomial(2*n,n)",
        "sum(k,0,2*n+1,binomial(2*n+1,k)*binomial(2*k,k)*(-1)^k*2^(2*n+1-k)) = 0",
        "sum(k,0,n,binomial(n,k)*binomial(n+k,k)) = sum(k,0,n,2^k*binomial(n,k)^2)",
    ],
)
def test_kernel_accepts_other_ranges_and_order_two(kernel, text):
    proof = printed(text)
    verdict = kernel.check(proof.text, proof.theorem, proof.statement, 120)
    assert verdict.messages == ()
    assert verdict.axioms == ()
    assert proof.verbatim


@pytest.mark.parametrize("name", WIDE)
def test_kernel_accepts_the_wider_class_without_axioms(kernel, name):
    text, factor = WIDE[name]
    proof = printed(text)
    verdict = kernel.check(proof.text, proof.theorem, proof.statement)
    assert verdict.messages == ()
    assert verdict.accepted
    assert verdict.axioms == ()
    assert proof.verbatim == (factor == 1)
    assert check_faithful(proof.statement, Identity.parse(text)) == factor


def test_moved_terms_are_recorded():
    proof = printed("2^n = sum(k,0,n,binomial(n,k))")
    assert proof.rewritings == ("terms moved so that the sum stands alone on the left",)


def test_doubled_certificate_is_rejected_by_the_kernel(kernel):
    proof = printed(VERBATIM["squares"])
    definition = re.compile(r"(noncomputable def identity_D .*?:= fun n k => )(.*)")
    assert definition.search(proof.text)
    wrong = definition.sub(r"\1(wMul (Z.nm 2) \2)", proof.text)
    verdict = kernel.check(wrong, proof.theorem, proof.statement)
    assert not verdict.accepted
    assert len(verdict.messages) >= 2


def test_swapped_statement_is_rejected_by_the_kernel(kernel):
    proof = printed(VERBATIM["squares"])
    swapped = proof.statement.replace("(wMul (ch Z n k) (ch Z n k))", "(ch Z n k)")
    assert swapped != proof.statement
    assert not kernel.check(proof.text, proof.theorem, swapped).accepted


@pytest.mark.parametrize(
    "change",
    [
        {"recurrence": ("-3", "1")},
        {"recurrence": ("-2", "2")},
        {"certificate": ("2*k", "k-n-1")},
        {"certificate": ("k", "k-n-2")},
    ],
)
def test_corrupted_certificate_gives_no_proof(kernel, change):
    identity = Identity.parse(VERBATIM["row sum"])
    certificate = certify(identity).certificate
    assert certificate is not None
    if "certificate" in change:
        change = {"certificate": type(certificate.certificate)(*change["certificate"])}
    wrong = replace(certificate, **change)
    try:
        proof = print_proof(wrong, identity)
    except Unprintable:
        return
    assert not kernel.check(proof.text, proof.theorem, proof.statement).accepted


@pytest.mark.parametrize(
    ("text", "obligation"),
    [
        ("sum(k,0,n,binomial(n,2*k)*2^(n-2*k)*catalan(k)) = catalan(n+1)", "-n is natural"),
        ("sum(k,0,n,binomial(n,k)/(k+1)) = (2^(n+1)-1)/(n+1)", r"denominator k \+ 1"),
        ("sum(k,0,n,k^2*binomial(n,k)^2) = n^2*binomial(2*n-2,n-1)", r"2\*n - 2 is natural"),
        ("sum(k,1,n,1/(k*(k+1))) = n/(n+1)", "from 1 to n"),
    ],
)
def test_what_cannot_be_printed_names_the_obligation(text, obligation):
    with pytest.raises(Unprintable, match=obligation):
        printed(text)


def test_theorem_has_the_name_that_was_asked_for():
    proof = printed(VERBATIM["row sum"], theorem="rows")
    assert "theorem rows (n : Nat) :" in proof.text
    assert "identity" not in proof.text
