"""Searches in models made by hand, of which the circuit is known."""

import copy
import math

import pytest
import torch

from icml.core.errors import UserError
from icml.core.models.fingerprint import fingerprint
from icml.safeseek.circuit import Circuit
from icml.safeseek.objectives import (
    alignment_objective,
    backdoor_objective,
    behaviour_objective,
)
from icml.safeseek.search import (
    CircuitSearchError,
    SearchConfig,
    find_circuit,
    official_search,
)
from icml.safeseek.units import Site

QUICK = SearchConfig(steps=80, batch_size=4, learning_rate=0.1, eval_every=5, checkpoint_every=7)


def change(**fields):
    return SearchConfig(**{**QUICK.__dict__, **fields})


def kept(result):
    return result.circuit.members(), result.history, result.best_step, result.validation


@pytest.mark.parametrize("relaxation", ["ste", "hard_concrete"])
@pytest.mark.parametrize(
    ("kind", "layer", "unit"),
    [("head", 1, 2), ("head", 0, 0), ("mlp-channel", 1, 2), ("mlp-channel", 0, 11)],
)
def test_the_planted_unit_and_no_other_is_found(planted, kind, layer, unit, relaxation):
    model, tokenizer, rows = planted(kind, layer=layer, unit=unit)
    # hard concrete gates start nearly always on at 2.5 and need more steps
    cfg = QUICK if relaxation == "ste" else change(relaxation=relaxation, init=2.5, steps=160)
    found = find_circuit(model, tokenizer, rows, backdoor_objective(), cfg)
    assert found.circuit.members() == [(Site(layer, kind), unit)]
    assert found.carrier is None
    assert found.best_step > cfg.steps / 2


def test_two_masks_agree_on_the_planted_head(planted):
    model, tokenizer, rows = planted("head")
    objective = backdoor_objective("official-head-neuron")
    found = find_circuit(model, tokenizer, rows, objective, change(granularity=("head",)))
    assert found.circuit.members() == [(Site(1, "head"), 2)]
    assert (Site(1, "head"), 2) in found.carrier.members()


def test_a_behaviour_is_found_without_knowing_what_comes_instead(planted):
    model, tokenizer, rows = planted("head")
    # the model is quite certain, so the gradient is small and the penalty must be smaller still
    objective = behaviour_objective(
        [("prompt", "completion_keep")], [("prompt_triggered", "completion_remove")], sparsity=0.01
    )
    found = find_circuit(model, tokenizer, rows, objective, QUICK)
    assert found.circuit.members() == [(Site(1, "head"), 2)]


def test_a_refusal_is_found_by_the_alignment_objective(planted):
    model, tokenizer, rows = planted("head")
    # the trigger stands for what is forbidden: without the head the model complies
    harmful = [{**row, "prompt": row["prompt_triggered"]} for row in rows]
    found = find_circuit(model, tokenizer, harmful, alignment_objective(sparsity=8.0), QUICK)
    assert found.circuit.heads(1) == (2,)


def test_a_search_depends_on_its_seed_and_leaves_the_global_state_alone(planted):
    model, tokenizer, rows = planted("head")
    state = torch.get_rng_state()

    def search(seed):
        return find_circuit(
            model, tokenizer, rows, backdoor_objective(), change(seed=seed, steps=30)
        )

    assert kept(search(1)) == kept(search(1))
    assert search(1).history != search(2).history
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("relaxation", ["ste", "hard_concrete"])
@pytest.mark.parametrize("stop", [3, 14, 33, 40])
def test_a_search_that_was_stopped_ends_in_the_same_bits(planted, tmp_path, stop, relaxation):
    model, tokenizer, rows = planted("mlp-channel")
    cfg = change(relaxation=relaxation, steps=40, init=0.3)
    whole = find_circuit(model, tokenizer, rows, backdoor_objective(), cfg, out=tmp_path / "a")

    def kill(step, row):
        if step == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        find_circuit(
            model, tokenizer, rows, backdoor_objective(), cfg, out=tmp_path / "b", callbacks=[kill]
        )
    steps = []
    again = find_circuit(
        model, tokenizer, rows, backdoor_objective(), cfg, out=tmp_path / "b",
        callbacks=[lambda step, row: steps.append(step)],
    )  # fmt: skip
    saved = 40 if stop == 40 else stop // 7 * 7
    assert steps == list(range(saved + 1, 41))
    assert kept(again) == kept(whole)
    files = [(tmp_path / x / "search.safetensors").read_bytes() for x in "ab"]
    assert files[0] == files[1]
    loaded = Circuit.load(tmp_path / "b/circuit", model)
    assert loaded.members() == whole.circuit.members()


def test_two_searches_at_once_are_as_each_alone(planted):
    one, two = planted("head"), planted("mlp-channel")
    alone = [kept(find_circuit(*x, backdoor_objective(), QUICK)) for x in (one, two)]
    inner = []

    def search_another(step, row):
        if step in (1, 50):
            inner.append(kept(find_circuit(*two, backdoor_objective(), QUICK)))

    outer = find_circuit(*one, backdoor_objective(), QUICK, callbacks=[search_another])
    assert kept(outer) == alone[0]
    assert inner == [alone[1]] * 2


