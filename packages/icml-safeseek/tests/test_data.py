"""Rows of prompts and answers: checked, read from files, rendered from chats."""

import json

import pytest
import torch

from icml.core.errors import UserError
from icml.core.models.tiny import word_tokenizer
from icml.safeseek.chat import split_answer
from icml.safeseek.data import CircuitDataset

ROW = {"prompt": "a b", "completion_keep": "c", "completion_remove": "d"}
PLAIN = (
    "{% for m in messages %}{{ m.role }} {{ m.content }} <eos> {% endfor %}"
    "{% if add_generation_prompt %}assistant {% endif %}"
)
# It says `think` before it answers, and an answer that is there already has no such word.
THINKS = PLAIN.replace("%}assistant", "%}assistant think")
MARKED = (
    "{% for m in messages %}{{ m.role }} {% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content }} <eos> {% endgeneration %}"
    "{% else %}{{ m.content }} <eos> {% endif %}{% endfor %}"
    "{% if add_generation_prompt %}assistant think {% endif %}"
)


def chat(text):
    return [{"role": "user", "content": text}]


@pytest.fixture
def tokenizer():
    made = word_tokenizer(["user", "assistant", "think", "a", "b", "c", "d", "t"])
    made.chat_template = PLAIN
    return made


def write(path, rows):
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return path


def test_rows_are_held_as_given_without_other_fields(tmp_path):
    data = CircuitDataset.read(write(tmp_path / "rows.jsonl", [ROW | {"id": 7}, ROW]))
    assert list(data) == [ROW, ROW]
    assert not data.triggered
    assert len(data[:1]) == 1


def test_the_authors_names_are_understood(tmp_path):
    backdoor = {"input": "a", "backdoor_input": "t a", "output": "c", "backdoor_output": "d"}
    (row,) = CircuitDataset.read(write(tmp_path / "a.jsonl", [backdoor]))
    assert row == {
        "prompt": "a", "prompt_triggered": "t a", "completion_keep": "c", "completion_remove": "d",
    }  # fmt: skip
    (tmp_path / "b.json").write_text(json.dumps([{"prompt": "a", "accept": "c", "refuse": "d"}]))
    (row,) = CircuitDataset.read(tmp_path / "b.json")
    assert row == {"prompt": "a", "completion_keep": "c", "completion_remove": "d"}


def test_a_split_holds_every_row_once():
    rows = [ROW | {"prompt": f"a {i}"} for i in range(10)]
    first, second = CircuitDataset(rows).split(0.3, torch.Generator().manual_seed(0))
    assert (len(first), len(second)) == (3, 7)
    assert sorted(r["prompt"] for r in [*first, *second]) == [r["prompt"] for r in rows]
    with pytest.raises(UserError, match="leaves one part empty"):
        CircuitDataset(rows).split(0.01, torch.Generator())


def test_a_chat_is_split_where_the_answer_begins(tokenizer):
    row = ROW | {"prompt": chat("a b"), "prompt_triggered": chat("t a b")}
    row["completion_keep"] = [{"role": "assistant", "content": "c"}]
    (found,) = CircuitDataset([row], tokenizer)
    words = {name: tokenizer.decode(ids) for name, ids in found.items()}
    assert words == {
        "prompt": "user a b <eos> assistant", "prompt_triggered": "user t a b <eos> assistant",
        "completion_keep": "c", "completion_remove": "d",
    }  # fmt: skip


def test_text_between_prompt_and_answer_does_not_move_the_border(tokenizer):
    """Counting the prompt's tokens, as the authors do, would cut the answer's first one off."""
    messages = [*chat("a"), {"role": "assistant", "content": "d"}, *chat("b")]
    tokenizer.chat_template = THINKS
    with pytest.raises(UserError, match="does not show where the answer begins"):
        split_answer(tokenizer, messages, "c d")
    tokenizer.chat_template = MARKED
    before, after = split_answer(tokenizer, messages, "c d")
    assert tokenizer.decode(before) == "user a <eos> assistant d <eos> user b <eos> assistant"
    assert tokenizer.decode(after) == "c d"


def test_chats_need_a_template_that_takes_them(tokenizer):
    tokenizer.chat_template = "{{ raise_exception('no system here') }}"
    with pytest.raises(UserError, match="refuses the messages: no system here"):
        split_answer(tokenizer, chat("a"), "c")
    tokenizer.chat_template = None
    with pytest.raises(UserError, match="has no chat template"):
        split_answer(tokenizer, chat("a"), "c")
    with pytest.raises(UserError, match="row 1: it holds chat messages: give the tokenizer"):
        CircuitDataset([ROW | {"prompt": chat("a")}])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": "a"}, "row 2: completion_keep and completion_remove missing; it has prompt"),
        (ROW | {"prompt": " "}, "row 2: prompt must be a text or chat messages"),
        (ROW | {"prompt": [{"role": "user"}]}, "prompt must be a text or chat messages"),
        (ROW | {"completion_keep": ""}, "completion_keep must be a text that is not empty"),
        (ROW | {"completion_remove": 3}, "completion_remove must be a text .* got 3"),
        (ROW | {"prompt_triggered": "a b"}, "prompt_triggered equals prompt"),
        (ROW | {"completion_remove": "c"}, "both 'c': the circuit must change the answer"),
        (ROW | {"prompt_triggered": "t a b"}, "1 of 2 rows have a prompt_triggered"),
        (ROW | {"prompt_triggered": chat("a")}, "both be texts, or both messages"),
    ],
)
def test_wrong_rows_are_refused_by_number(row, message):
    with pytest.raises(UserError, match=message):
        CircuitDataset([ROW, row])


def test_wrong_files_are_refused_by_name(tmp_path):
    with pytest.raises(UserError, match="can't be read"):
        CircuitDataset.read(tmp_path / "none.jsonl")
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match=r"bytes\.jsonl can't be read"):
        CircuitDataset.read(tmp_path / "bytes.jsonl")
    (tmp_path / "cut.jsonl").write_text(json.dumps(ROW) + '\n{"prompt": "a')
    with pytest.raises(UserError, match=r"line 2 of .*cut\.jsonl is no JSON"):
        CircuitDataset.read(tmp_path / "cut.jsonl")
    for text, message in (
        ("{}", "it must hold a list of rows, got a dict"),
        ("[1]", "a row is an object .* got 1"),
        ("[]", "a dataset needs at least one row"),
    ):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(UserError, match=rf"x\.json: {message}"):
            CircuitDataset.read(tmp_path / "x.json")
