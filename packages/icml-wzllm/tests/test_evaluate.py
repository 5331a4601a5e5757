import random
from fractions import Fraction
from math import comb, factorial

import pytest
import sympy

from icml.wzllm.parser import parse
from icml.wzllm.values import Meter, TooLarge, Undefined, evaluate


def value(text, **values):
    return evaluate(parse(text), values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0^0", 1),
        ("binomial(5,-1)", 0),
        ("binomial(3,5)", 0),
        ("binomial(-2,3)", -4),  # (-2)(-3)(-4)/6
        ("binomial(1/2,2)", Fraction(-1, 8)),  # (1/2)(-1/2)/2
        ("sum(k,3,2,k)", 0),
        ("sum(k,1,0,1/0)", 0),
        ("7//2", 3),
        ("-7//2", -4),
        ("catalan(4)", 14),  # 70/5
        ("fibonacci(10)", 55),
        ("harmonic(3)", Fraction(11, 6)),
        ("stirling2(4,2)", 7),  # {1|3}: 4, {2|2}: 3
        ("stirling2(0,0)", 1),
        ("rising(3,2)", 12),
        ("falling(3,2)", 6),
        ("falling(1/2,2)", Fraction(-1, 4)),
        ("2^-2", Fraction(1, 4)),
    ],
)
def test_values_worked_out_by_hand(text, expected):
    assert value(text) == expected


@pytest.mark.parametrize(
    "text",
    ["1/0", "factorial(-1)", "0^(-1)", "0*(1/0)", "factorial(1/2)", "2^(1/2)", "catalan(-1)",
     "sum(k,0,1/2,k)", "1//0", "rising(1,-1)", "fibonacci(-1)"],
)  # fmt: skip
def test_what_has_no_value_is_undefined(text):
    with pytest.raises(Undefined):
        value(text)


@pytest.mark.parametrize(
    "text",
    ["2^5000", "((2^4096)^4096)^4096", "factorial(10^6)", "binomial(10^30,10^10)",
     "sum(k,0,10^9,1)", "sum(i,0,9999,sum(j,0,9999,1))", "fibonacci(10^9)", "harmonic(10^9)",
     "stirling2(9999,5000)", "rising(10^50,10^6)", "factorial(9999)*factorial(9999)",
     "sum(k,0,90000,factorial(1000))"],
)  # fmt: skip
def test_what_takes_too_long_is_refused(text):
    with pytest.raises(TooLarge):
        evaluate(parse(text), {}, Meter(1_000_000))


def _random_formula(draws, depth):
    """Return a formula in our language and in sympy's, both from the same draws."""
    if depth == 0:
        name = draws.choice(["n", "m", "1", "2", "3"])
        return name, sympy.Integer(name) if name.isdigit() else sympy.Symbol(name)
    kind = draws.choice(["+", "-", "*", "/", "^", "binomial", "factorial", "sum"])
    left, right = (_random_formula(draws, depth - 1) for _ in range(2))
    if kind == "factorial":
        return f"factorial({left[0]})", sympy.factorial(left[1], evaluate=False)
    if kind == "binomial":
        return f"binomial({left[0]},{right[0]})", sympy.binomial(left[1], right[1], evaluate=False)
    if kind == "^":
        small = draws.randint(0, 3)
        return f"({left[0]})^{small}", left[1] ** small
    if kind == "sum":
        k = sympy.Symbol(f"k{depth}")
        summand = left[1] * k + right[1]
        return f"sum({k},0,n,({left[0]})*{k}+({right[0]}))", sympy.Sum(
            summand, (k, 0, sympy.Symbol("n"))
        )
    signs = {"+": left[1] + right[1], "-": left[1] - right[1], "*": left[1] * right[1]}
    theirs = signs[kind] if kind in signs else left[1] / right[1]
    return f"({left[0]}){kind}({right[0]})", theirs


def test_values_agree_with_sympy_on_random_formulas():
    draws, compared = random.Random(7), 0
    while compared < 500:
        text, theirs = _random_formula(draws, draws.randint(1, 2))
        values = {"n": draws.randint(0, 4), "m": draws.randint(0, 4)}
        try:
            ours = evaluate(parse(text), values)
        except (Undefined, TooLarge):
            continue
        expected = theirs.subs({sympy.Symbol(k): v for k, v in values.items()}).doit()
        assert expected == sympy.Rational(ours.numerator, ours.denominator), text
        compared += 1


@pytest.mark.parametrize("upper", range(70, 60, -1))
def test_running_binomials_are_those_of_the_standard_library(upper):
    for lower in range(upper + 3):
        assert value("binomial(n,k)", n=upper, k=lower) == comb(upper, lower)


def test_a_sum_is_the_sum_of_its_terms():
    total = sum(Fraction(factorial(k), k + 1) for k in range(8))
    assert value("sum(k,0,n,factorial(k)/(k+1))", n=7) == total
