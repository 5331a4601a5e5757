"""A template renders as transformers renders it, and its refusals are sentences."""

import pytest

from icml.core.errors import UserError
from icml.core.models.chat import apply_template, split_turns
from icml.core.models.tiny import word_tokenizer

CHAT = ({"role": "user", "content": "a b"}, {"role": "assistant", "content": "c"})
TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}assistant{% endif %}"
)


@pytest.fixture
def tokenizer():
    found = word_tokenizer(["a", "b", "c", "user", "assistant"])
    found.chat_template = TEMPLATE
    return found


def test_what_comes_back_is_what_the_options_ask_for(tokenizer) -> None:
    assert apply_template(tokenizer, CHAT, tokenize=False) == "user a b assistant c "
    text = apply_template(tokenizer, CHAT[:1], tokenize=False, add_generation_prompt=True)
    assert text == "user a b assistant"
    found = apply_template(tokenizer, CHAT, tokenize=True, return_dict=True)
    assert tokenizer.decode(found["input_ids"]) == "user a b assistant c"


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ raise_exception('no assistant here') }}", "no assistant here"),
        ("{{ messages[0]['content'].nothing.more }}", "has no attribute 'nothing'"),
        ("{% for m in messages %}", "Unexpected end of template"),
    ],
)
def test_a_template_that_refuses_is_quoted(tokenizer, template, reason) -> None:
    tokenizer.chat_template = template
    with pytest.raises(UserError, match=f"the chat template refuses the messages: .*{reason}"):
        apply_template(tokenizer, CHAT, tokenize=False)


def test_what_is_asked_and_the_answer_are_cut_into_tokens_apart(tokenizer) -> None:
    asked, answered = split_turns(tokenizer, CHAT[:1], CHAT[1:])
    assert tokenizer.decode(asked) == "user a b assistant"
    assert tokenizer.decode(answered) == "c"


def test_a_template_that_writes_the_request_otherwise_once_answered_is_refused(tokenizer) -> None:
    tokenizer.chat_template = "{{ messages | length }} {{ messages[0]['content'] }}"
    with pytest.raises(UserError, match="otherwise once it is answered"):
        split_turns(tokenizer, CHAT[:1], CHAT[1:])
