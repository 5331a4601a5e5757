"""``icml brokenmath sft``: what is learnt, what is refused, and a run that was killed."""

import json
import re
import subprocess
import time
from types import SimpleNamespace

import pytest
from trl import SFTConfig

from icml.brokenmath import conditions
from icml.brokenmath.items import load_items, save_jsonl
from icml.brokenmath.prompts import SOLVE
from icml.brokenmath.sft import build_sft, reference_answers
from icml.brokenmath.sft_data import RULE_TEMPLATES, fresh_items, texts_of, training_data
from icml.brokenmath.sft_recipe import read_sft_recipe, sft
from icml.brokenmath.sft_tokens import encode
from icml.brokenmath.verified import FROZEN_SEED, generate
from icml.core.cli import main
from icml.core.errors import UserError
from icml.core.models.random_llama import byte_tokenizer
from icml.core.models.tiny import causal_lm
from icml.core.reproduce_all import ICML
from icml.core.rl.recipe import recipe_names
from icml.core.rl.recipe_run import training_config

CHAT = (
    "{% for m in messages %}{{ '<bos>' + m['role'] + ':' + m['content'] + '<eos>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<bos>assistant:' }}{% endif %}"
)
TRAINING = {
    "max_steps": 3, "per_device_train_batch_size": 2, "max_length": 1024, "use_cpu": True,
    "bf16": False, "logging_steps": 1, "save_steps": 1, "activation_checkpointing": False,
}  # fmt: skip
DATA = {"n": 6, "adv_frac": 0.5, "seed": 4}


def tokenizer(template=CHAT):
    found = byte_tokenizer(256)
    found.chat_template = template
    return found


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    tokenizer().save_pretrained(folder)
    causal_lm(256, d=16, layers=1, heads=2, ctx=1024).save_pretrained(folder)
    return folder


def recipe_of(tmp_path, model, *, data=DATA, **training):
    path = tmp_path / "recipe.yaml"
    recipe = {"model": str(model), "data": data, "training": {**TRAINING, **training}}
    path.write_text(json.dumps(recipe))
    return path


@pytest.mark.parametrize("seed", [1, FROZEN_SEED])
def test_items_that_are_made_are_none_of_the_frozen_set_whatever_the_seed(seed):
    frozen = load_items("verified")
    texts = {text for item in frozen for text in (item.statement, item.original)}
    items = fresh_items(300, seed, texts_of(frozen))
    assert len(items) == len({item.id for item in items}) == 300
    assert not [item for item in items if item.statement in texts or item.original in texts]
    if seed == FROZEN_SEED:  # there was something to keep out
        assert all(item.original in texts for item in generate(300, seed))


def test_the_data_are_those_of_build_sft_on_items_outside_of_the_test():
    rows = training_data(n=40, adv_frac=0.5, proof_frac=1.0, seed=4).rows
    items = fresh_items(20, 4, texts_of(load_items("verified")))
    again = build_sft(
        reference_answers(items), n=40, adv_frac=0.5, proof_frac=1.0, seed=4,
        templates=RULE_TEMPLATES,
    )  # fmt: skip
    assert rows.to_list() == again.to_list()
    assert {row["id"] for row in rows} <= {item.id for item in items}


def test_where_the_rule_judge_reads_an_example_asks_as_the_task_does():
    state = SimpleNamespace(input_text="1 = 2", metadata={"lines": True})
    for kind in ("adversarial", "proof"):
        asked = RULE_TEMPLATES[kind].replace("{statement}", "1 = 2")
        assert asked == conditions.request(state)
    assert RULE_TEMPLATES["answer"] == SOLVE


def test_a_file_of_items_is_verified_and_its_problems_are_kept_out_of_the_test(tmp_path):
    path, tested = tmp_path / "items.jsonl", tmp_path / "tested.jsonl"
    items = fresh_items(30, 4, texts_of(load_items("verified")))
    save_jsonl(items, path)
    save_jsonl(items[:23], tested)
    shares = {"adv_frac": 0.5, "proof_frac": 1.0, "seed": 0, "items": str(path)}
    data = training_data(n=14, keep_out=[str(tested)], **shares)
    assert data.left_out == 46  # two answers an item
    assert set(data.rows["id"]) <= {item.id for item in items[23:]}
    with pytest.raises(
        UserError, match=r"too few .*\(46 are to problems of the frozen set, .*test"
    ):
        training_data(n=16, keep_out=[str(tested)], **shares)
    with pytest.raises(UserError, match="1012 are to problems of the frozen set: left out"):
        training_data(n=2, **{**shares, "items": "verified"})
    save_jsonl([items[0].model_copy(update={"answer": "10"}), *items[1:]], path)
    with pytest.raises(UserError, match=rf"1 of 30 items in .* {items[0].id} \(edited\)"):
        training_data(n=14, **shares)


