import json
from dataclasses import dataclass

import pytest

from icml.core.chat import Call, Rule, count_tokens, read_script
from icml.core.chat.rules import chosen, cut, reply_to
from icml.core.errors import UserError


@dataclass
class Said:
    role: str
    text: str


def talk(*texts: str) -> list[Said]:
    return [Said(("user", "assistant")[i % 2], text) for i, text in enumerate(texts)]


def answer(rules, messages, *, seed=0, request=None):
    return reply_to(rules, chosen(rules, messages), messages, seeds=(seed, request))


def test_the_first_rule_that_applies_answers() -> None:
    rules = [
        Rule("sum", when=r"\d \+ \d"),
        Rule("long", when=lambda messages: len(messages) > 2),
        Rule("else"),
    ]
    assert answer(rules, talk("1 + 2 = ?")) == "sum"
    assert answer(rules, talk("a", "b", "c")) == "long"
    assert answer(rules, talk("a")) == "else"


def test_a_pattern_reads_the_last_message_alone() -> None:
    rules = [Rule("seen", when="secret"), Rule("not seen")]
    assert answer(rules, talk("secret", "x", "y")) == "not seen"


def test_a_list_goes_round_by_how_often_the_rule_has_answered_in_this_conversation() -> None:
    rules = [Rule("other", when="other"), Rule(["one", "two"])]
    assert answer(rules, talk("a")) == "one"
    assert answer(rules, talk("a", "one", "b")) == "two"
    assert answer(rules, talk("a", "one", "other", "x", "b")) == "two"
    assert answer(rules, talk("a", "one", "b", "two", "c")) == "one"


def test_a_request_seed_shifts_a_list_so_that_votes_differ() -> None:
    rules = [Rule(["yes", "yes", "no"])]
    votes = [answer(rules, talk("same"), request=seed) for seed in range(6)]
    assert votes == ["yes", "yes", "no", "yes", "yes", "no"]


def test_a_function_draws_by_content_and_seeds_and_not_by_the_order_of_calls() -> None:
    rules = [Rule(lambda messages, rng: str(rng.integers(10**9)))]
    asked = [talk(str(i)) for i in range(5)]
    forwards = [answer(rules, messages) for messages in asked]
    backwards = [answer(rules, messages) for messages in reversed(asked)]
    assert forwards == backwards[::-1]
    assert len(set(forwards)) == 5
    assert answer(rules, asked[0], seed=1) != forwards[0]
    assert answer(rules, asked[0], request=1) != forwards[0]
    # the same words by another speaker are another conversation
    assert answer(rules, [Said("system", "0")]) != forwards[0]


def test_a_conversation_that_no_rule_answers_is_an_error() -> None:
    with pytest.raises(UserError, match="no rule of the script answers 'what'"):
        chosen([Rule("x", when="never")], talk("what"))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        (" \n", 0),
        ("int x_1 = 0;", 5),  # int, x_1, =, 0, ;
        ("don't", 3),  # don, ', t
        ("größer…", 2),
    ],
)
def test_tokens_are_words_and_single_signs(text, tokens) -> None:
    assert count_tokens(text) == tokens


def test_a_text_is_cut_after_a_number_of_tokens() -> None:
    assert cut("a b, c", 3) == "a b, "
    assert cut("a b, c", 9) == "a b, c"
    assert cut("a", 0) == ""


def test_a_script_is_read_from_a_file(tmp_path) -> None:
    rules = [
        {"when": "^go$", "reply": {"tool": "run", "arguments": {"diff": "x"}}},
        {"reply": ["one", "two"], "fails": ["rate_limit", "timeout"]},
    ]
    (tmp_path / "s.json").write_text(json.dumps(rules))
    first, second = read_script(tmp_path / "s.json")
    assert (first.when, first.reply) == ("^go$", Call("run", {"diff": "x"}))
    assert (second.reply, second.fails) == (["one", "two"], ["rate_limit", "timeout"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("no json", "cannot read the script"),
        ("{}", "must be a list of rules"),
        ('["a"]', "rule 1 of .* must have a reply"),
        ('[{"reply": "a", "if": "b"}]', "besides only `when` and `fails`"),
        ('[{"reply": "a"}, {"reply": 3}]', "rule 2 of .*: a reply is a text or"),
        ('[{"reply": {"tool": "x", "args": {}}}]', "a reply is a text or"),
        ('[{"reply": []}]', "list of replies is empty"),
        ('[{"reply": "a", "when": "("}]', "no regular expression"),
        ('[{"reply": "a", "fails": ["crash"]}]', "fails lists rate_limit and timeout"),
    ],
)
def test_a_script_that_makes_no_sense_is_refused_with_its_place(tmp_path, text, reason) -> None:
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(UserError, match=reason):
        read_script(tmp_path / "s.json")


def test_a_script_that_is_not_there_is_named(tmp_path) -> None:
    with pytest.raises(UserError, match=r"cannot read the script .*none\.json"):
        read_script(tmp_path / "none.json")
