import subprocess
import sys
import time

import psutil
import pytest

from icml.wzllm import BadStatement, Identity, Status, prove
from icml.wzllm.worker import Stopped, Worker

# Certified if there is time enough; that takes minutes.
LARGE = (
    "sum(k,0,n,(k+1)^60*(m+k+x+y)^60*binomial(n,k)*binomial(m,k)*binomial(x,k)*binomial(y,k))"
    " = sum(k,0,n,(k+1)^60*(m+k+x+y)^60*binomial(n,k)*binomial(m,k)*binomial(x,k)*binomial(y,k))"
)


def test_the_public_package_is_light():
    code = (
        "import sys, icml.wzllm as w; [getattr(w, name) for name in ('Identity', 'evaluate')];"
        "sys.exit(str({'torch', 'numpy', 'flint', 'sympy', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "set()"


def test_proving_brings_neither_torch_nor_sympy():
    code = (
        "import sys; from icml.wzllm import prove; prove('sum(k,0,n,binomial(n,k)) = 2^n');"
        "sys.exit(str({'torch', 'sympy', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "set()"


@pytest.mark.parametrize(
    ("text", "status", "reached"),
    [
        ("sum(k,0,n,binomial(n,k)) = 2^n", Status.CERTIFIED, "certificate"),
        ("sum(k,0,n,binomial(n,k)) = 2^n+n", Status.FALSE_STATEMENT, "finite"),
        ("sum(k,0,n,fibonacci(k)) = fibonacci(n+2)-1", Status.NOT_HYPERGEOMETRIC, "certificate"),
        ("sum(k,0,n//2,k) = (n//2)*(n//2+1)/2", Status.NOT_HYPERGEOMETRIC, "certificate"),
        ("2^10 = 1024", Status.CERTIFIED, "finite"),
        ("2^10 = 1023", Status.FALSE_STATEMENT, "finite"),
    ],
)
def test_each_status_comes_with_what_was_reached(text, status, reached):
    proof = prove(text)
    assert (proof.status, proof.reached) == (status, reached)


def test_the_finite_tier_proves_nothing():
    proof = prove("sum(k,0,n,binomial(n,k)) = 2^n", tier="finite", check_upto=4)
    assert (proof.status, proof.points, proof.checked_upto) == (Status.OPEN, 5, 4)


def test_points_without_a_value_are_skipped_and_counted():
    # 1/(n-2) has no value at n = 2; elsewhere the sides agree.
    proof = prove("sum(k,0,n,1/(n-2)) = (n+1)/(n-2)", tier="finite", check_upto=5)
    assert (proof.status, proof.points) == (Status.OPEN, 5)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("factorial(-1-n) = n", "nothing to check: none of 13 small points"),
        ("9^9^9^9 = n", "nothing to check: the exponent 387420489"),
        ("sum(k,0,10^9,1) = n", "nothing to check: a sum of 1000000001 terms"),
        ("n", "one '='"),
    ],
)
def test_what_can_not_be_checked_at_all_is_refused(text, complaint):
    with pytest.raises(BadStatement, match=complaint):
        prove(text)


@pytest.mark.parametrize("wrong", [{"budget_s": 0}, {"max_order": -1}, {"check_upto": -1}])
def test_limits_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match="must be 0 or more and budget_s positive"):
        prove("n = n", **wrong)


def test_a_search_beyond_its_budget_is_ended_and_nothing_is_left_running():
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    start = time.perf_counter()
    proof = prove(LARGE, budget_s=1.0)
    assert (proof.status, proof.reached) == (Status.TIMEOUT, "finite")
    assert time.perf_counter() - start < 20  # one second, and what a busy machine adds
    after = {child.pid for child in psutil.Process().children(recursive=True)}
    assert after <= before


def test_a_worker_goes_on_after_it_was_stopped():
    row = Identity.parse("sum(k,0,n,binomial(n,k)) = 2^n")
    with Worker() as worker:
        with pytest.raises(Stopped, match=r"not finished in 0\.5 s"):
            worker.certify(Identity.parse(LARGE), max_order=4, budget_s=0.5)
        assert worker.certify(row, max_order=4, budget_s=30).status == "certified"
        certificate = worker.certify(row, max_order=4, min_order=1, budget_s=30).certificate
        assert worker.verify(certificate, budget_s=30).accepted