def test_more_examples_than_there_are_statements_are_refused():
    with pytest.raises(UserError, match="lower n, or give answers from logs"):
        training_data(n=10_000, adv_frac=0.5, proof_frac=1.0, seed=0)


def test_the_model_learns_answers_and_nothing_but_answers():
    rows = training_data(n=6, adv_frac=0.5, proof_frac=1.0, seed=4).rows
    words = tokenizer()
    for row, found in zip(rows, encode(rows, words, None), strict=True):
        user, assistant = (message["content"] for message in row["messages"])
        pairs = list(zip(found["input_ids"], found["completion_mask"], strict=True))
        learnt = words.decode([token for token, mask in pairs if mask])
        read = words.decode([token for token, mask in pairs if not mask])
        assert learnt == f"{assistant}<eos>"
        assert read == f"<bos>user:{user}<eos><bos>assistant:"


@pytest.mark.parametrize(
    ("template", "longest", "message"),
    [
        (None, None, "has no chat template"),
        (CHAT.replace("'<bos>assistant:'", "'<bos>assistant: <think>'"), None, "writes a request"),
        (CHAT, 300, r"6 of 6 examples are longer than max_length=300, the longest has \d+ tokens"),
        ("{{ raise_exception('no system here') }}", None, "refuses the messages: no system here"),
    ],
)
def test_a_template_or_length_that_would_spoil_examples_is_refused(template, longest, message):
    rows = training_data(n=6, adv_frac=0.5, proof_frac=1.0, seed=4).rows
    with pytest.raises(UserError, match=message):
        encode(rows, tokenizer(template), longest)


