"""Folders of logs as people have them: other tasks' logs, failed evals, and files that are cut."""

import gc
import json
import shutil
import signal
import subprocess
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

from icml.brokenmath.answers import NotOurs, read_answers
from icml.brokenmath.compare import compare_answers, comparison_lines
from icml.brokenmath.log_files import find_logs
from icml.brokenmath.sft_data import training_data
from icml.brokenmath.tasks import brokenmath_task
from icml.core.summary import read_summary

pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

ITEMS = [item(number) for number in (1, 2, 3)]


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    yield
    gc.collect()


def log_of(task, reply, folder, **options) -> Path:
    from inspect_ai import eval

    model = scripted([Rule(reply)], name="solver")
    (log,) = eval(task, model=model, log_dir=str(folder), display="none", **options)
    return Path(log.location.removeprefix("file://"))


def ideal(messages, rng):
    return said("ideal", number_in(messages[-1].text))


def sycophant(messages, rng):
    return said("sycophant", number_in(messages[-1].text))


def fail(messages, rng):
    raise RuntimeError("no such key")


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> dict[str, Path]:
    from inspect_ai import Task
    from inspect_ai.dataset import MemoryDataset, Sample

    def folder(name):
        return tmp_path_factory.mktemp(name)

    other = Task(dataset=MemoryDataset([Sample(input="hi")]), name="gsm8k")
    return {
        "ideal": log_of(brokenmath_task(ITEMS), ideal, folder("a")),
        "sycophant": log_of(brokenmath_task(ITEMS), sycophant, folder("b")),
        "other": log_of(other, "x", folder("c")),
        "unscored": log_of(brokenmath_task(ITEMS), ideal, folder("d"), score=False),
        "failed": log_of(brokenmath_task(ITEMS), fail, folder("e")),
    }


def put(logs, folder, **names) -> Path:
    """Copy logs into a folder, each under a name."""
    folder.mkdir(parents=True)
    for name, kind in names.items():
        shutil.copy(logs[kind], folder / f"{name}.eval")
    return folder


@pytest.fixture
def icml(capsys):
    def run(*args, ok=True) -> str:
        status = main(["brokenmath", *map(str, args)])
        printed = capsys.readouterr()
        assert (status == 0) is ok, printed
        return printed.out if ok else printed.err

    return run


def test_other_tasks_logs_in_a_folder_are_left_out_and_named(icml, logs, tmp_path):
    folder = put(logs, tmp_path / "logs", a="ideal", b="other")
    (folder / "notes.txt").write_text("mine")
    out = icml("report", folder, "--out", tmp_path / "r")
    assert f"left out: {folder / 'b.eval'} is a log of gsm8k" in out
    assert any("gsm8k" in note for note in read_summary(tmp_path / "r").notes)
    data = training_data(n=3, adv_frac=1, proof_frac=1, seed=0, answers=[str(folder)])
    assert data.notes == (
        f"left out: {folder / 'b.eval'} is a log of gsm8k, not of icml/brokenmath",
    )
    with pytest.raises(NotOurs, match="is a log of gsm8k"):
        find_logs([folder / "b.eval"])
    folder = put(logs, tmp_path / "others", a="other", b="other")
    with pytest.raises(UserError, match=r"holds no log of icml/brokenmath .*and 1 more like it"):
        find_logs([folder])


def test_an_eval_that_failed_shows_its_failures_as_invalid_answers(icml, logs, tmp_path):
    found = read_answers(logs["failed"])
    assert all(row.failed and "no such key" in row.error for row in found.rows)
    assert len(found.rows) + found.missing == 3
    out = icml("report", logs["failed"], "--out", tmp_path / "r")
    assert f"{len(found.rows)} samples failed and count as invalid" in out


INTERRUPTED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
sys.path.insert(0, sys.argv[1])
import anyio
from brokenmath_asking import item, number_in, said
from icml.brokenmath.tasks import brokenmath_task
from icml.core.chat import Rule, scripted
from inspect_ai import eval
from inspect_ai.solver import solver

task = brokenmath_task([item(number) for number in range(1, 6)])

@solver
def slow(inner=task.solver):
    async def solve(state, generate):
        if number_in(state.messages[-1].text) > 2:
            print("under way", flush=True)
            await anyio.sleep(600)
        return await inner(state, generate)
    return solve

