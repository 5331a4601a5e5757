"""The C-finite template against brute force: its bounds, what it certifies, what it refuses."""

import json
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from icml.wzllm import Identity, evaluate, parse, suite, verify
from icml.wzllm.certificate_files import certificate_from_json, read_certificate
from icml.wzllm.cfinite import NotCFinite, bound
from icml.wzllm.cfinite_certificate import CFiniteCertificate, find_cfinite
from icml.wzllm.values import Undefined

PARTIAL = Identity.parse("sum(k,0,n,fibonacci(k)) = fibonacci(n+2)-1")


def rank(rows):
    """Return the rank of a matrix of fractions, by elimination."""
    rows, found = [list(map(Fraction, row)) for row in rows], 0
    for column in range(len(rows[0])):
        pivot = next((row for row in rows[found:] if row[column]), None)
        if pivot is None:
            continue
        rows.remove(pivot)
        rows.insert(found, pivot)
        for i in range(found + 1, len(rows)):
            factor = rows[i][column] / pivot[column]
            rows[i] = [a - factor * b for a, b in zip(rows[i], pivot, strict=True)]
        found += 1
    return found


def hankel_rank(text, order, start):
    """Return the least order of a recurrence that the values satisfy, up to order + 2."""
    size = order + 3
    expr = parse(text)
    values = [evaluate(expr, {"n": start + i}) for i in range(2 * size)]
    return rank([values[i : i + size] for i in range(size)])


def sequences(name):
    """Formulas in one variable that have values from 0 on."""
    simple = st.sampled_from(
        ["1", "3", "0", name, f"{name}+1", f"2^{name}", f"(-1)^{name}", f"3^(2*{name}-1)",
         f"fibonacci({name})", f"fibonacci(2*{name}+1)", f"binomial({name}+1,2)", f"0^{name}",
         f"1/2^{name}", f"{name}^2", f"(1/2)^(1-{name})"]
    )  # fmt: skip
    return st.recursive(
        simple,
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda ab: f"({ab[0]}-{ab[1]})"),
            st.tuples(inner, inner).map(lambda ab: f"({ab[0]})*({ab[1]})"),
            inner.map(lambda a: f"({a})^2"),
        ),
        max_leaves=3,
    )


@st.composite
def sums(draw):
    f = draw(sequences("k"))
    kind = draw(st.sampled_from(["partial", "shifted", "row", "mirrored", "both", "outer"]))
    return {
        "partial": f"sum(k,0,n,{f})",
        "shifted": f"sum(k,2,2*n+{draw(st.integers(0, 3))},{f})",
        "row": f"sum(k,0,n,binomial(n,k)*({f}))",
        "mirrored": f"sum(k,0,n,({f})*fibonacci(2*(n-k)+1)*(n-k))",
        "both": f"sum(k,0,n,binomial(n,n-k)*({f})*fibonacci(n-k)*2^(n-3*k)/3^(n-k))",
        "outer": f"2^n*sum(k,1,n-1,(n*({f})+k)*(-1)^(n+k))",
    }[kind]


@given(st.one_of(sequences("n"), sums()))
@settings(max_examples=150, deadline=None)
def test_no_sequence_has_a_larger_order_than_its_bound(text):
    found = bound(parse(text), "n")
    assume(found.order <= 24)
    assert hankel_rank(text, found.order, found.start) <= found.order


@pytest.mark.parametrize(
    ("text", "order", "start"),
    [
        ("fibonacci(n)", 2, 0),
        ("fibonacci(2*n-5)", 2, 3),
        ("fibonacci(n)^2", 3, 0),
        ("n^3", 4, 0),
        ("sum(k,0,n,fibonacci(k))", 3, 0),
        ("sum(k,0,n,binomial(n,k)*fibonacci(k))", 2, 0),
        ("sum(k,0,n,fibonacci(k)*fibonacci(n-k))", 4, 0),
        ("sum(k,1,2*n-3,fibonacci(k-1))", 3, 2),
        ("sum(k,0,n,sum(j,0,k,fibonacci(j)))", 4, 0),
    ],
)
def test_bounds_are_those_of_the_table_and_most_are_reached(text, order, start):
    found = bound(parse(text), "n")
    assert (found.order, found.start) == (order, start)
    assert hankel_rank(text, order, start) == order


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("factorial(n)", "factorial(n)"),
        ("fibonacci(n+m)", "fibonacci(n+m)"),
        ("fibonacci(5-n)", "fibonacci(5-n)"),
        ("fibonacci(n^2)", "fibonacci(n^2)"),
        ("2^(n*n)", "2^(n*n)"),
        ("n^n", "n^n"),
        ("0^(m-n)", "0^(m-n)"),
        ("1/n", "1/n"),
        ("n//2", "n//2"),
        ("fibonacci(n-300)", "from 300 on"),
        ("fibonacci(n)^40*n^30", "order may be"),
        ("n^1000000", "order may be"),
        ("binomial(n+m,2)", "binomial(n+m,2)"),
        ("n+1/0", "division by zero"),
        ("sum(k,0,n,binomial(n,k)^2)", "power of binomial"),
        ("sum(k,0,n,binomial(n-k,k))", "binomial(n-k,k)"),
        ("sum(k,0,n+1,binomial(n,k)*k)", "range must be 0 to n"),
        ("sum(k,0,m,k)", "upper limit"),
        ("sum(k,n,2*n,k)", "lower limit"),
        ("sum(k,0,n,fibonacci(k-1))", "has no value"),
        ("sum(k,0,n,fibonacci(n-k-1))", "has no value"),
        ("sum(k,0,n,k*harmonic(k))", "harmonic(k)"),
        ("sum(n,0,n,2^n)", "occurs outside"),
        ("fibonacci(-1)+n", "below 0"),
    ],
)
def test_what_is_outside_of_the_class_is_refused_with_the_part_named(text, part):
    with pytest.raises(NotCFinite) as error:
        bound(parse(text), "n")
    assert part in str(error.value)


