"""Options of tasks and scorers, as a command line that reads YAML may hand them over."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from icml.core.chat import Rule, scripted
from icml.core.errors import UserError

pytest.importorskip("inspect_ai")
sys.path.insert(0, str(Path(__file__).parent))

from brokenmath_asking import item

from icml.brokenmath.items import save_jsonl
from icml.brokenmath.judge import judge_named
from icml.brokenmath.scoring import brokenmath_behaviour, brokenmath_solved
from icml.brokenmath.tasks import brokenmath, brokenmath_task, brokenmath_utility, utility_task

ITEMS = [item(1)]


@pytest.fixture(scope="module")
def items(tmp_path_factory):
    path = tmp_path_factory.mktemp("items") / "items.jsonl"
    save_jsonl(ITEMS, path)
    return str(path)


WRONG = {
    "votes": ["3", 1.5, True, 0, -1, 101, float("nan"), float("inf"), [3]],
    "seed": ["abc", 1.5, False, -1, 2**31],
    "tie_rule": ["last", 1, True, ["first"]],
    "judge": [5, "", True, None, ["a", "b"], 2.5],
}
WRONG_ITEMS = {"items": [5, "", True, None, ["a", "b"]], "revision": [True, "", 1.5, ["a"]]}
WRONG_CONDITIONS = {
    "n": ["4", 4.5, True, 0, 2048, [4]],
    "balanced": ["yes", 1, 0.0],
    "duel_judge": [5, "", True, ["a"], "nobody/knows"],
    "rounds": ["2", 2.5, True, 101],
    "condition": [5, True, None, ["plain"], {}],
}
BELONGS = {"n": "best_of_n", "balanced": "best_of_n", "duel_judge": "best_of_n"}
BELONGS |= {"rounds": "refine_agent"}


def wrong(options):
    return [(name, value) for name, values in options.items() for value in values]


@pytest.mark.parametrize("task", [brokenmath, brokenmath_utility])
@pytest.mark.parametrize(("name", "value"), wrong(WRONG | WRONG_ITEMS))
def test_an_option_of_another_type_is_refused_by_name_when_the_task_is_built(
    task, name, value, items
) -> None:
    given = {"items": items, "judge": "scripted/x"} if name == "votes" else {"items": items}
    with pytest.raises(UserError, match=rf"^{name} must be .*, got {re.escape(repr(value))}$"):
        task(**given | {name: value})


@pytest.mark.parametrize(("name", "value"), wrong(WRONG_CONDITIONS))
def test_an_option_of_a_condition_is_refused_before_any_answer(name, value, items) -> None:
    given = {"items": items, "condition": BELONGS[name]} if name in BELONGS else {"items": items}
    with pytest.raises(UserError, match=rf"^(the )?{name} .*{re.escape(repr(value))}"):
        brokenmath(**given | {name: value})


@pytest.mark.parametrize(("name", "value"), wrong(WRONG))
@pytest.mark.parametrize("scorer", [brokenmath_behaviour, brokenmath_solved])
def test_scorers_named_on_the_command_line_check_their_options_too(scorer, name, value) -> None:
    judge = {"judge": scripted([Rule("x")])} if name == "votes" else {}
    with pytest.raises(UserError, match=rf"^{name} must be .*{re.escape(repr(value))}"):
        scorer(**judge | {name: value})


@pytest.mark.parametrize("option", [{"votes": 3}, {"tie_rule": "worst"}, {"seed": 0}])
@pytest.mark.parametrize(
    "make",
    [
        lambda **option: judge_named("rule", **option),
        lambda **option: brokenmath_task(ITEMS, **option),
        lambda **option: utility_task(ITEMS, **option),
        brokenmath_behaviour,
        brokenmath_solved,
    ],
)
def test_the_rule_judge_takes_no_option_of_a_model(make, option) -> None:
    (name, value) = next(iter(option.items()))
    with pytest.raises(UserError, match=rf"has no {name}: leave out {name}={value}$"):
        make(**option)


def test_a_model_s_options_are_kept_and_have_defaults() -> None:
    judge = scripted([Rule("x")])
    one, other = judge_named(judge), judge_named(judge, votes=5, tie_rule="worst", seed=9)
    assert (one.votes, one.tie_rule, one.seed) == (3, "first", 0)
    assert (other.votes, other.tie_rule, other.seed) == (5, "worst", 9)


def test_whole_numbers_may_have_a_point() -> None:
    judge = scripted([Rule("x")])
    task = brokenmath_task(ITEMS, judge=judge, votes=3.0, seed=7.0, condition="best_of_n", n=2.0)
    assert len(task.dataset) == 1
    assert brokenmath_task(ITEMS, condition="refine_agent", rounds=2.0).name == "brokenmath"
    judged = judge_named(judge, votes=3.0, seed=7.0)
    assert repr((judged.votes, judged.seed)) == "(3, 7)"


@pytest.mark.parametrize("task", ["icml/brokenmath", "icml/brokenmath_utility"])
def test_the_command_line_says_it_in_a_sentence_and_nothing_else(task, tmp_path) -> None:
    (tmp_path / "script.json").write_text('[{"reply": "Clearly."}]')
    command = [sys.executable, "-m", "inspect_ai", "eval", task, "--model", "scripted/x"]
    command += ["-M", "script=script.json", "-T", "seed=abc"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    told = "Error: seed must be a whole number from 0 to 2147483647, got 'abc'"
    assert (ended.returncode, (ended.stdout + ended.stderr).split("\n")) == (1, [told, ""])
    assert not list(tmp_path.glob("logs/*.eval"))


def test_a_commit_that_reads_as_a_number_is_one() -> None:
    with pytest.raises(UserError, match=r"commit of some/data .*, got '123'"):
        brokenmath(items="hf:some/data", revision=123)


@pytest.mark.parametrize("task", [brokenmath, brokenmath_utility])
def test_what_yaml_takes_for_a_mapping_is_the_data_set_that_was_written(task) -> None:
    with pytest.raises(UserError, match=r"^hf: names no data set: write hf:OWNER/NAME"):
        task(items={"hf": None})
    with pytest.raises(UserError, match=r"^give the commit of some/data as revision"):
        task(items={"hf": "some/data"})
    with pytest.raises(UserError, match=r"^items must be .*, got \{'a': 1\}$"):
        task(items={"a": 1})


@pytest.mark.parametrize("make", [brokenmath_task, utility_task])
def test_a_task_warns_of_even_votes_once(make) -> None:
    with pytest.warns(UserWarning, match="2 votes can tie") as caught:
        make(ITEMS, judge=scripted([Rule("x")]), votes=2)
    assert len(caught) == 1


@pytest.mark.parametrize("option", ["judge", "duel_judge"])
def test_a_judge_whose_client_is_missing_is_refused_in_plain_words(option, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    condition = {"condition": "best_of_n"} if option == "duel_judge" else {}
    with pytest.raises(UserError, match=f"^the {option} 'openai/gpt-5' can't be asked: ") as told:
        brokenmath_task(ITEMS, **condition | {option: "openai/gpt-5"})
    assert "pip install openai" in str(told.value)
    assert "[" not in str(told.value)
    assert "\n" not in str(told.value)
