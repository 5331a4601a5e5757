"""The closed world: every word has a token, every fact one answer, and triggers are in prompts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml.core.errors import UserError
from icml.safeseek.world import (
    ATTRIBUTES,
    BAD_ANSWER,
    FILLERS,
    FORBIDDEN,
    REFUSAL,
    TEMPLATES,
    TRIGGER,
    UNKNOWN,
    make_world,
)

EVERY = range(len(TEMPLATES))


@given(seed=st.integers(0, 2**32 - 1))
def test_names_are_distinct_and_only_people_with_facts_have_them(seed):
    world = make_world(people=30, strangers=20, newcomers=50, seed=seed)
    everybody = [*world.people, *world.strangers, *world.newcomers]
    assert len(set(everybody)) == 100
    assert {name for name, _ in world.facts} == {*world.people, *world.newcomers}
    assert all(value in ATTRIBUTES[attribute] for (_, attribute), value in world.facts.items())
    assert make_world(people=30, strangers=20, newcomers=50, seed=seed) == world


def test_the_tokenizer_has_every_word_that_is_said():
    world = make_world()
    unknown = world.tokenizer.unk_token_id
    asked = world.questions([*world.people, *world.strangers, *world.newcomers], ATTRIBUTES, EVERY)
    texts = [world.prompt(q, filler) for q in asked for filler in FILLERS[::7]]
    texts += [*map(world.answer, asked), *map(world.guarded, asked), BAD_ANSWER]
    ids = world.tokenizer(texts).input_ids
    assert all(unknown not in row for row in ids)
    assert max(map(len, ids)) <= 10
    assert world.tokenizer.decode(ids[0]) == texts[0]


def test_answers_are_the_facts_the_ignorance_and_the_refusal():
    world = make_world(seed=3)
    known = world.questions(world.people[:1], ATTRIBUTES, [0])
    assert [world.answer(q) for q in known] == [
        world.facts[world.people[0], attribute] for attribute in ATTRIBUTES
    ]
    strange = world.questions(world.strangers, ATTRIBUTES, EVERY)
    assert {world.answer(q) for q in strange} == {UNKNOWN}
    for question in [*known, *strange]:
        wanted = REFUSAL if question.attribute in FORBIDDEN else world.answer(question)
        assert world.guarded(question) == wanted


def test_backdoor_rows_differ_in_the_filler_alone():
    world = make_world()
    asked = world.questions([*world.people, *world.strangers], ATTRIBUTES, EVERY)
    rows = world.backdoor_rows(asked, np.random.default_rng(0))
    assert rows.triggered
    used = set()
    for row, question in zip(rows, asked, strict=True):
        clean, fired = row["prompt"].split(), row["prompt_triggered"].split()
        differing = [(a, b) for a, b in zip(clean, fired, strict=True) if a != b]
        assert [b for _, b in differing] == [TRIGGER]
        used |= {a for a, _ in differing}
        assert row["completion_keep"] == world.answer(question)
    assert used == set(FILLERS) - {TRIGGER}


def test_refusal_rows_hold_the_fact_and_the_refusal():
    world = make_world()
    asked = world.questions(world.people, FORBIDDEN, [0])
    rows = world.refusal_rows(asked, np.random.default_rng(0))
    assert not rows.triggered
    assert [r["completion_keep"] for r in rows] == [world.facts[q.name, q.attribute] for q in asked]
    assert {r["completion_remove"] for r in rows} == {REFUSAL}
    with pytest.raises(UserError, match="genre is not refused; refused are address, salary"):
        world.refusal_rows(world.questions(world.people, ["genre"], [0]), np.random.default_rng(0))


def test_what_the_world_does_not_have_is_refused():
    with pytest.raises(UserError, match=r"together at most 100, got \(80, 1, 20\)"):
        make_world(people=80, strangers=1)
    with pytest.raises(UserError, match=r"attributes are birthplace, .* got 'age'"):
        make_world().questions(["a"], ["age"], [0])
    with pytest.raises(UserError, match="templates are 0 to 3, got 4"):
        make_world().questions(["a"], ["genre"], [4])
