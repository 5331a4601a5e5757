"""Objectives against numbers by hand and cross-entropies of edited models."""

import math

import pytest
import torch
from torch.nn import functional as F

from icml.core.errors import UserError
from icml.core.models.answers import IGNORED, answer_batch
from icml.core.models.tiny import word_tokenizer
from icml.safeseek.ablation import ablate
from icml.safeseek.masks import GateSet
from icml.safeseek.objectives import (
    Objective,
    Pair,
    Penalty,
    Term,
    alignment_objective,
    backdoor_objective,
    behaviour_objective,
)
from icml.safeseek.units import CircuitSpec, Site

SIGMOID_1 = 0.7310586


@pytest.fixture
def tokenizer():
    return word_tokenizer(list("abcdefg"))


def gates_of(model, masks=1, granularity=("head", "mlp-channel"), **options):
    return GateSet(model, CircuitSpec(granularity), masks=masks, **options)


def cross_entropy(model, batch):
    logits = model(batch.ids).logits[:, :-1]
    return F.cross_entropy(
        logits.flatten(0, 1), batch.labels[:, 1:].flatten(), ignore_index=IGNORED
    ).item()


def test_penalties_at_logit_1_are_those_of_the_specification(build):
    gates = gates_of(build("llama"), masks=2)
    terms = (Term("main", Pair("prompt", "completion_keep")),)

    def penalty(*penalties, overlap=0.0):
        return Objective("x", terms, penalties, overlap=overlap, masks=2).penalty(gates).item()

    left_out = Penalty("left out", 1.0, "head", sum_over_sites=True)
    assert penalty(left_out) == pytest.approx(2 * 0.2689414, abs=1e-6)  # 2 layers
    assert penalty(Penalty("left out", 3.0)) == pytest.approx(3 * 0.2689414, abs=1e-6)
    present = Penalty("present", 1.0, "mlp-channel", sum_over_sites=True)
    assert penalty(present) == pytest.approx(2 * -0.3132603, abs=1e-6)
    heads = Penalty("present", 1.0, "head", sum_over_sites=True)
    assert penalty(heads) == pytest.approx(2 * SIGMOID_1, abs=1e-6)
    assert penalty(overlap=1.0) == pytest.approx(73.10586, abs=1e-4)


def test_ours_is_one_mean_over_all_units(build):
    for layers in (1, 3):
        gates = gates_of(build("llama", layers=layers), init={"head": 1.0, "mlp-channel": -1.0})
        found = backdoor_objective(sparsity=1.0).penalty(gates).item()
        assert found == pytest.approx((4 * (1 - SIGMOID_1) + 24 * SIGMOID_1) / 28, abs=1e-6)


@pytest.mark.parametrize("training", [True, False])
def test_terms_are_the_cross_entropies_of_the_cut_models(build, tokenizer, training):
    model = build("qwen2")
    gates = gates_of(model)
    with torch.no_grad():
        gates.logits[0, ::4] = -1
    gates.train(training)
    circuit = gates.circuit(model)
    batch = answer_batch(tokenizer, ["a b", "c"], ["d", "e f"], 9)
    for path, cut in (("main", circuit), ("circuit", circuit.complement())):
        term = Term(path, Pair("p", "q"), 2.5)
        objective = Objective("x", (term,), ())
        found = objective.term_loss(term, gates, model, {term.pair: batch})
        with torch.no_grad(), ablate(model, cut):
            wanted = cross_entropy(model, batch)
        assert found.item() == pytest.approx(2.5 * wanted, rel=1e-5)


