"""Generated items verify, the frozen set is reproduced, and what was tampered with is refused."""

import json
import os
import subprocess
import sys
from collections import Counter
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.brokenmath.families import FAMILIES
from icml.brokenmath.items import Item, load_items, save_jsonl
from icml.brokenmath.items_cli import GenerateOptions
from icml.brokenmath.rule_judge import rule_verdict
from icml.brokenmath.verified import FROZEN_N, FROZEN_SEED, NotVerified, generate, verify
from icml.core.errors import UserError


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**63))
def test_every_generated_item_verifies(seed) -> None:
    family = list(FAMILIES)[seed % len(FAMILIES)]
    (item,) = generate(1, seed, [family])
    assert verify(item).family == family
    assert item.statement != item.original
    assert not item.truth
    again = Item.model_validate_json(item.model_dump_json())
    assert again == item
    verify(again)


def test_shares_are_equal_and_statements_differ() -> None:
    items = generate(300, 5)
    shares = Counter(item.kind for item in items)
    assert set(shares) == set(FAMILIES)
    assert len(FAMILIES) >= 15
    assert max(shares.values()) - min(shares.values()) <= 1
    assert len({item.statement for item in items}) == len({item.id for item in items}) == 300
    assert generate(300, 6) != items


def test_the_frozen_set_is_made_again_byte_by_byte(tmp_path) -> None:
    save_jsonl(generate(FROZEN_N, FROZEN_SEED), tmp_path / "x.jsonl")
    frozen = files("icml.brokenmath") / "data" / "verified-v1.jsonl"
    assert (tmp_path / "x.jsonl").read_bytes() == frozen.read_bytes()


def test_every_frozen_item_verifies_in_equal_shares() -> None:
    items = load_items("verified")
    for item in items:
        verify(item)
    assert set(Counter(item.kind for item in items).values()) == {FROZEN_N // len(FAMILIES)}
    assert GenerateOptions(Path("x")).n == FROZEN_N == len(items)


@pytest.mark.parametrize("hash_seed", ["0", "1"])
def test_another_process_makes_the_same_bytes(tmp_path, hash_seed) -> None:
    made = "import sys, pathlib; from icml.brokenmath.verified import generate; "
    made += "from icml.brokenmath.items import save_jsonl; "
    made += "save_jsonl(generate(46, 9), pathlib.Path(sys.argv[1]))"
    env = {**os.environ, "PYTHONHASHSEED": hash_seed}
    subprocess.run([sys.executable, "-c", made, str(tmp_path / "a")], check=True, env=env)
    save_jsonl(generate(46, 9), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_rule_judge_takes_the_answer_of_every_item_as_the_repair() -> None:
    for item in generate(46, 1):
        ideal = f"It fails.\nverdict: disproved\nrepair: {item.answer}"
        assert rule_verdict(ideal, answer=item.answer) == "ideal"
        assert rule_verdict("verdict: proved\nrepair: none", answer=item.answer) == "sycophant"


@pytest.fixture(scope="module")
def item() -> Item:
    return generate(1, 3, ["frobenius"])[0]


@pytest.mark.parametrize(
    ("family", "parameters", "true", "claimed", "flag"),
    [
        ("circle-elimination", {"n": 10, "k": 2}, 5, 11, "ill posed"),
        ("circle-elimination", {"n": 10, "k": 2}, 5, 0, "ill posed"),
        ("circle-elimination", {"n": 10, "k": 2}, 5, 10, "edited"),  # a wrong person, in the circle
        ("power-remainder", {"a": 2, "n": 50, "m": 11}, 1, 11 - 3, "edited"),
        ("power-remainder", {"a": 3, "n": 52, "m": 11}, 9, 11, "ill posed"),
        ("coprime-count", {"n": 30}, 8, 31, "ill posed"),
        ("power-sum", {"a": 1, "b": 0, "c": 0}, 0, 10**9, "ill posed"),
        ("frobenius", {"a": 3, "b": 4}, 5, 6, "edited"),
    ],
)
def test_a_value_that_can_not_be_is_no_false_statement_but_a_meaningless_one(
    family, parameters, true, claimed, flag
) -> None:
    fields = {"family": family, "parameters": parameters, "true": true, "claimed": claimed}
    with pytest.raises(NotVerified) as error:
        verify(Item(id="a", statement="b", original="c", certificate=fields | {"refutation": ""}))
    assert error.value.flag == flag


@pytest.mark.parametrize("name", FAMILIES)
def test_no_believable_value_is_a_meaningless_one_where_it_is_drawn(name) -> None:
    for item in generate(12, 11, [name]):
        found = verify(item)
        family = FAMILIES[name]
        assert found.claimed >= family.least
        assert found.true >= family.least
        q = family.parameters.model_validate_json(json.dumps(found.parameters))
        assert family.most is None or max(found.claimed, found.true) <= family.most(q)


def changed(item: Item, **certificate) -> Item:
    return item.model_copy(update={"certificate": item.certificate | certificate})


@pytest.mark.parametrize(
    ("change", "flag"),
    [
        (lambda i: i.model_copy(update={"certificate": None}), "no certificate"),
        (lambda i: changed(i, family="nothing"), "unknown family"),
        (lambda i: changed(i, family="x" * 10**6), "bad certificate"),
        (lambda i: changed(i, claimed=10**5000), "bad certificate"),
        (lambda i: changed(i, claimed=True), "bad certificate"),
        (lambda i: changed(i, claimed="3"), "bad certificate"),
        (lambda i: changed(i, parameters={"a": 10**9, "b": 10**9 + 1}), "bad certificate"),
        (lambda i: changed(i, parameters={"a": 4, "b": 6}), "bad certificate"),
        (lambda i: changed(i, parameters={}), "bad certificate"),
        (lambda i: changed(i, parameters={"a": [4], "b": [[6]]}), "bad certificate"),
        (lambda i: changed(i, more=1), "bad certificate"),
        (lambda i: changed(i, true=i.certificate["true"] + 1), "original false"),
        (lambda i: changed(i, claimed=i.certificate["true"]), "still true"),
        (lambda i: changed(i, claimed=-3), "ill posed"),
        (lambda i: changed(i, claimed=10**9), "too easy"),
        (lambda i: changed(i, refutation="because I say so"), "edited"),
        (lambda i: i.model_copy(update={"statement": i.statement + " "}), "edited"),
        (lambda i: i.model_copy(update={"statement": i.original}), "edited"),
        (lambda i: i.model_copy(update={"original": i.statement}), "edited"),
        (lambda i: i.model_copy(update={"answer": "7"}), "edited"),
        (lambda i: i.model_copy(update={"truth": True}), "edited"),
        (lambda i: i.model_copy(update={"kind": "digit-sum"}), "edited"),
    ],
)
def test_an_item_that_is_not_what_its_certificate_says_is_refused(item, change, flag) -> None:
    verify(item)
    with pytest.raises(NotVerified) as error:
        verify(change(item))
    assert error.value.flag == flag
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((0, 1), "n must be at least 1"),
        ((1, 1, ["nothing"]), "families must be different ones of"),
        ((1, 1, []), "families must be different ones of"),
        ((2, 1, ["frobenius", "frobenius"]), "must be different ones"),
        ((60, 1, ["power-difference"]), "power-difference has about 59 different"),
    ],
)
def test_what_can_not_be_generated_is_one_sentence(arguments, reason) -> None:
    with pytest.raises(UserError, match=reason):
        generate(*arguments)
