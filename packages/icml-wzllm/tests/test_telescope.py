import time
from fractions import Fraction

import pytest
import sympy
from sympy.concrete.gosper import gosper_sum

from icml.wzllm.parser import parse
from icml.wzllm.reading import NotHypergeometric, OutOfReach, to_term, to_terms
from icml.wzllm.ring import ring
from icml.wzllm.telescope import telescoper
from icml.wzllm.terms import as_fraction, shift_quotient, shifted, vanishes
from icml.wzllm.text import polynomial, polynomial_text, term_text
from icml.wzllm.values import evaluate

KN = ring(("k", "n"))
SHIFTS = frozenset(("k", "n"))


def term(text):
    return to_term(KN, parse(text), SHIFTS)


# From the literature: a_0..a_J, and R up to the factor that the recurrence has.
KNOWN = [
    ("binomial(n,k)", ["2", "-1"], ("-k", "k-n-1")),
    ("binomial(n,k)^2", ["4*n+2", "-(n+1)"], ("k^2*(3*n+3-2*k)", "(n+1-k)^2")),
    (
        "binomial(2*k,k)*binomial(2*n-2*k,n-k)",
        ["4*n+4", "-(n+1)"],
        ("4*k^2-4*k*n-2*k", "k-n-1"),
    ),
]


@pytest.mark.parametrize(("summand", "recurrence", "ratio"), KNOWN)
def test_known_certificates_are_found_up_to_a_factor(summand, recurrence, ratio):
    found = telescoper(KN, term(summand), "k", "n", 1)
    known = [polynomial(KN, text) for text in recurrence]
    a, b = found.recurrence[-1], known[-1]
    assert [x * b for x in found.recurrence] == [y * a for y in known]
    num, den = (polynomial(KN, text) for text in ratio)
    assert found.ratio.num * den * b == num * found.ratio.den * a


@pytest.mark.parametrize(
    ("summand", "recurrence"),
    [
        # Franel: (n+2)^2 f(n+2) = (7n^2+21n+16) f(n+1) + 8(n+1)^2 f(n)
        ("binomial(n,k)^3", ["-8*(n+1)^2", "-(7*n^2+21*n+16)", "(n+2)^2"]),
        # Apery for zeta(2): (n+2)^2 f(n+2) = (11n^2+33n+25) f(n+1) + (n+1)^2 f(n)
        ("binomial(n,k)^2*binomial(n+k,k)", ["-(n+1)^2", "-(11*n^2+33*n+25)", "(n+2)^2"]),
    ],
)
def test_franel_and_apery_numbers_have_order_two(summand, recurrence):
    assert telescoper(KN, term(summand), "k", "n", 1) is None
    found = telescoper(KN, term(summand), "k", "n", 2).recurrence
    known = [polynomial(KN, text) for text in recurrence]
    assert [x * known[-1] for x in found] == [y * found[-1] for y in known]


GOSPER = ["k", "k^2", "k^3", "k*factorial(k)", "k*2^k", "binomial(2*k,k)/4^k",
          "(4*k+1)*factorial(k)/factorial(2*k+1)"]  # fmt: skip


@pytest.mark.parametrize("summand", GOSPER)
def test_gosper_agrees_with_sympy(summand):
    k, n = sympy.symbols("k n", integer=True, nonnegative=True)
    theirs = gosper_sum(sympy.sympify(summand.replace("^", "**"), {"k": k}), (k, 0, n))
    found = telescoper(KN, term(summand), "k", None, 0)
    ratio = parse(f"({found.ratio.num})/(({found.ratio.den})*({found.recurrence[0]}))")

    def antidifference(place):
        return evaluate(ratio, {"k": place, "n": 0}) * evaluate(parse(summand), {"k": place})

    for last in range(1, 21):
        # G has a removable pole at 0 for some; from 1 on it is finite.
        ours = antidifference(last + 1) - antidifference(1) + evaluate(parse(summand), {"k": 0})
        assert Fraction(str(theirs.subs(n, last).simplify())) == ours