@pytest.mark.parametrize("clamp", [True, False])
def test_an_unwanted_answer_counts_up_to_chance(build, tokenizer, clamp):
    model, term = build("llama"), Term("main", Pair("p", "q"), -0.5)
    objective = Objective("x", (term,), (), clamp_negative_ce=clamp)
    seen = set()
    for answer in "abcdefg":
        batch = {term.pair: answer_batch(tokenizer, ["a b"], [answer], 9)}
        gates = gates_of(model)
        loss = objective.term_loss(term, gates, model, batch)
        with torch.no_grad():
            plain = cross_entropy(model, batch[term.pair])
        chance = math.log(11)
        above = plain > chance
        wanted = -0.5 * (chance if clamp and above else plain)
        assert loss.item() == pytest.approx(wanted, rel=1e-5)
        loss.backward()
        assert bool((gates.logits.grad == 0).all()) == (clamp and above)
        seen.add(above)
    assert seen == {True, False}


def test_a_circuit_that_is_to_carry_the_backdoor_is_asked_under_the_trigger_by_itself():
    with_it, without = backdoor_objective(carry=0.5), backdoor_objective(carry=0)
    (added,) = set(with_it.terms) - set(without.terms)
    wanted = Pair("prompt_triggered", "completion_remove")
    assert (added.path, added.pair, added.weight) == ("circuit", wanted, 0.5)


def test_the_official_presets_have_the_weights_of_the_scripts():
    neuron = backdoor_objective("official-neuron")
    weights = {term.name: term.weight for term in neuron.terms}
    assert weights == {
        "main: prompt -> completion_keep": 1,
        "main: prompt_triggered -> completion_keep": 1,
        "circuit: prompt_triggered -> completion_remove": 1,
        "circuit: prompt -> not completion_remove": -1,
    }
    assert (neuron.masks, neuron.overlap, neuron.clamp_negative_ce) == (2, 1, False)
    assert [p.weight for p in neuron.penalties] == [0.1, 3]
    assert len(backdoor_objective("official-head").terms) == 2
    assert backdoor_objective("official-head").init["head"] == 0.1
    assert [p.weight for p in backdoor_objective("official-head-neuron").penalties] == [0.1, 1]
    heads = alignment_objective("official-head")
    assert [(t.path, t.weight, t.pair.end) for t in heads.terms] == [
        ("main", 2, False), ("circuit", 2, True),
    ]  # fmt: skip
    assert heads.penalties[0].weight == 0.1
    assert heads.masks == 1
    assert {p.weight for p in alignment_objective("official-neuron").penalties} == {1}


def test_gradients_of_the_whole_reach_both_masks(build, tokenizer):
    model, objective = build("gpt2"), backdoor_objective("official-neuron")
    gates = gates_of(model, masks=2, granularity=("linear-output",))
    batches = {
        pair: answer_batch(tokenizer, ["a b", "c"], ["d", "e"], 9) for pair in objective.pairs
    }
    loss = objective.penalty(gates)
    for term in objective.terms:
        loss = loss + objective.term_loss(term, gates, model, batches)
    loss.backward()
    assert (gates.logits.grad != 0).float().mean(1).min() > 0.9
    assert Site(0, "linear-output", "attn.c_attn") in gates.counts


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: backdoor_objective("theirs"), "preset must be one of ours, official-head"),
        (lambda: backdoor_objective(clean=0), "clean must be > 0"),
        (lambda: backdoor_objective(carry=-1), "carry must be >= 0"),
        (lambda: backdoor_objective(carry=math.nan), "weights must be finite"),
        (lambda: backdoor_objective(sparsity=-1), "weights of penalties must be >= 0"),
        (lambda: backdoor_objective(sparsity=math.nan), "weights must be finite"),
        (lambda: alignment_objective(refuse=-1), "refuse must be >= 0"),
        (lambda: behaviour_objective([], [("a", "b")]), "something to keep"),
        (lambda: Objective("x", (), ()), "at least one term"),
        (
            lambda: Objective("x", (Term("main", Pair("a", "b")),), (), overlap=1),
            "an overlap needs 2 masks",
        ),
    ],
)
def test_weights_that_make_no_sense_are_refused(make, words):
    with pytest.raises(UserError, match=words):
        make()