def test_a_recipes_mistakes_are_told_in_one_message_and_nothing_is_written(tmp_path, capsys):
    path = tmp_path / "recipe.yaml"
    path.write_text("data: {n: 0, adv_frac: 1.5, answers: [a], items: b, shares: 1}\nmodle: x\n")
    assert main(["brokenmath", "sft", str(path), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    for complaint in ("data.n:", "data.adv_frac:", "data.shares", "model:", "unknown key modle"):
        assert complaint in said
    assert not (tmp_path / "out").exists()
    path.write_text("model: x\ndata: {n: 1, adv_frac: 1, answers: [a], items: b}\n")
    with pytest.raises(UserError, match="data: give answers or items, not both"):
        read_sft_recipe(str(path))


@pytest.mark.parametrize(
    ("training", "complaint"),
    [
        ({"lerning_rate": 1, "epochs": 2}, "SFTConfig takes no epochs, lerning_rate"),
        ({"assistant_only_loss": True}, "leave assistant_only_loss out"),
        ({"max_length": 300}, "longer than max_length=300"),
        ({"eval_strategy": "steps"}, "eval_strategy: steps asks for evaluations while training"),
        ({"load_best_model_at_end": True}, "load_best_model_at_end: True asks for evaluations"),
        ({"save_strategy": "best"}, "save_strategy: best asks for evaluations"),
        (
            {"learning_rate": "fast", "per_device_train_batch_size": 0, "num_train_epochs": -1},
            "per_device_train_batch_size: .*; learning_rate: .*; num_train_epochs: ",
        ),
        ({"max_steps": 0}, "0 steps learn nothing"),
        ({"accelerator_config": "nowhere.json"}, "No such file"),
    ],
)
def test_training_that_makes_no_sense_is_refused_before_a_model_is_loaded(
    tmp_path, model, training, complaint
):
    # A damaged checkpoint: reading it would be an error of another kind.
    (model / "model.safetensors").write_bytes(b"no weights")
    path = recipe_of(tmp_path, model, **training)
    with pytest.raises(UserError, match=complaint):
        sft(str(path), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("training", "complaint"),
    [
        ({"dataset_kwargs": {"skip_prepare_dataset": True}}, r"\(ValueError\): The train dataset"),
        ({"loss_type": "foo"}, r"\(ValueError\): Invalid `loss_type` foo"),
        ({"lr_scheduler_type": "cosine_with_min_lr"}, r"\(ValueError\): One of min_lr"),
        ({"pad_to_multiple_of": 0}, r"\(ZeroDivisionError\): integer modulo by zero"),
    ],
)
def test_what_the_trainer_refuses_before_its_first_step_is_told_in_a_sentence(
    tmp_path, model, training, complaint, capsys
):
    path, out = recipe_of(tmp_path, model, **training), tmp_path / "out"
    assert main(["brokenmath", "sft", str(path), "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert re.search(f"the training can't begin {complaint}", said)
    assert "Traceback" not in said
    assert not list(out.glob("checkpoint-*"))


def test_an_error_after_the_first_step_is_no_mistake_of_the_recipe(tmp_path, model, monkeypatch):
    def full(self, *args, **kwargs):
        raise OSError("no space left on device")

    monkeypatch.setattr("trl.SFTTrainer._save_checkpoint", full)
    path = recipe_of(tmp_path, model)
    with pytest.raises(OSError, match="no space left"):
        sft(str(path), out=tmp_path / "out")


def test_a_folder_without_weights_is_refused(tmp_path, model):
    (model / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"holds no \*\.safetensors"):
        sft(str(recipe_of(tmp_path, model)), out=tmp_path / "out")


def test_every_recipe_of_ours_is_one_that_trl_takes(tmp_path):
    names = recipe_names("icml.brokenmath")
    assert names == ["sft_qwen3_4b", "sft_tiny"]
    for name in names:
        recipe = read_sft_recipe(name)
        assert training_config(SFTConfig, recipe.training, tmp_path, use_cpu=True, bf16=False)
    assert recipe.model == "pkg:smollm2"
    changed = read_sft_recipe("sft_qwen3_4b", model="here", items="mine.jsonl")
    assert (changed.model, changed.data.answers, changed.data.items) == ("here", (), "mine.jsonl")


def test_a_run_writes_its_data_and_a_model_and_refuses_to_go_on_with_others(
    tmp_path, model, capsys
):
    path, items, out = recipe_of(tmp_path, "no-model"), tmp_path / "items.jsonl", tmp_path / "out"
    save_jsonl(fresh_items(9, 7, texts_of(load_items("verified"))), items)
    command = ["brokenmath", "sft", str(path), "--model", str(model), "--items", str(items)]
    assert main([*command, "--out", str(out)]) == 0
    assert "3 adversarial, 3 proof: the verified items in" in capsys.readouterr().out
    lines = [json.loads(line) for line in (out / "data.jsonl").read_text().splitlines()]
    rows = training_data(**DATA, proof_frac=1.0, items=str(items)).rows
    assert lines == rows.to_list()
    assert json.loads((out / "recipe.json").read_text())["model"] == str(model)
    assert json.loads((out / "result.json").read_text())["steps"] == 3
    assert (out / "model.safetensors").read_bytes() != (model / "model.safetensors").read_bytes()
    assert main([*command, "--out", str(out)]) == 0
    assert "finished before" in capsys.readouterr().out
    (out / "result.json").unlink()  # as if it had been stopped
    save_jsonl(fresh_items(9, 8, texts_of(load_items("verified"))), items)
    assert main([*command, "--out", str(out)]) == 2
    assert "holds other examples than the recipe gives now" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_that_was_killed_continues_and_ends_with_the_same_weights(tmp_path, model):
    path = recipe_of(tmp_path, model, max_steps=8, learning_rate=1e-2)
    killed = [*ICML, "brokenmath", "sft", str(path), "--out", str(tmp_path / "killed")]
    child = subprocess.Popen(killed)
    while not (tmp_path / "killed" / "checkpoint-2" / "trainer_state.json").exists():
        assert child.poll() is None
        time.sleep(0.02)
    child.kill()
    child.wait()
    assert not (tmp_path / "killed" / "result.json").exists()
    again = subprocess.run(killed, capture_output=True, text=True, check=False)
    assert again.returncode == 0
    assert "continues from" in again.stdout
    assert sft(str(path), out=tmp_path / "whole") == 0
    weights = [(tmp_path / run / "model.safetensors").read_bytes() for run in ("killed", "whole")]
    assert weights[0] == weights[1]