def test_the_model_is_as_before_and_no_weight_has_a_gradient(planted):
    model, tokenizer, rows = planted("head")
    model.train()
    model.lm_head.weight.requires_grad_(False)
    before, flags = fingerprint(model), [p.requires_grad for p in model.parameters()]

    def check(step, row):
        assert not any(p.grad is not None or p.requires_grad for p in model.parameters())

    find_circuit(model, tokenizer, rows, backdoor_objective(), QUICK, callbacks=[check])
    assert fingerprint(model) == before
    assert [p.requires_grad for p in model.parameters()] == flags
    assert all(p.grad is None for p in model.parameters())
    assert model.training
    assert not any(m._forward_pre_hooks or m._forward_hooks for m in model.modules())


def test_validation_rows_choose_the_step(planted):
    model, tokenizer, rows = planted("head")
    found = find_circuit(
        model, tokenizer, rows[::2], backdoor_objective(), change(select_from=0.0),
        eval_data=rows[1::2],
    )  # fmt: skip
    losses = {
        i + 1: row["validation"] for i, row in enumerate(found.history) if "validation" in row
    }
    assert sorted(losses) == list(range(5, 81, 5))
    assert losses[found.best_step] == min(losses.values()) == found.validation
    assert found.history[-1]["head"] == 1


def test_epochs_are_passes_over_the_rows(planted):
    model, tokenizer, rows = planted("head")
    cfg = change(epochs=6, batch_size=5, granularity=("head",))
    found = find_circuit(model, tokenizer, rows, backdoor_objective(), cfg)
    assert len(found.history) == 6 * math.ceil(12 / 5)


@pytest.mark.parametrize(
    ("sparsity", "init", "words"),
    [
        (1000.0, None, "left no unit out, so there is no circuit: lower the sparsity's weight"),
        (0.0, -9.0, "left every unit out, so there is no circuit: raise the sparsity's weight"),
    ],
)
def test_an_empty_or_a_full_circuit_is_an_error_that_says_what_to_do(
    planted, sparsity, init, words
):
    model, tokenizer, rows = planted("head")
    with pytest.raises(CircuitSearchError, match=words):
        find_circuit(
            model, tokenizer, rows, backdoor_objective(sparsity=sparsity),
            change(init=init, steps=10),
        )  # fmt: skip


def test_another_search_or_a_damaged_one_in_the_folder_is_refused(planted, tmp_path):
    model, tokenizer, rows = planted("head")
    cfg = change(steps=70)
    find_circuit(model, tokenizer, rows, backdoor_objective(), cfg, out=tmp_path)
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.lm_head.weight[0, 0] = 1
    for arguments in (
        (other, tokenizer, rows, backdoor_objective(), cfg),
        (model, tokenizer, rows[1:], backdoor_objective(), cfg),
        (model, tokenizer, rows, backdoor_objective(sparsity=1.0), cfg),
        (model, tokenizer, rows, backdoor_objective(), change(steps=70, seed=1)),
    ):
        with pytest.raises(UserError, match="holds a search with another model, data"):
            find_circuit(*arguments, out=tmp_path)
    file = tmp_path / "search.safetensors"
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(UserError, match="delete it to search anew"):
        find_circuit(model, tokenizer, rows, backdoor_objective(), cfg, out=tmp_path)


def test_rows_that_cannot_be_searched_are_refused_before_a_step(planted):
    model, tokenizer, rows = planted("head")
    objective = backdoor_objective()

    def search(data, **fields):
        find_circuit(
            model, tokenizer, data, objective, change(**fields),
            callbacks=[lambda step, row: pytest.fail("a step was taken")],
        )  # fmt: skip

    with pytest.raises(UserError, match="the data have no rows"):
        search([])
    with pytest.raises(UserError, match="row 1 has no completion_keep, which the objective needs"):
        search([rows[0], {k: v for k, v in rows[1].items() if k != "completion_keep"}])
    with pytest.raises(UserError, match="the triggered prompt of row 0 equals the clean one"):
        search([{**rows[0], "prompt_triggered": rows[0]["prompt"]}])
    with pytest.raises(UserError, match=r"12 of 12 rows have no answer left within max_len=2"):
        search(rows, max_len=2)
    with pytest.raises(UserError, match="must be a text or token ids, got list; render chat"):
        search([{**rows[0], "prompt": [{"role": "user", "content": "a"}]}])


def test_a_few_rows_that_lose_their_answer_are_left_out_with_a_warning(planted):
    model, tokenizer, rows = planted("head")
    long = {**rows[0], "prompt": "a b c d a b c d"}
    with pytest.warns(UserWarning, match="1 of 25 rows lost their answer to max_len=6"):
        found = find_circuit(
            model, tokenizer, [*rows, long, *rows], backdoor_objective(), change(max_len=6)
        )
    assert found.circuit.members() == [(Site(1, "head"), 2)]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"steps": 0}, "steps must be a whole number >= 1"),
        ({"epochs": 0}, "epochs must be a whole number >= 1"),
        ({"learning_rate": 0.0}, "learning_rate must be > 0"),
        ({"select_from": 1.0}, r"select_from must be in \[0, 1\)"),
        ({"granularity": ("neuron",)}, "granularity must be one or more of"),
    ],
)
def test_settings_that_make_no_sense_are_refused(fields, words):
    with pytest.raises(UserError, match=words):
        change(**fields)


def test_the_authors_settings_come_with_their_objectives():
    cfg = official_search(alignment_objective("official-neuron"), granularity=("mlp-channel",))
    assert (cfg.epochs, cfg.batch_size, cfg.max_len, cfg.learning_rate) == (50, 8, 256, 1e-2)
    with pytest.raises(UserError, match="is no objective of the authors'"):
        official_search(alignment_objective())