@given(st.one_of(sequences("n"), sums()), st.one_of(sequences("n"), sums()), st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_what_is_certified_holds_and_what_is_not_is_false(left, right, late):
    """Compared far beyond the bound; a difference may be planted at one late value."""
    if late < 20:
        right = left
    if late % 2:
        right = f"({right})+binomial(n,{late % 7})"  # 0 at so many values
    identity = Identity(left, right, ("n",))
    certificate = find_cfinite(identity)
    assume(certificate.order <= 30)
    wrong = next((n for n in range(60) if differ(identity, n)), None)
    assert verify(certificate).accepted == (wrong is None)
    if wrong is not None and wrong >= certificate.start:
        assert wrong < certificate.start + certificate.order


def differ(identity, n):
    try:
        return evaluate(identity.left, {"n": n}) != evaluate(identity.right, {"n": n})
    except Undefined:
        return False


@pytest.mark.parametrize("degree", [1, 4, 9])
def test_a_statement_that_is_false_at_the_last_value_only_is_refused(degree):
    """n (n-1) ... (n-d+1) is 0 at the first d values: one value fewer would certify it."""
    zero = "*".join(f"(n-{i})" if i else "n" for i in range(degree))
    identity = Identity.parse(f"{zero} = 0*n")
    assert verify(find_cfinite(identity)).reason == f"the sides differ at n = {degree}"
    assert find_cfinite(identity).order == degree + 3


def test_three_of_the_suites_fibonacci_items_are_certified():
    items = {item.id: item for item in suite() if "fibonacci" in f"{item.identity}"}
    accepted = {}
    for name, item in items.items():
        try:
            accepted[name] = verify(find_cfinite(item.identity)).accepted
        except NotCFinite:
            accepted[name] = None
    assert accepted == {"wz29": None, "wz30": True, "wz31": True, "wz32": True}
    assert all(items[name].holds for name in accepted)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"order": 5}, "the order that follows is 6, not 5"),
        ({"order": 10**6}, "at most 200 and 400 are tried"),
        ({"start": 10**9}, "at most 200 and 400 are tried"),
        ({"start": -3}, "hold from 0 on, not -3"),
        ({"variable": "k"}, "isn't the variable"),
        ({"steps": ("order 1: trust me",)}, "the record isn't how"),
        ({"identity": Identity.parse("fibonacci(n) = n*0+fibonacci(n)+0^n")}, "the order that"),
        ({"identity": Identity.parse("factorial(n) = 1")}, "isn't C-finite"),
    ],
)
def test_a_forged_certificate_is_refused(change, reason):
    report = verify(replace(find_cfinite(PARTIAL), **change))
    assert not report.accepted
    assert reason in report.reason


def test_a_certificate_of_another_statement_is_refused():
    other = Identity.parse("sum(k,0,n,fibonacci(k)) = fibonacci(n+2)")
    assert "another statement" in verify(find_cfinite(PARTIAL), other).reason


def test_files_come_back_as_they_were(tmp_path):
    certificate = find_cfinite(PARTIAL)
    certificate.save(tmp_path / "file.json")
    assert read_certificate(tmp_path / "file.json") == certificate
    content = json.loads(certificate.to_json())
    for broken in ({**content, "more": 1}, {**content, "order": "6"}, {**content, "steps": [1]}):
        with pytest.raises(ValueError, match=r"unknown field|wrong type|holds 1"):
            certificate_from_json(json.dumps(broken))


def test_the_steps_are_the_record():
    assert find_cfinite(PARTIAL).steps == (
        "order 2: fibonacci(k)",
        "order 3: sum(k,0,n,fibonacci(k))",
        "order 2: fibonacci(n+2)",
        "order 3: fibonacci(n+2)-1",
        "order 6: the difference of the sides",
    )
    assert isinstance(find_cfinite(PARTIAL), CFiniteCertificate)


def test_more_values_than_needed_are_a_proof_as_well():
    certificate = find_cfinite(PARTIAL)
    assert verify(replace(certificate, start=3, order=9)).accepted
