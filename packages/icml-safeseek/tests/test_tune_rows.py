"""Rows that are too long, of another vocabulary or that blow the weights up: said, never silent."""

import json

import pytest
import transformers

from icml.core.errors import UserError
from icml.core.models.answers import IGNORED, answer_batch
from icml.core.models.load import load
from icml.safeseek import commands
from icml.safeseek.tune_rows import tune_rows

ROW = {"prompt": "a b", "completion": " c"}  # with the end 4 tokens


def rows(lengths):
    return [
        {"prompt": " ".join("a" * before), "completion": " c" * after} for before, after in lengths
    ]


def test_rows_that_lose_their_end_are_counted(planted):
    model, tokenizer, _ = planted("head")
    fine = rows([(2, 1)] * 38)
    with pytest.warns(
        UserWarning, match="2 of 40 rows are longer than 4 tokens and lose their end"
    ) as said:
        found = tune_rows(model, tokenizer, [*fine, *rows([(2, 2), (5, 1)])], 4)
    assert [len(row["input_ids"]) for row in found] == [4] * 39
    assert [sum(row["completion_mask"]) for row in found] == [2] * 39
    assert "1 of them lose the whole completion" in str(said[0].message)
    with pytest.raises(UserError, match="3 of 41 rows have no completion left within 4 tokens"):
        tune_rows(model, tokenizer, [*fine, *rows([(4, 1)] * 3)], 4)


@pytest.mark.filterwarnings("error")
def test_rows_that_fit_are_not_warned_of(planted):
    model, tokenizer, _ = planted("head")
    assert len(tune_rows(model, tokenizer, [ROW], 4)) == 1


def test_tokens_are_those_of_the_search_with_no_merging_over_the_seam(planted):
    model, tokenizer, given = planted("head")
    pairs = [(row["prompt_triggered"], row["completion_keep"]) for row in given]
    asked = [{"prompt": prompt, "completion": answer} for prompt, answer in pairs]
    wanted = answer_batch(tokenizer, *zip(*pairs, strict=True), 64)
    for number, row in enumerate(tune_rows(model, tokenizer, asked)):
        learnt = wanted.labels[number] != IGNORED
        assert row["input_ids"] == wanted.ids[number][wanted.mask[number]].tolist()
        assert row["completion_mask"] == learnt[wanted.mask[number]].long().tolist()
        assert tokenizer.unk_token_id not in row["input_ids"]


def test_a_tokenizer_without_an_end_can_learn_messages_alone(planted):
    model, tokenizer, _ = planted("head")
    tokenizer.eos_token = None
    with pytest.raises(UserError, match="no end-of-text token"):
        tune_rows(model, tokenizer, [ROW])
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
    chat = {name: [{"role": "user", "content": ROW[name].strip()}] for name in ROW}
    (found,) = tune_rows(model, tokenizer, [chat])
    assert tokenizer.decode(found["input_ids"]) == "a b c"
    assert found["completion_mask"] == [0, 0, 1]


@pytest.mark.filterwarnings("ignore:1 of 20")
def test_gpt2_reads_no_more_than_its_places(planted):
    _, tokenizer, _ = planted("head")
    config = transformers.GPT2Config(vocab_size=14, n_embd=8, n_layer=1, n_head=2, n_positions=4)
    model = transformers.GPT2LMHeadModel(config)
    found = tune_rows(model, tokenizer, [*rows([(2, 2)]), *[ROW] * 19])
    assert {len(row["input_ids"]) for row in found} == {4}


def test_words_of_another_tokenizer_are_refused_by_row(planted, build):
    _, tokenizer, _ = planted("head")
    with pytest.raises(
        UserError, match="row 2 holds the token 13, this model's vocabulary is 0 to 10"
    ):
        tune_rows(build("llama"), tokenizer, [ROW, {**ROW, "completion": " T"}])


def test_a_template_that_refuses_a_row_is_quoted(planted):
    model, tokenizer, _ = planted("head")
    tokenizer.chat_template = "{{ raise_exception('roles must alternate') }}"
    chat = {
        "prompt": [{"role": "user", "content": "a"}],
        "completion": [{"role": "assistant", "content": "b"}],
    }
    with pytest.raises(
        UserError, match="row 1: the chat template refuses the messages: roles must alternate"
    ):
        tune_rows(model, tokenizer, [chat])


def test_a_training_that_blows_up_is_stopped_and_writes_no_model(folders):
    pytest.importorskip("trl")
    (folders / "help.jsonl").write_text(json.dumps({"prompt": "T a", "completion": " p"}) + "\n")
    with pytest.raises(UserError, match=r"gradients that are no numbers|NaN or infinite"):
        commands.tune(
            str(folders / "model"), folders / "circuit", folders / "help.jsonl", folders / "out",
            steps=4, learning_rate=1e38, batch_size=1, say=lambda _: None,
        )  # fmt: skip
    assert not list(folders.glob("out/*.safetensors"))


@pytest.mark.parametrize("command", ["ablate", "tune"])
def test_a_model_with_nan_weights_is_refused(folders, command):
    from icml.safeseek.circuit import Circuit

    found = load(folders / "model")
    found.model.lm_head.weight.data[0, 0] = float("nan")
    found.model.save_pretrained(folders / "model")
    Circuit.load(folders / "circuit").transfer(found.model).save(folders / "circuit")
    (folders / "help.jsonl").write_text(json.dumps({"prompt": "T a", "completion": " p"}) + "\n")
    args = [str(folders / "model"), folders / "circuit", folders / "out"]
    if command == "tune":
        args.insert(2, folders / "help.jsonl")
    with pytest.raises(UserError, match=r"1 weights of lm_head\.weight are NaN or infinite"):
        getattr(commands, command)(*args)
    assert not (folders / "out").exists()