@pytest.mark.parametrize("summand", ["1/(k+1)", "factorial(k)", "binomial(n,k)", "2^k/(k+1)"])
def test_what_has_no_hypergeometric_sum_is_not_summed(summand):
    assert telescoper(KN, term(summand), "k", None, 0) is None


def test_shift_quotients_are_those_of_the_values():
    for text in ["binomial(n,k)*3^k/(k+1)", "factorial(2*n-k)", "rising(n,k)*catalan(k)",
                 "(-1)^(n-k)*binomial(2*n-2*k,n-k)"]:  # fmt: skip
        for name in ("k", "n"):
            quotient = shift_quotient(KN, term(text), name)
            point = {"k": 2, "n": 5}
            ratio = evaluate(parse(f"({quotient.num})/({quotient.den})"), point)
            moved = {**point, name: point[name] + 1}
            expected = Fraction(evaluate(parse(text), moved)) / evaluate(parse(text), point)
            assert ratio == expected


def test_similar_terms_cancel_and_others_do_not():
    one, two = term("binomial(n+1,k)"), term("binomial(n,k)")
    assert str(as_fraction(KN, one.times(two, -1)).num) == "-n - 1"
    assert as_fraction(KN, term("4^n").times(term("2^(2*n)"), -1)) == (KN.one, KN.one)
    assert as_fraction(KN, term("(-1)^(2*n+1)")).num == -1
    assert as_fraction(KN, term("2^n").times(term("3^n"), -1)) is None
    pascal = to_terms(KN, parse("binomial(n+1,k+1)-binomial(n,k)-binomial(n,k+1)"), SHIFTS)
    assert vanishes(KN, pascal)
    assert not vanishes(KN, pascal[:2])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("fibonacci(k)", r"fibonacci\(k\) isn't hypergeometric"),
        ("k^n", "the base depends on k or n"),
        ("0^n", "the base is 0"),
        ("binomial(n,k)+2^k", "adds terms that aren't similar"),
        ("factorial(k^2)", r"k\^2 isn't linear"),
        ("factorial(n/2)", r"n/2 isn't linear"),
        ("k//2", "rounding: k//2"),
        ("sum(j,0,k,j)", "a sum inside of a term"),
        ("1/(k-k)", "which is 0"),
    ],
)
def test_what_is_outside_of_the_class_is_named(text, complaint):
    with pytest.raises(NotHypergeometric, match=complaint):
        term(text)


@pytest.mark.parametrize(
    "text", ["(k+1)^999", "factorial(999*k)", "2^(10^9*k)", "binomial(10^8*n,k)"]
)
def test_large_numbers_are_refused_at_once(text):
    start = time.process_time()
    with pytest.raises(OutOfReach, match="beyond"):
        term(text)
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    "text", ["3^n*binomial(2*n,n)/(n+1)", "(-1)^k*factorial(n-k)^2/(2*k+1)", "-(n+1)/2", "7"]
)
def test_a_term_is_read_back_from_its_text(text):
    first = term(text)
    again = term(term_text(KN, first))
    assert vanishes(KN, [first, again.scaled(-1)])


def test_polynomials_are_read_back_from_their_text():
    for text in ["0", "1", "-1", "-k", "2*k*n", "-3*(k-n)^2*(n+1)", "k^2+n", "(2*k+1)*5"]:
        poly = polynomial(KN, text)
        assert polynomial(KN, polynomial_text(poly)) == poly


def test_a_shifted_term_is_the_term_of_the_shifted_formula():
    text = "binomial(2*n-k,k)*2^(n-k)/(n+k+1)"
    moved = text.replace("n", "(n+3)").replace("bi(n+3)omial", "binomial")
    assert vanishes(KN, [shifted(KN, term(text), "n", 3), term(moved).scaled(-1)])
