"""Reports and comparisons of real logs, through the command line."""

import gc
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from icml.core.chat import Rule, scripted
from icml.core.cli import main
from icml.core.errors import UserError

pytest.importorskip("inspect_ai")
sys.path.insert(0, str(Path(__file__).parent))

from brokenmath_asking import boxed, item, number_in, said

from icml.brokenmath.answers import read_answers
from icml.brokenmath.compare import compare_answers
from icml.brokenmath.items import save_jsonl
from icml.brokenmath.labels import Labels
from icml.brokenmath.tasks import brokenmath_task, utility_task
from icml.core.summary import read_summary

pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

MIX = ["sycophant"] * 10 + ["ideal"] * 6 + ["detected"] * 2 + ["corrected", "invalid"]
OTHER = ["ideal"] * 10 + ["sycophant"] * 2 + ["detected"] * 7 + ["invalid"]
ITEMS = [item(number) for number in range(1, 21)]


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    yield
    gc.collect()


def solver(mix):
    def reply(messages, rng):
        number = number_in(messages[-1].text)
        return said(mix[number - 1], number)

    return scripted([Rule(reply)], name="solver")


def log_of(task, model, folder, **options) -> Path:
    from inspect_ai import eval

    (log,) = eval(task, model=model, log_dir=str(folder), display="none", **options)
    path = log.location.removeprefix("file://")
    return Path(path)


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("logs")
    return {
        "a": log_of(brokenmath_task(ITEMS), solver(MIX), folder),
        "b": log_of(brokenmath_task(ITEMS, condition="hint"), solver(OTHER), folder),
        "short": log_of(brokenmath_task(ITEMS[:15]), solver(OTHER), folder),
        "twice": log_of(brokenmath_task(ITEMS[:3]), solver(MIX), folder, epochs=2),
        "utility": log_of(utility_task(ITEMS), solver(MIX), folder),
    }


@pytest.fixture
def icml(capsys):
    """Return a function that runs the command line and returns what it prints."""

    def run(*args, ok=True) -> str:
        status = main(["brokenmath", *map(str, args)])
        printed = capsys.readouterr()
        assert (status == 0) is ok, printed
        return printed.out if ok else printed.err

    return run


def test_a_log_is_read_as_it_was_scored(logs) -> None:
    found = read_answers(logs["a"])
    assert found.categories == MIX
    assert (found.condition, found.judge, found.missing) == ("plain", "rule", 0)
    assert [row.item for row in found.rows] == ITEMS


def test_a_report_shows_rates_groups_and_a_page(icml, logs, tmp_path) -> None:
    out = icml("report", logs["a"], logs["b"], logs["utility"], "--out", tmp_path / "r")
    # 10 of 19 that could be judged: Wilson [31.7 %, 72.7 %]
    assert "plain, judge rule: sycophant 52.6% [31.7%, 72.7%], n = 19, invalid 1" in out
    assert (tmp_path / "r" / "report.html").is_file()
    tables = {table.name: table for table in read_summary(tmp_path / "r").tables}
    assert set(tables) >= {"behaviours", "competitions", "types", "utility", "solved"}
    for name in ("behaviours", "competitions", "kinds", "types", "solved"):
        assert "n" in tables[name].columns
    rows = [
        dict(zip(tables["competitions"].columns, r, strict=True))
        for r in tables["competitions"].rows
    ]
    assert [(row["competition"], row["n"], row["invalid"]) for row in rows[:2]] == [
        ("odd", 10, 0),
        ("even", 9, 1),
    ]


def test_rejudging_by_rules_gives_what_the_log_says_and_by_a_model_its_votes(
    logs, tmp_path, monkeypatch
) -> None:
    from icml.brokenmath.judge import LLMJudge
    from icml.brokenmath.rejudge import rejudged
    from icml.brokenmath.rule_judge import RuleJudge

    found = read_answers(logs["a"])
    assert rejudged(found, RuleJudge(), lambda _, compute: compute(), key="").categories == MIX

    def reads_the_answer(messages, rng):
        answer = messages[-1].text.rpartition("the answer begins")[2]
        return boxed(messages, "detected" if "disproved" in answer else "sycophant")

    judge = LLMJudge(scripted([Rule(reads_the_answer)], name="judge"))
    batches = []

    def stored(key, compute):
        batches.append(key)
        return compute()

    again = rejudged(found, judge, stored, key="a")
    wanted = ["detected" if name in ("ideal", "detected") else "sycophant" for name in MIX]
    assert again.categories == wanted
    assert again.judge == "scripted/judge"
    assert len(set(batches)) == 2


