import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml.wzllm.expressions import (
    Add,
    Call,
    Divide,
    FloorDivide,
    Integer,
    Multiply,
    Name,
    Negate,
    Power,
    Sum,
    has_sum,
    to_text,
)
from icml.wzllm.parser import BadStatement, parse
from icml.wzllm.statement import Identity

N, K, TWO = Name("n"), Name("k"), Integer(2)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("2", TWO),
        ("n - k", Add((N, Negate(K)))),
        ("2*n/k", Divide(Multiply((TWO, N)), K)),
        ("n//2", FloorDivide(N, TWO)),
        ("-n^2", Negate(Power(N, TWO))),
        ("(-n)^2", Power(Negate(N), TWO)),
        ("2^n^k", Power(TWO, Power(N, K))),
        ("2**-n", Power(TWO, Negate(N))),
        ("binomial(n,k)", Call("binomial", (N, K))),
        ("sum(k,0,n,k)", Sum("k", Integer(0), N, K)),
    ],
)
def test_formulas_are_read_with_the_usual_precedence(text, tree):
    assert parse(text) == tree


def _trees(names=("n", "k")):
    leaves = st.one_of(st.integers(0, 10**20).map(Integer), st.sampled_from(names).map(Name))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            inner.map(Negate),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: Add(tuple(parts))),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: Multiply(tuple(parts))),
            st.tuples(inner, inner).map(lambda pair: Divide(*pair)),
            st.tuples(inner, inner).map(lambda pair: Power(*pair)),
            st.tuples(inner, inner).map(lambda pair: Call("binomial", pair)),
            inner.filter(lambda body: not has_sum(body)).map(
                lambda body: Sum("j", Integer(0), Name("n"), body)
            ),
        ),
        max_leaves=12,
    )


@given(_trees())
def test_what_is_written_is_read_as_the_same_text(tree):
    text = to_text(tree)
    read = parse(text, max_length=10**6)
    # Reading joins nested sums and products, which writing keeps apart.
    assert parse(to_text(read), max_length=10**6) == read


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "unexpected end at column 1"),
        ("n +", "unexpected end at column 4"),
        ("n $ 2", r"unexpected '\$' at column 3"),
        ("2^^3", r"unexpected '\^' at column 3"),
        ("n k", "unexpected 'k' at column 3"),
        ("f(n)", "unknown function 'f' at column 1; there are: sum, binomial"),
        ("1 + binomial(n)", "binomial at column 5 takes 2 arguments, got 1"),
        ("factorial", r"factorial at column 1 needs arguments"),
        ("sum(2,0,n,1)", "sum needs a variable first, got '2' at column 5"),
        ("sum(k,0,n,sum(k,0,n,1))", "'k' at column 15 is in use already"),
        ("n.real", r"unexpected '.' at column 2"),
        ("__import__(os)", "unknown function '__import__'"),
        ("[n]", r"unexpected '\['"),
        ("1e5", "unexpected 'e5' at column 2"),
        ("\uff4e", "unexpected '\uff4e' at column 1"),  # a full-width n,
    ],
)
def test_what_is_no_formula_is_refused_with_the_column(text, complaint):
    with pytest.raises(BadStatement, match=complaint):
        parse(text)


@pytest.mark.parametrize(
    "text",
    ["(" * 900 + "1" + ")" * 900, "-" * 1999 + "1", "2^" * 900 + "1", "1" + "/1" * 900,
     "binomial(" * 150 + "1"],
)  # fmt: skip
def test_deep_nesting_is_refused_in_one_sentence(text):
    with pytest.raises(BadStatement, match=r"^(nested )?more than 100 .*$"):
        parse(text)


def test_long_text_is_refused_and_long_flat_sums_are_not():
    assert len(parse("+".join("1" * 1000)).terms) == 1000
    with pytest.raises(BadStatement, match="2001 characters, at most 2000"):
        parse("1" * 2001)


def test_an_identity_finds_its_variables_limits_first():
    identity = Identity.parse("sum(k,0,n,binomial(m,k)*binomial(r,n-k)) = binomial(m+r,n)")
    assert identity.vars == ("n", "m", "r")
    assert Identity.parse("sum(k,0,n,x*binomial(m,k)) = 1").vars == ("n", "x", "m")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("n", "one '=', found 0"),
        ("n = n = n", "one '=', found 2"),
        ("2 = n +", "unexpected end at column 8"),
        ("sum(n,0,n,1) = n", "'n' is a sum's variable"),
        ("sum(k,0,n,1) = k", "'k' is a sum's variable"),
        ("a+b+c+d+e+f+g = 1", "7 variables, at most 6"),
    ],
)
def test_what_is_no_identity_is_refused(text, complaint):
    with pytest.raises(BadStatement, match=complaint):
        Identity.parse(text)


def test_a_variable_that_is_not_listed_is_named():
    with pytest.raises(BadStatement, match="unknown variable 'm' at column 3; there are: n"):
        Identity("n+m", "1", ("n",))
