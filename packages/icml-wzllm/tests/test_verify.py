import json
from dataclasses import replace

import pytest

from icml.wzllm.certificate import BadCertificate, Certificate, Ratio
from icml.wzllm.certificate_files import read_certificate
from icml.wzllm.certify import certify
from icml.wzllm.statement import BadStatement, Identity
from icml.wzllm.verification import verify

SQUARES = Identity.parse("sum(k,0,n,binomial(n,k)^2) = binomial(2*n,n)")
# Written by hand from the literature, not by the search.
BY_HAND = Certificate(
    SQUARES,
    "k",
    "n",
    ("4*n+2", "-n-1"),
    Ratio("k^2*(3*n+3-2*k)", "(n+1-k)^2"),
    base_cases=(0,),
)
RECIPROCAL = "sum(k,0,n,binomial(n,k)/(k+1))"
WITH_BOUNDARY = certify(Identity.parse(f"{RECIPROCAL} = (2^(n+1)-1)/(n+1)")).certificate


def test_a_certificate_from_the_literature_is_accepted():
    report = verify(BY_HAND, SQUARES)
    assert report.accepted, report.reason
    assert report.witnesses >= 3


@pytest.mark.parametrize(
    "recurrence", [("4*n+3", "-n-1"), ("4*n+2", "-n-2"), ("5*n+2", "-n-1"), ("4*n+2", "-2*n-1")]
)
def test_a_coefficient_changed_by_one_is_rejected(recurrence):
    report = verify(replace(BY_HAND, recurrence=recurrence))
    assert (report.accepted, report.reason) == (False, "the telescoped equation isn't an identity")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"certificate": Ratio("k^2*(3*n+4-2*k)", "(n+1-k)^2")}, "isn't an identity"),
        ({"certificate": Ratio("k", "0")}, "a denominator of R is 0"),
        ({"certificate": Ratio("1/k", "1")}, "not a polynomial"),
        ({"certificate": Ratio("factorial(k)", "1")}, "not a polynomial"),
        ({"certificate": Ratio("q", "1")}, "unknown variable 'q'"),
        ({"right": Ratio("k", "1")}, "exactly where that is a sum"),
        ({"recurrence": ()}, "the recurrence is empty"),
        ({"recurrence": ("0", "0")}, "the leading coefficient of the recurrence is 0"),
        ({"recurrence": ("k", "n")}, "the recurrence contains k"),
        ({"shift_var": "m"}, "isn't a variable"),
        ({"sum_var": "j"}, "the sum is over k, not j"),
        ({"boundary": ("1",)}, "the boundary isn't what telescoping leaves over"),
        ({"boundary": ("sum(i,0,n,i)",)}, "the boundary contains a sum"),
        ({"base_cases": ()}, "the base case n = 0 is missing"),
        ({"base_cases": (1, 2)}, "the base case n = 0 is missing"),
    ],
)
def test_whatever_is_changed_the_judge_says_what_is_wrong(change, reason):
    report = verify(replace(BY_HAND, **change))
    assert not report.accepted
    assert reason in report.reason


def test_a_certificate_of_another_statement_is_rejected():
    other = Identity.parse("sum(k,0,n,binomial(n,k)^2) = 2*binomial(2*n,n)")
    assert "for another statement" in verify(BY_HAND, other).reason
    # The same recurrence and R, with the false statement written into the file itself.
    assert "n = 0" in verify(replace(BY_HAND, identity=other)).reason


def test_a_boundary_that_is_not_zero_is_checked():
    assert WITH_BOUNDARY.boundary == ("1",)
    assert verify(WITH_BOUNDARY).accepted
    assert not verify(replace(WITH_BOUNDARY, boundary=("0",))).accepted
    wrong = Identity.parse(f"{RECIPROCAL} = 2^(n+1)/(n+1)")
    assert not verify(replace(WITH_BOUNDARY, identity=wrong)).accepted


def test_a_certificate_survives_its_file(tmp_path):
    WITH_BOUNDARY.save(tmp_path / "file.json")
    assert read_certificate(tmp_path / "file.json") == WITH_BOUNDARY


def changed(**fields):
    return json.dumps({**json.loads(BY_HAND.to_json()), **fields})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "not JSON"),
        ("[]", "must be an object"),
        ("[" * 100_000, "not JSON"),
        (changed(format="wz-certificate/2"), "isn't 'wz-certificate/1'"),
        (changed(extra=1), "unknown field 'extra'"),
        (changed(identity={"lhs": "1", "rhs": "1"}), "lacks the field 'vars'"),
        (changed(order=2), "order 2 doesn't fit 2 coefficients"),
        (changed(order=True), "wrong type bool"),
        (changed(recurrence=["1", 2]), "every entry must be str"),
        (changed(base_cases=[True]), "every entry must be int"),
        (changed(certificate={"num": "1", "den": "1", "x": "1"}), "unknown field 'x'"),
    ],
)
def test_a_file_that_is_no_certificate_is_refused(text, complaint):
    with pytest.raises(BadCertificate, match=complaint):
        Certificate.from_json(text)


def test_a_statement_in_a_file_is_read_with_the_same_limits():
    deep = "(" * 500 + "1" + ")" * 500
    with pytest.raises(BadStatement, match="nested more than"):
        Certificate.from_json(changed(identity={"lhs": deep, "rhs": "1", "vars": ["n"]}))


def test_a_missing_or_large_file_is_refused(tmp_path):
    with pytest.raises(BadCertificate, match="No such file"):
        read_certificate(tmp_path / "none.json")
    (tmp_path / "large.json").write_bytes(b" " * (5 * 2**20))
    with pytest.raises(BadCertificate, match="larger than"):
        read_certificate(tmp_path / "large.json")