task.solver = slow()
model = scripted([Rule(lambda messages, rng: said("ideal", number_in(messages[-1].text)))])
eval(task, model=model, log_dir=sys.argv[2], display="none", max_samples=3)
"""


def test_samples_that_an_interrupted_eval_cut_off_are_missing_and_not_failed(icml, tmp_path):
    """Two of five are answered at once; three at a time are under way when Ctrl-C comes."""
    logs = tmp_path / "logs"
    command = [sys.executable, "-c", INTERRUPTED, str(Path(__file__).parent), str(logs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        for _ in range(3):
            assert child.stdout.readline() == b"under way\n"
        child.send_signal(signal.SIGINT)
    (path,) = logs.glob("*.eval")
    found = read_answers(path)
    assert (found.categories, found.missing) == (["ideal", "ideal"], 3)
    wanted = "3 samples are missing: its eval ended with the status cancelled; "
    wanted += f"inspect eval-retry {path} answers them"
    out = icml("report", path, "--out", tmp_path / "r")
    assert wanted in out
    assert "failed" not in out
    lines = comparison_lines(found, found, compare_answers(found, found))
    assert sum(wanted in line for line in lines) == 2  # of A and of B


def test_an_eval_without_any_answer_is_left_out_of_a_folder(icml, logs, tmp_path):
    from inspect_ai.log import read_eval_log, write_eval_log

    folder = put(logs, tmp_path / "logs", a="ideal")
    log = read_eval_log(str(logs["failed"]))
    log.samples = []
    write_eval_log(log, str(folder / "b.eval"))
    out = icml("report", folder, "--out", tmp_path / "r")
    assert (
        f"left out: {folder / 'b.eval'} holds no answer: its eval ended with the status error"
        in out
    )
    log.status = "started"
    write_eval_log(log, str(folder / "b.eval"))
    with pytest.raises(NotOurs, match="holds no answer: its eval still runs, or was killed"):
        read_answers(folder / "b.eval")


def test_a_log_that_is_cut_off_is_refused_in_a_folder_too(icml, logs, tmp_path):
    folder = put(logs, tmp_path / "logs", a="ideal", b="sycophant")
    whole = (folder / "b.eval").read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 1):
        (folder / "b.eval").write_bytes(whole[:size])
        assert f"{folder / 'b.eval'} is cut off" in icml("report", folder, ok=False)


def test_answers_without_a_score_are_judged_again_or_refused(icml, logs, tmp_path):
    told = icml("report", logs["unscored"], "--out", tmp_path / "r", ok=False)
    assert "3 answers in" in told
    assert "have no score: icml brokenmath report --rejudge" in told
    assert not (tmp_path / "r").exists()
    out = icml("report", logs["unscored"], "--rejudge", "rule", "--out", tmp_path / "r")
    assert "sycophant 0.0%" in out
    assert "n = 3, invalid 0" in out
    assert "failed" not in out
    with pytest.raises(UserError, match="have no score"):
        compare_answers(read_answers(logs["ideal"]), read_answers(logs["unscored"]))
    with pytest.raises(UserError, match="have no score"):
        training_data(n=3, adv_frac=1, proof_frac=1, seed=0, answers=[str(logs["unscored"])])


def test_two_logs_of_one_name_have_verdicts_of_their_own(icml, logs, tmp_path):
    """And a run from before that could only be, with one log of each name, keeps its verdicts."""
    one = put(logs, tmp_path / "one", log="ideal") / "log.eval"
    two = put(logs, tmp_path / "two", log="sycophant") / "log.eval"
    out = icml("report", one, two, "--rejudge", "rule", "--out", tmp_path / "r")
    assert [line.split(",")[1].split("[")[0] for line in out.splitlines()[:3:2]] == [
        " judge rule: sycophant 0.0% ",
        " judge rule: sycophant 100.0% ",
    ]
    icml("report", one, "--rejudge", "rule", "--out", tmp_path / "s")
    cells = (tmp_path / "s" / "cells.jsonl").read_text().splitlines()
    assert [json.loads(line)["key"] for line in cells] == ["log.eval 0"]


def test_a_log_and_its_copy_are_one_log_given_twice(icml, logs, tmp_path):
    folder = put(logs, tmp_path / "logs", a="ideal", b="ideal")
    assert "a log is given twice: as" in icml("report", folder, ok=False)


def test_an_answer_that_a_retried_eval_repeats_is_learnt_once(logs, tmp_path):
    from inspect_ai.log import read_eval_log, write_eval_log

    folder = put(logs, tmp_path / "logs", a="ideal")
    again = read_eval_log(str(logs["ideal"]))
    again.eval.run_id = "another"
    write_eval_log(again, str(folder / "b.eval"))
    data = training_data(n=3, adv_frac=1, proof_frac=1, seed=0, answers=[str(folder)])
    assert data.notes == ("3 answers stand there more than once",)
    with pytest.raises(UserError, match="too few answers"):
        training_data(n=4, adv_frac=1, proof_frac=1, seed=0, answers=[str(folder)])


def test_labels_are_of_one_log_and_that_is_told_before_a_judge_is_asked(icml, logs, tmp_path):
    labels = tmp_path / "labels.jsonl"
    lines = [{"id": each.id, "category": "ideal"} for each in ITEMS]
    labels.write_text("".join(json.dumps(line) + "\n" for line in lines))
    both = ("report", logs["ideal"], logs["sycophant"], "--labels", labels, "--rejudge", "rule")
    told = icml(*both, "--out", tmp_path / "r", ok=False)
    assert "labels are of the answers in one log of icml/brokenmath, got 2" in told
    assert not (tmp_path / "r").exists()


def test_thoughts_are_no_material_of_a_judge(logs):
    """A model that judges again gets the text alone, as the first one did."""
    from dataclasses import replace

    from icml.brokenmath.judge import LLMJudge
    from icml.brokenmath.rejudge import rejudged

    heard = []

    def reply(messages, rng):
        heard.append(messages[-1].text)
        return boxed(messages, "ideal")

    found = read_answers(logs["ideal"])
    thoughtful = replace(found, rows=[replace(row, reasoning="SECRET") for row in found.rows])
    judge = LLMJudge(scripted([Rule(reply)], name="judge"))
    rejudged(thoughtful, judge, lambda _, compute: compute(), key="")
    assert len(heard) == 9
    assert not any("SECRET" in text for text in heard)
