"""Each family: the closed form and the exhaustive check agree, and wrong values are refuted."""

from random import Random

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.brokenmath.families import (
    FAMILIES,
    algebra,
    arithmetic,
    counting,
    numbers,
    residues,
    values,
)
from icml.brokenmath.families.numbers import divisor_count, factorised, is_prime, phi, primes

SEEDS = st.integers(0, 2**32 - 1)
names = pytest.mark.parametrize("name", FAMILIES)


@names
@settings(max_examples=40, deadline=None)
@given(seed=SEEDS)
def test_two_ways_agree_and_every_other_value_is_refuted(name, seed) -> None:
    family = FAMILIES[name]
    parameters = family.draw(Random(seed))
    true = family.value(parameters)
    assert family.decide(parameters, true) is None
    for other in {true - 1, true + 1, *family.near(parameters, true)} - {true}:
        why = family.decide(parameters, other)
        assert why is not None, other
        assert len(why) > 10


@names
def test_a_checker_uses_no_number_theory_that_the_right_value_comes_from(name, monkeypatch) -> None:
    family = FAMILIES[name]
    parameters = family.draw(Random(11))
    true = family.value(parameters)

    def lies(*given):
        raise AssertionError(given)

    for module in (algebra, arithmetic, counting, residues, values):
        for helper in numbers.__all__:
            monkeypatch.setattr(module, helper, lies, raising=False)
    assert family.decide(parameters, true) is None
    assert family.decide(parameters, true + 1)


@settings(max_examples=60, deadline=None)
@given(a=st.integers(1, 40), b=st.integers(2, 2000))
def test_both_searches_for_a_composite_value_find_sympys(a, b) -> None:
    family = FAMILIES["prime-run"]
    parameters = family.parameters(a=a, b=b)
    first = next(n for n in range(b + 1) if not sympy.isprime(n * n + a * n + b))
    assert family.value(parameters) == first
    assert family.decide(parameters, first) is None
    assert family.decide(parameters, first + 1)


@names
def test_texts_differ_in_the_value_alone(name) -> None:
    family = FAMILIES[name]
    parameters = family.draw(Random(3))
    true = family.value(parameters)
    wrong = next(v for v in family.near(parameters, true) if family.decide(parameters, v))
    right_text, wrong_text = (
        family.text(parameters, family.shown(parameters, value)) for value in (true, wrong)
    )
    assert right_text != wrong_text
    marker = "\x00"
    assert family.text(parameters, marker).count(marker) == 1
    assert family.text(parameters, marker).replace(marker, family.shown(parameters, true)) == (
        right_text
    )
    assert "Prove that" in right_text
    assert right_text.endswith(".")
    assert family.solution(parameters, true).endswith(".")
    assert family.name == name


@names
def test_parameters_out_of_bounds_and_of_other_types_are_refused(name) -> None:
    family = FAMILIES[name]
    drawn = family.draw(Random(5)).model_dump()
    for field, value in drawn.items():
        for bad in (10**12, -1, str(value), 1.5, None, [10**12] * 3, {"a": 1}):
            if bad == value:
                continue
            with pytest.raises(ValueError, match=r"."):
                family.parameters.model_validate(drawn | {field: bad})
    with pytest.raises(ValueError, match="Extra inputs"):
        family.parameters.model_validate(drawn | {"more": 1})


@given(st.integers(1, 20_000))
def test_number_theory_is_sympys(n) -> None:
    assert phi(n) == sympy.totient(n)
    assert divisor_count(n) == sympy.divisor_count(n)
    assert factorised(n) == sympy.factorint(n)
    assert is_prime(n) == sympy.isprime(n)


def test_primes_are_sympys() -> None:
    assert primes(2, 500) == list(sympy.primerange(2, 501))


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS)
def test_orders_residues_and_legendre_are_sympys(seed) -> None:
    rng = Random(seed)
    order = FAMILIES["order"]
    q = order.draw(rng)
    assert order.value(q) == sympy.n_order(q.a, q.m)
    powers = FAMILIES["power-residues"]
    q = powers.draw(rng)
    residues = sum(sympy.is_nthpow_residue(x, q.a, q.p) for x in range(q.p))
    assert powers.value(q) == residues
    chinese = FAMILIES["remainders"]
    q = chinese.draw(rng)
    assert chinese.value(q) == sympy.ntheory.modular.crt(q.moduli, q.remainders)[0]
    binomial = FAMILIES["binomial-power"]
    q = binomial.draw(rng)
    assert binomial.value(q) == sympy.multiplicity(q.p, sympy.binomial(q.n, q.k))


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS)
def test_sums_and_forms_are_what_symbolic_algebra_gives(seed) -> None:
    rng = Random(seed)
    sums = FAMILIES["power-sum"]
    q = sums.draw(rng)
    n, k = sympy.symbols("n k", positive=True, integer=True)
    true = sympy.summation(q.a * k**2 + q.b * k + q.c, (k, 1, n))
    shown = sympy.sympify(sums.shown(q, 0).replace("^", "**"), locals={"n": n})
    assert sympy.expand(true - shown) == 0
    wrong = sympy.sympify(sums.shown(q, 2).replace("^", "**"), locals={"n": n})
    assert sympy.expand(wrong - true - sympy.Rational(2, 6) * n * (n - 1) * (n - 2)) == 0
    forms = FAMILIES["quadratic-form"]
    f = forms.draw(rng)
    matrix = sympy.Matrix([[2 * f.p, -forms.value(f)], [-forms.value(f), 2 * f.q]])
    assert matrix.is_positive_semidefinite
    assert matrix.det() == 0  # the largest: with a larger t it is negative


def test_the_period_by_divisors_is_the_one_that_is_found_step_by_step() -> None:
    family = FAMILIES["fibonacci-period"]
    for m in range(3, 501):
        parameters = family.parameters(m=m)
        assert family.decide(parameters, family.value(parameters)) is None, m


def test_known_values() -> None:
    def value(name, **fields):
        family = FAMILIES[name]
        return family.value(family.parameters(**fields))

    assert value("frobenius", a=6, b=11) == 49
    assert value("fibonacci-period", m=10) == 60
    assert value("power-difference", a=5) == 30
    assert value("two-squares", n=25) == 12
    assert value("circle-elimination", n=41, k=3) == 31
    assert value("factorial-power", n=100, p=5) == 24
    assert value("prime-run", a=1, b=41) == 40
    assert value("strip-tilings", n=10, a=1, b=2) == 89
    assert value("lattice-triangle", a=4, b=6) == 7
    assert value("digit-sum", n=100) == 901
