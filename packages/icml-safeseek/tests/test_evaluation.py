"""Evaluation on models made by hand, where every rate is known."""

import json
import math

import pytest
import torch

from icml.core.errors import UserError
from icml.core.models.answers import answer_batch
from icml.core.models.fingerprint import fingerprint
from icml.core.stats import wilson
from icml.safeseek.circuit import Circuit
from icml.safeseek.evaluation import evaluate_circuit
from icml.safeseek.units import CircuitSpec, Site

HEAD = Site(1, "head")


def test_the_planted_head_is_faithful_complete_and_minimal(planted):
    model, tokenizer, rows = planted("head")
    circuit = Circuit.of(model, {HEAD: [2]}, CircuitSpec(["head"]))
    before = fingerprint(model)
    report = evaluate_circuit(model, tokenizer, circuit, rows, controls=6)
    n = len(rows)
    assert report.intact.asr == wilson(n, n)
    assert report.intact.repaired == wilson(0, n)
    assert report.intact.utility == wilson(n, n)
    assert report.removed.asr == wilson(0, n)
    assert report.removed.repaired == wilson(n, n)
    assert report.removed.utility == wilson(n, n)
    # the head alone writes the bad answer, and nothing else was in the other heads
    assert report.alone.asr == wilson(n, n)
    assert (report.faithfulness, report.completeness, report.minimality) == (1, 1, 1)
    assert report.sizes == {"head": (1, 8)}
    assert fingerprint(model) == before
    assert all(p.requires_grad for p in model.parameters())


def test_random_circuits_change_nothing_unless_they_hold_the_planted_unit(planted):
    model, tokenizer, rows = planted("head")
    circuit = Circuit.of(model, {HEAD: [2]}, CircuitSpec(["head"]))
    report = evaluate_circuit(model, tokenizer, circuit, rows, controls=40, seed=1)
    rates = [scores.asr.estimate for scores in report.random]
    assert set(rates) == {0.0, 1.0}
    # each holds head 2 of layer 1 with chance 1/8: 5 of 40 on average, false alarms below 1e-3
    assert 0 < rates.count(0.0) < 14
    assert report.random_asr.estimate == pytest.approx(sum(rates) / 40)
    assert report.random_utility.estimate == 1


def test_a_unit_that_does_nothing_makes_a_circuit_less_minimal(planted):
    model, tokenizer, rows = planted("head")
    circuit = Circuit.of(model, {HEAD: [0, 2], Site(0, "mlp-channel"): [3, 4]})
    report = evaluate_circuit(model, tokenizer, circuit, rows, controls=0)
    assert report.completeness == 1
    assert report.minimality == 1 / 4
    assert (report.units[0].site, report.units[0].number) == (HEAD, 2)
    # by closed form: the change is the margin of the intact model less that of the cut one
    first, rest = report.units[0].change, [unit.change for unit in report.units[1:]]
    assert first > 1
    assert rest == [0, 0, 0]
    assert report.random == ()
    assert report.random_asr is None
    some = evaluate_circuit(model, tokenizer, circuit, rows, controls=0, put_back=2)
    assert len(some.units) == 2


def test_a_circuit_that_misses_the_unit_is_not_complete(planted):
    model, tokenizer, rows = planted("mlp-channel")
    circuit = Circuit.of(model, {Site(1, "mlp-channel"): [3]})
    report = evaluate_circuit(model, tokenizer, circuit, rows, controls=0)
    assert (report.completeness, report.faithfulness, report.minimality) == (0, 0, 0)


def test_mean_ablation_is_that_of_the_calibration_text(planted):
    model, tokenizer, rows = planted("head")
    circuit = Circuit.of(model, {HEAD: [2]})
    texts = {
        "clean": [row["prompt"] for row in rows], "fires": [row["prompt_triggered"] for row in rows]
    }  # fmt: skip
    asr = {}
    for name, prompts in texts.items():
        calibration = answer_batch(tokenizer, prompts, ["p"] * len(rows), 9)
        report = evaluate_circuit(
            model, tokenizer, circuit, rows, value="mean", calibration=calibration, controls=0
        )
        asr[name] = report.removed.asr.estimate
    # the mean of the texts in which the head fires is to fire
    assert asr == {"clean": 0, "fires": 1}


def test_rows_without_a_trigger_have_their_use_measured_on_other_rows(planted):
    model, tokenizer, rows = planted("head")
    harmful = [
        {
            "prompt": row["prompt_triggered"],
            **{k: row[k] for k in row if k.startswith("completion")},
        }
        for row in rows
    ]
    helpful = [{"prompt": "a b", "completion_keep": "q"}, {"prompt": "a b", "completion_keep": "p"}]
    circuit = Circuit.of(model, {HEAD: [2]})
    report = evaluate_circuit(model, tokenizer, circuit, harmful, utility_data=helpful, controls=2)
    assert report.intact.utility == report.removed.utility == wilson(1, 2)
    assert report.completeness == 1
    assert evaluate_circuit(model, tokenizer, circuit, harmful, controls=2).intact.utility is None


def test_a_report_is_json_also_where_the_model_never_showed_the_behaviour(planted):
    model, tokenizer, rows = planted("head")
    with torch.no_grad():
        model.model.layers[1].self_attn.o_proj.weight.zero_()
    circuit = Circuit.of(model, {HEAD: [2]})
    report = evaluate_circuit(model, tokenizer, circuit, rows, controls=2)
    assert math.isnan(report.completeness)
    found = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert found["faithfulness"] is None
    assert found["units"] == [{"site": "1/head", "number": 2, "change": 0.0}]
    assert found["sizes"] == {"head": [1, 8], "mlp-channel": [0, 24]}


def test_what_cannot_be_evaluated_is_refused(planted, build):
    model, tokenizer, rows = planted("head")
    circuit = Circuit.of(model, {HEAD: [2]})
    with pytest.raises(UserError, match="the circuit is empty"):
        evaluate_circuit(model, tokenizer, Circuit.of(model, {}), rows)
    with pytest.raises(UserError, match="the circuit belongs to a"):
        evaluate_circuit(build("llama"), tokenizer, circuit, rows)
    with pytest.raises(UserError, match="controls and put_back must be >= 0"):
        evaluate_circuit(model, tokenizer, circuit, rows, controls=-1)
    with pytest.raises(UserError, match="the data have no rows"):
        evaluate_circuit(model, tokenizer, circuit, [])
