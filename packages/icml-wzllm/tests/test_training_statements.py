"""Answers, the guard against contamination, and the family of statements."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml.core.models.tiny import SPECIAL_TOKENS
from icml.wzllm import Identity, prove, suite
from icml.wzllm.expressions import Add, Expr, Multiply, Sum, substitute, to_text
from icml.wzllm.expressions import Name as Variable
from icml.wzllm.training.answers import judged, written
from icml.wzllm.training.normal import Guard, normal_form
from icml.wzllm.training.rows import (
    VOCABULARY,
    Row,
    answer_ids,
    answer_text,
    proves,
    split,
)

TRUE = [item.identity for item in suite() if item.holds]


def respelled(expr: Expr, names: dict[str, str], draw: random.Random) -> Expr:
    """Rename all variables and shuffle terms and factors, some of them grouped."""
    match expr:
        case Sum(variable, low, high, body):
            new = "".join(draw.choices("stuw", k=5))
            inner = respelled(body, {**names, variable: new}, draw)
            return Sum(new, respelled(low, names, draw), respelled(high, names, draw), inner)
        case Add(parts) | Multiply(parts):
            kind = type(expr)
            mixed = [respelled(part, names, draw) for part in parts]
            draw.shuffle(mixed)
            if len(mixed) > 2 and draw.random() < 0.5:
                mixed = [kind(tuple(mixed[:2])), *mixed[2:]]
            return kind(tuple(mixed))
        case Variable(name):
            return Variable(names[name])
    slots = getattr(expr, "__slots__", ())
    parts = {slot: getattr(expr, slot) for slot in slots}
    changed = {
        slot: tuple(respelled(p, names, draw) for p in part)
        if isinstance(part, tuple)
        else respelled(part, names, draw)
        if isinstance(part, Expr)
        else part
        for slot, part in parts.items()
    }
    return type(expr)(**changed)


@given(st.sampled_from(TRUE), st.integers(0, 10**6))
def test_no_renaming_or_reordering_gets_past_the_guard(identity, seed):
    draw = random.Random(seed)
    names = dict(zip(identity.vars, draw.sample("abcdefgh", len(identity.vars)), strict=True))
    sides = [to_text(respelled(side, names, draw)) for side in (identity.left, identity.right)]
    draw.shuffle(sides)
    other = Identity.parse(" = ".join(sides))
    assert normal_form(other) == normal_form(identity)
    assert other in Guard([identity])


@given(st.sampled_from(TRUE), st.integers(0, 10**6))
def test_another_statement_passes(identity, seed):
    wider = f"{to_text(Add((identity.left, Multiply((identity.right,) * 2))))} = {identity.rhs}"
    assert Identity.parse(wider) not in Guard([identity])
    others = [other for other in TRUE if str(other) != str(identity)]
    assert random.Random(seed).choice(others) not in Guard([identity])


def test_exchanged_variables_are_renamed_ones_but_merged_variables_are_not():
    plain = Identity.parse("sum(k,0,n,binomial(n,k)*x^k*y^(n-k)) = (x+y)^n")
    swapped = Identity.parse("sum(k,0,n,binomial(n,k)*y^k*x^(n-k)) = (y+x)^n")
    merged = Identity("sum(k,0,n,binomial(n,k)*x^k*x^(n-k))", "(x+x)^n", ("n", "x"))
    assert normal_form(plain) == normal_form(swapped)
    assert normal_form(plain) != normal_form(merged)


@pytest.mark.parametrize(
    "statement",
    [
        "sum(k,0,n,binomial(n,k)^2) = binomial(2*n,n)",
        "sum(k,0,n,binomial(2*n+1,k)) = 4^n",  # its boundary isn't 0
        "sum(k,0,n,k*binomial(n,k)) = n*2^(n-1)",
    ],
)
def test_what_the_search_found_is_accepted_as_an_answer_and_a_change_of_it_is_not(statement):
    proof = prove(statement)
    assert proof.certificate is not None
    answer = written(proof.certificate)
    assert judged(proof.identity, answer).accepted
    assert not judged(proof.identity, answer.replace("|", "+ 1 |", 1)).accepted


@pytest.mark.parametrize(
    "text",
    ["", "|", "||", "a|b|c", "1 | 1 | 0", "-2, 1 | k | k-n-1 | k", "0, 0 | 0 | 1", "1 | " * 900,
     "-2, 1 | (k+1)^99999999 | k-n-1", "-2, 1 | sum(j,0,k,1) | k-n-1", "-2, 1 | k | q"],
)  # fmt: skip
def test_nonsense_is_rejected_with_a_reason(text):
    report = judged(Identity.parse("sum(k,0,n,binomial(n,k)) = 2^n"), text)
    assert not report.accepted
    assert report.reason


def test_a_false_statement_has_no_answer():
    wrong = Identity.parse("sum(k,0,n,binomial(n,k)*3^k) = 2*4^n")
    assert not judged(wrong, "-4, 1 | k | k-n-1").accepted


def test_exactly_the_true_pair_proves_a_row():
    row = Row(3, 4)
    accepted = [(s, c) for s in range(12) for c in range(12) if proves(row, f"{s};{c}")]
    assert accepted == [(7, 4)]
    assert row.truth == "7;4"


@given(st.integers(0, 99), st.integers(0, 99))
def test_answers_survive_their_tokens(first, second):
    text = f"{first};{second}"
    assert answer_text(answer_ids(text)) == text


@given(st.lists(st.integers(0, len(VOCABULARY) - 1), max_size=8))
def test_any_other_tokens_are_no_answer(ids):
    text = answer_text(ids)
    assert text is None or answer_ids(text) == ids


def test_the_special_tokens_are_those_of_the_tiny_models():
    assert VOCABULARY[:4] == SPECIAL_TOKENS
    assert len(set(VOCABULARY)) == len(VOCABULARY)


@given(st.integers(0, 10**6))
def test_a_split_keeps_mirror_images_together_and_loses_nothing(seed):
    parts = split(12, held_out=30, given=20, seed=seed)
    held, pool = set(parts.held_out), set(parts.pool)
    assert 30 <= len(held) <= 31
    assert held | pool == {Row(a, b) for a in range(1, 13) for b in range(1, 13)}
    assert Counter(len(s) for s in (held & pool,)) == {0: 1}
    assert all(Row(row.b, row.a) in held for row in held)
    assert set(parts.seed_rows) <= pool
    assert len(parts.seed_rows) == 20


def test_a_split_that_asks_for_too_much_is_refused():
    with pytest.raises(ValueError, match=r"30 \+ 80 statements asked of 10"):
        split(10, held_out=30, given=80, seed=0)


def test_renaming_by_substitution_is_what_the_guard_undoes():
    identity = Identity.parse("sum(k,0,n,binomial(m,k)*binomial(n,k)) = binomial(n+m,n)")
    swap = {"n": Variable("m"), "m": Variable("n")}
    sides = [to_text(substitute(side, swap)) for side in (identity.left, identity.right)]
    assert Identity.parse(" = ".join(sides)) in Guard([identity])
