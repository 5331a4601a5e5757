"""Jobs in spawned processes: results, failures, and no process left behind."""

import os
import signal
import time
from contextlib import closing
from functools import partial
from importlib import import_module
from pathlib import Path

import psutil
import pytest

from icml.core.errors import UserError
from icml.core.workers import ONE_THREAD, CellError, WorkerTraceback, make_row, run_jobs


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent / "experiments")
    return import_module("toy")


def children():
    return psutil.Process().children(recursive=True)


def only_tracker():
    """Multiprocessing's own helper stays for the life of the parent."""
    return all("resource_tracker" in " ".join(child.cmdline()) for child in children())


def values(jobs, fn, workers=2):
    return {outcome.key: outcome.value for outcome in run_jobs(jobs, fn, workers=workers)}


def test_each_job_gives_its_value_and_its_rows(toy):
    jobs = {f"seed={seed}": (seed,) for seed in range(3)}
    train = partial(toy.train, config=toy.Config(pause=0.0, pad=1))
    outcomes = {outcome.key: outcome for outcome in run_jobs(jobs, train, workers=2)}
    assert outcomes["seed=2"].value == {"score": 2 / 7, "pair": [2, float("inf")], "pad": "x"}
    assert outcomes["seed=2"].rows == [
        {"step": step, "arm": "toy", "seed": 2, "loss": 1 / (3 + step)} for step in range(3)
    ]
    assert outcomes.keys() == jobs.keys()


def test_no_jobs_start_no_process(toy):
    assert values({}, toy.give) == {}
    assert only_tracker()


def test_children_have_one_thread_and_the_parent_keeps_its_environment(toy, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    before = dict(os.environ)
    seen = values({"a": ()}, toy.threads, workers=1)["a"]
    assert seen.items() >= ONE_THREAD.items()
    assert dict(os.environ) == before


def test_a_child_imports_no_library_of_its_own(toy):
    heavy = ("torch", "numpy", "psutil", "rich")
    assert values({"a": heavy}, toy.imported, workers=1) == {"a": []}


@pytest.mark.slow
def test_torch_has_one_thread_where_a_job_imports_it(toy):
    assert values({"a": ()}, toy.torch_threads, workers=1) == {"a": 1}


def test_a_job_sees_nothing_of_what_another_did_to_the_arguments(toy):
    shared = []
    jobs = {f"job={number}": (shared,) for number in range(3)}
    seen = values(jobs, toy.process_and_length, workers=1)
    assert [length for _, length in seen.values()] == [1, 1, 1]
    assert len({process for process, _ in seen.values()} - {os.getpid()}) == 1
    assert shared == []


def test_an_exception_names_the_cell_and_brings_the_workers_traceback(toy):
    with pytest.raises(CellError, match=r"^cell 'b': ZeroDivisionError: no loss left$") as caught:
        values({"b": ()}, toy.fail)
    assert not isinstance(caught.value, UserError)  # a bug keeps its traceback
    assert isinstance(caught.value.__cause__, WorkerTraceback)
    assert "in fail" in str(caught.value.__cause__)


def test_a_users_error_in_a_cell_keeps_its_sentence(toy):
    with pytest.raises(CellError, match=r"^cell 'b': the tasks file is missing$") as caught:
        values({"b": ()}, toy.refuse)
    assert isinstance(caught.value, UserError)


def test_a_result_that_is_not_json_names_the_cell_and_the_place(toy):
    message = r"cell 'b': TypeError: its result\['inner'\]\[0\] is of type object"
    with pytest.raises(CellError, match=message):
        values({"b": ()}, toy.give_object)


def test_a_killed_process_names_its_cell_and_the_signal(toy):
    with pytest.raises(CellError, match=r"cell 'b': its process was ended by SIGKILL"):
        values({"b": ()}, toy.die)


def test_a_process_that_leaves_names_its_cell_and_the_code(toy):
    with pytest.raises(CellError, match=r"cell 'b': its process ended early \(exit code 3\)"):
        values({"b": (3,)}, toy.leave)


def test_a_function_that_cannot_travel_is_refused_before_a_process_starts():
    with pytest.raises(TypeError, match=r"cell 'a' cannot be sent .* top of a module"):
        values({"a": ()}, lambda *, log: 0)


def test_results_that_arrived_before_a_failure_are_given_first(toy):
    jobs = {"a": (1, 0.0), "b": ("no number", "no seconds")}
    outcomes = run_jobs(jobs, toy.give_late, workers=1)
    assert next(outcomes).key == "a"
    with pytest.raises(CellError, match="'b'"):
        next(outcomes)


def test_closing_the_generator_ends_the_processes_at_once(toy):
    jobs = {"a": (1, 0.0), "b": (2, 60.0), "c": (3, 60.0)}
    with closing(run_jobs(jobs, toy.give_late, workers=2)) as outcomes:
        assert next(outcomes).key == "a"
        start = time.monotonic()
    assert time.monotonic() - start < 2
    assert only_tracker()


def test_ctrl_c_reaches_the_parent_only(toy):
    jobs = {"a": (1, 0.0), "b": (2, 0.3)}
    with closing(run_jobs(jobs, toy.give_late, workers=1)) as outcomes:
        assert next(outcomes).value == 1
        for child in children():
            child.send_signal(signal.SIGINT)
        assert next(outcomes).value == 2


def test_a_row_takes_numbers_and_refuses_text():
    assert make_row(3, arm="a", seed=1, loss=0.5, n=2) == {
        "step": 3,
        "arm": "a",
        "seed": 1,
        "loss": 0.5,
        "n": 2,
    }
    with pytest.raises(TypeError, match="metric 'loss' is '3', not a number"):
        make_row(0, arm="a", seed=0, loss="3")  # ty: ignore[invalid-argument-type]
