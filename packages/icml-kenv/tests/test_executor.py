"""Executors with real processes; a held lock of a journal keeps an evaluation in its middle."""

import json
import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from icml.core.errors import UserError
from icml.core.journal import Journal
from icml.core.testing import run_icml
from icml.kenv.bugs import load_bug
from icml.kenv.executor import (
    RETRIES,
    EvaluationCancelled,
    EvaluationFailed,
    Job,
    LocalExecutor,
)
from icml.kenv.many import evaluate_all
from icml.kenv.models import Patch


@pytest.fixture
def job(recorded) -> Job:
    return recorded("clean")


def worker() -> psutil.Process:
    """Wait for the process of an evaluation and return it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for child in psutil.Process().children():
            if "icml.kenv.worker" in " ".join(child.cmdline()):
                return child
        time.sleep(0.02)
    raise AssertionError("no worker was started")


def ended(process: psutil.Process) -> bool:
    # Not by psutil.wait_procs, which would take the exit status from the one who waits for it.
    deadline = time.monotonic() + 20
    while process.is_running() and time.monotonic() < deadline:
        time.sleep(0.02)
    return not process.is_running()


def test_another_process_gives_the_verdict_that_this_one_gives(job) -> None:
    here = job.run()
    with LocalExecutor(slots=1) as executor:
        there = executor.result(executor.submit(job.model_copy(update={"folder": None})))
    assert (there.kind, there.key) == (here.kind, here.key) == ("plausible", there.key)


def test_a_killed_worker_is_started_again_and_nothing_counts_twice(job, held) -> None:
    with LocalExecutor(slots=1) as executor:
        with held(job) as journal:
            handle = executor.submit(job)
            first = worker()
            os.kill(first.pid, signal.SIGKILL)
            assert ended(first)
            assert worker().pid != first.pid
        assert executor.result(handle, timeout=60).plausible
    steps = [step["step"] for step in Journal(journal).read()]
    assert steps == ["build", "run", "run", "run", "verdict"]


def test_a_worker_that_is_killed_again_and_again_is_given_up(job, held) -> None:
    with LocalExecutor(slots=1) as executor, held(job):
        handle = executor.submit(job)
        for _ in range(1 + RETRIES):
            process = worker()
            process.kill()
            assert ended(process)
        with pytest.raises(EvaluationFailed, match="killed 3 times"):
            executor.result(handle, timeout=60)


def test_cancelling_ends_a_running_evaluation_and_a_waiting_one(job, recorded, held) -> None:
    with LocalExecutor(slots=1) as executor, held(job):
        running, waiting = executor.submit(job), executor.submit(recorded("crash"))
        process = worker()
        assert executor.cancel(waiting)
        assert executor.cancel(running)
        for handle in (running, waiting):
            with pytest.raises(EvaluationCancelled):
                executor.result(handle, timeout=60)
        assert ended(process)
        assert not executor.cancel(running)


def test_closing_ends_what_runs(job, held) -> None:
    executor = LocalExecutor(slots=1)
    with held(job):
        executor.submit(job)
        process = worker()
        executor.close()
        assert ended(process)


def test_a_worker_ends_with_the_one_who_waits_for_it(job, held) -> None:
    executor = LocalExecutor(slots=1)
    with held(job):
        handle = executor.submit(job)
        process = worker()
        while (child := executor._children[handle]._process) is None:
            time.sleep(0.01)  # the system shows a process before its parent knows it
        child.stdin.close()  # what the system does for a parent that was killed
        assert ended(process)
    with pytest.raises(EvaluationFailed, match="broke off"):
        executor.result(handle, timeout=60)
    executor.close()


def test_several_jobs_come_back_in_order_and_one_failure_leaves_the_others(recorded) -> None:
    jobs = [recorded("crash"), recorded("never recorded"), recorded("clean")]
    told = []
    found = evaluate_all(jobs, LocalExecutor(slots=2), tell=lambda n, came: told.append(n))
    assert sorted(told) == [0, 1, 2]
    assert [found[0].kind, found[2].kind] == ["crash_same", "plausible"]
    assert isinstance(found[1], UserError)
    assert "no consoles of this patch" in str(found[1])


def test_the_command_line_evaluates_several_patches(tmp_path) -> None:
    files = [tmp_path / "empty.diff", tmp_path / "hostile.diff"]
    files[0].write_text("\n")
    files[1].write_text("--- a/net/Makefile\n+++ b/net/Makefile\n@@ -1 +1 @@\n-a\n+b\n")
    options = ["--backend", "replay", "--json", "--slots", "2"]
    ran = run_icml("kenv", "eval", "phonet-autobind", *map(str, files), *options)
    assert ran.returncode == 1
    kinds = {
        Path(row["patch"]).name: row["kind"] for row in map(json.loads, ran.stdout.split("\n")[:2])
    }
    assert kinds == {"empty.diff": "patch_empty", "hostile.diff": "patch_rejected"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["x.diff", "--slots", "0"], "--slots must be at least 1, got 0"),
        (["x.diff", "--fix"], "give patches as arguments, or one by --patch or --fix"),
        (["/dev/null", "--address", "a:1"], "--address is of a Ray cluster"),
        (["/dev/null", "--executor", "ray", "--address", "127.0.0.1:9"], "no Ray at 127.0.0.1:9"),
        (["/dev/null", "--executor", "ray", "--address", "a:1", "--slots", "1"], "exclude each"),
    ],
)
def test_options_that_make_no_sense_are_one_sentence(options, sentence) -> None:
    ran = run_icml("kenv", "eval", "phonet-autobind", *options)
    assert ran.returncode == 2
    assert sentence in " ".join((ran.stdout + ran.stderr).replace("│", " ").split())


def test_less_than_one_slot_is_refused() -> None:
    with pytest.raises(UserError, match="at least 1, got 0"):
        LocalExecutor(slots=0)


def test_a_job_survives_its_way_as_json() -> None:
    job = Job(bug=load_bug("phonet-autobind"), patch=Patch(diff="é\n"), backend="uml", runs=4)
    assert Job.model_validate_json(job.model_dump_json()) == job