def test_rejudging_through_the_command_line_keeps_what_is_judged(icml, logs, tmp_path) -> None:
    out = icml("report", logs["b"], "--rejudge", "rule", "--out", tmp_path / "r")
    assert "sycophant 10.5%" in out
    cells = (tmp_path / "r" / "cells.jsonl").read_text().splitlines()
    assert [len(json.loads(line)["value"]) for line in cells] == [16, 4]
    config = json.loads((tmp_path / "r" / "config.json").read_text())
    assert '"tie_rule": ""' in json.dumps(config)
    told = icml("report", logs["a"], "--out", tmp_path / "r", ok=False)
    assert "--fresh" in told or "another" in told


def test_a_report_of_other_logs_takes_the_place_of_one_that_nobody_judged_again(
    icml, logs, tmp_path
) -> None:
    icml("report", logs["a"], "--out", tmp_path / "r")
    assert "sycophant" in icml("report", logs["a"], logs["b"], "--out", tmp_path / "r")
    configs = [json.loads((tmp_path / n / "config.json").read_text()) for n in ("r", "r.old-1")]
    assert [len(each["config"]["logs"]) for each in configs] == [2, 1]


def test_labels_correct_for_the_judge_and_strange_ones_are_refused(icml, logs, tmp_path) -> None:
    labels = tmp_path / "labels.jsonl"
    lines = [{"id": each.id, "category": name} for each, name in zip(ITEMS, MIX, strict=True)]
    labels.write_text("".join(json.dumps(line) + "\n" for line in lines[:19]))
    icml("report", logs["a"], "--labels", labels, "--out", tmp_path / "r")
    tables = {table.name: table for table in read_summary(tmp_path / "r").tables}
    row = dict(zip(tables["corrected"].columns, tables["corrected"].rows[3], strict=True))
    assert row["labels"] == 19
    assert row["apparent"] == pytest.approx(10 / 19)
    assert row["corrected low"] <= row["corrected"] <= row["corrected high"]
    epochs = [f'{{"id": "x", "category": "ideal", "epoch": {e}}}' for e in ("Infinity", "1.5", "0")]
    deep = "[" * 100_000
    for bad in ("[]", '{"id": "x"}', '{"id": "x", "category": "nice"}', "{", deep, *epochs):
        labels.write_text(bad)
        with pytest.raises(UserError, match="line 1"):
            Labels.read(labels)
    labels.write_text(json.dumps(lines[0]) + "\n" + json.dumps(lines[0]))
    with pytest.raises(UserError, match="line 2"):
        Labels.read(labels)


def test_epochs_give_the_bound_of_several_answers(icml, logs, tmp_path) -> None:
    icml("report", logs["twice"], "--out", tmp_path / "r")
    tables = {table.name: table for table in read_summary(tmp_path / "r").tables}
    row = dict(
        zip(tables["several answers"].columns, tables["several answers"].rows[0], strict=True)
    )
    assert (row["items"], row["answers"], row["all of them"]) == (3, 2, 1.0)


def test_a_comparison_is_paired_by_item(icml, logs) -> None:
    out = icml("compare", logs["a"], logs["b"])
    # The item that is invalid on both sides is left out: 10 against 2 of 19.
    assert "A: 52.6% sycophantic, 10 of 19" in out
    assert "left out: 1 items that are invalid on a side" in out
    assert "only A sycophantic: 10, only B: 2, McNemar's exact p = 0.0386" in out


def test_different_items_are_refused_or_counted(icml, logs) -> None:
    told = icml("compare", logs["a"], logs["short"], ok=False)
    assert "A has 20 problems and B has 15, 5 only in A" in told
    assert "left out: 5 items only in A, 0 only in B" in icml(
        "compare", logs["a"], logs["short"], "--common"
    )


def test_a_folder_stands_for_its_logs(icml, logs, tmp_path) -> None:
    out = icml("report", logs["a"].parent, "--out", tmp_path / "r")
    assert out.count("judge rule") == len(logs)
    (tmp_path / "empty").mkdir()
    assert "holds no .eval log" in icml("report", tmp_path / "empty", ok=False)
    (tmp_path / "empty" / "log.json").write_text("{}")
    assert "name its .json logs" in icml("report", tmp_path / "empty", ok=False)
    assert "is a folder: name a log in it" in icml("compare", logs["a"].parent, logs["a"], ok=False)


def test_what_can_t_be_paired_is_refused(logs, tmp_path) -> None:
    a = read_answers(logs["a"])
    with pytest.raises(UserError, match="several answers to item-1"):
        compare_answers(a, read_answers(logs["twice"]))
    with pytest.raises(UserError, match="log of the utility"):
        compare_answers(a, read_answers(logs["utility"]))
    other = log_of(
        brokenmath_task([item(1, statement="Another.")]), scripted([Rule("x")]), tmp_path
    )
    with pytest.raises(UserError, match="item-1 is another statement"):
        compare_answers(a, read_answers(other), common=True)


def test_a_sample_that_fails_is_invalid_and_one_that_is_missing_is_counted(tmp_path) -> None:
    def reply(messages, rng):
        number = number_in(messages[-1].text)
        if number == 2:
            raise RuntimeError("out of memory")
        return said("ideal", number)

    model = scripted([Rule(reply)], name="solver")
    path = log_of(brokenmath_task(ITEMS[:4]), model, tmp_path, fail_on_error=False)
    found = read_answers(path)
    assert found.categories == ["ideal", "invalid", "ideal", "ideal"]
    assert "out of memory" in found.rows[1].error
    path = log_of(brokenmath_task(ITEMS[:4]), model, tmp_path, max_samples=1)
    stopped = read_answers(path)
    assert len(stopped.rows) + stopped.missing == 4


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04nothing", b"{}"])
def test_files_that_are_no_logs_are_refused_in_a_sentence(tmp_path, content) -> None:
    for suffix in (".eval", ".json"):
        path = tmp_path / f"x{suffix}"
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"no log|cut off"):
            read_answers(path)
    with pytest.raises(UserError, match="there is no log"):
        read_answers(tmp_path / "nowhere.eval")


def test_the_command_line_refuses_what_makes_no_sense(icml, logs) -> None:
    assert "give at least one LOG" in icml("report", ok=False)
    assert "--votes belongs to --rejudge" in icml("report", logs["a"], "--votes", 3, ok=False)
    given = ("report", logs["a"], "--tie-rule", "first")
    assert "--tie-rule belongs to --rejudge" in icml(*given, ok=False)
    assert "the rule judge has no tie_rule" in icml(*given, "--rejudge", "rule", ok=False)
    assert "given twice" in icml("report", logs["a"], logs["a"], ok=False)
    told = icml("report", logs["utility"], "--rejudge", "rule", ok=False)
    assert "only answers to false statements are judged again" in told
    assert "compared with itself" in icml("compare", logs["a"], logs["a"], ok=False)


def test_a_fine_tuning_set_is_made_of_the_good_answers_in_a_folder_of_logs(logs, tmp_path):
    """MIX has 8 answers that resist, and 12 that hold the truth to be proved."""
    from icml.brokenmath.prompts import LINES
    from icml.brokenmath.sft_data import training_data

    settings = {"adv_frac": 0.4, "proof_frac": 1.0, "seed": 0}
    chosen = [str(logs[name]) for name in ("a", "utility")]
    data = training_data(n=18, answers=chosen, **settings)
    wanted = {f"item-{n}" for n, name in enumerate(MIX, 1) if name in ("ideal", "detected")}
    assert {row["id"] for row in data.rows if row["kind"] == "adversarial"} <= wanted
    assert not {row["id"] for row in data.rows if row["kind"] == "proof"} & wanted
    assert all(row["messages"][0]["content"].endswith(LINES) for row in data.rows)

    save_jsonl(ITEMS[:11], tmp_path / "tested.jsonl")
    with pytest.raises(UserError, match=r"too few answers .* left out"):
        training_data(n=18, answers=chosen, keep_out=[str(tmp_path / "tested.jsonl")], **settings)

    judge = scripted([Rule(lambda messages, rng: boxed(messages, "ideal"))], name="judge")
    judged = log_of(brokenmath_task(ITEMS[:4], judge=judge), solver(MIX), tmp_path)
    with pytest.raises(UserError, match="the rule judge read some of the logs and not the others"):
        training_data(n=2, answers=[str(judged), *chosen], **settings)
    rows = training_data(n=4, answers=[str(judged)], **{**settings, "adv_frac": 1.0}).rows
    assert not any(LINES in row["messages"][0]["content"] for row in rows)
