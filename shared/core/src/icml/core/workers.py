"""A pool of spawned processes that computes the cells of an experiment.

Differs from ``concurrent.futures`` where a long experiment needs it: a process that dies is an
error that names its job, Ctrl-C reaches the parent only, and the children of a parent that was
killed with ``kill -9`` end by themselves. Each child computes with one thread, so results do not
depend on how many there are.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import connection, resource_tracker
from typing import Any, NamedTuple

from icml.core.errors import MissingExtra, UserError
from icml.core.journal import to_json

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Environment of the children: what numpy, scipy and torch read when they are loaded."""

_SPAWN = multiprocessing.get_context("spawn")


class CellError(RuntimeError):
    """A cell of an experiment failed; the message names it, the cause has the full traceback."""


class CellUserError(CellError, UserError):
    """A cell failed over something that the user can mend: memory, bad input, a missing extra."""


def cell_error(key: str, message: str, *, mendable: bool) -> CellError:
    """Return the error of a cell: a :class:`UserError` too if the user can mend it."""
    return (CellUserError if mendable else CellError)(f"cell {key!r}: {message}")


class WorkerTraceback(Exception):
    """The traceback of an exception in another process, as text."""


class Outcome(NamedTuple):
    """What a job gave."""

    key: str
    value: Any
    rows: list[dict[str, Any]]
    """What the job logged, oldest first."""


def make_row(step: int, *, arm: str, seed: int, **metrics: float) -> dict[str, Any]:
    """Return one row of metrics, each a number (NaN included) or a 0-d array.

    Raises:
        TypeError: If a metric is not a number.
    """
    row: dict[str, Any] = {"step": int(step), "arm": str(arm), "seed": int(seed)}
    for name, value in metrics.items():
        if not isinstance(value, int | float):
            if not hasattr(value, "__float__"):
                raise TypeError(f"metric {name!r} is {value!r}, not a number")
            value = float(value)
        row[name] = to_json(value, name)
    return row


def sentence(error: BaseException) -> str:
    """Return an exception as one sentence: the message alone where it was written for the user."""
    if isinstance(error, UserError | MissingExtra):
        return str(error)
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def run_jobs(
    jobs: Mapping[str, tuple[Any, ...]], fn: Callable[..., Any], *, workers: int
) -> Generator[Outcome]:
    """Yield the outcomes of ``fn(*args, log=log)`` in spawned processes, as they finish.

    ``fn`` and the arguments travel by pickle and are unpickled anew for each job, so nothing
    that a job does to them reaches another. One worker is a spawned process too. Close the
    generator to stop the processes.

    Args:
        jobs: Maps the name of each job to its positional arguments.
        fn: A function defined at the top of a module, or a ``functools.partial`` of one. It
            returns what :func:`icml.core.journal.to_json` takes; ``log`` is :func:`make_row`'s
            signature and collects the rows of the outcome.
        workers: Number of processes at a time; at least 1.

    Raises:
        CellError: If a job raises, gives something that is not JSON, or its process dies. The
            outcomes that had arrived by then are yielded first.
        TypeError: If ``fn`` or an argument cannot be pickled.
    """
    waiting = deque((key, _pickled(key, (fn, args))) for key, args in jobs.items())
    team: list[_Worker] = []
    try:
        # The tracker would lift the signal mask that the children are to inherit.
        resource_tracker.ensure_running()
        for _ in range(min(workers, len(waiting))):
            with _settings_of_children():
                team.append(_Worker())
            team[-1].give(*waiting.popleft())
        yield from _collect(team, waiting)
    finally:
        _stop(team)


def _pickled(key: str, job: tuple[Callable[..., Any], tuple[Any, ...]]) -> bytes:
    try:
        return pickle.dumps(job)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(
            f"cell {key!r} cannot be sent to another process ({error}): give a function defined "
            "at the top of a module, or a functools.partial of one, and plain arguments"
        ) from error


def _collect(team: list[_Worker], waiting: deque[tuple[str, bytes]]) -> Generator[Outcome]:
    busy = {worker.pipe: worker for worker in team}
    while busy:
        failed: CellError | None = None
        for pipe in connection.wait(list(busy)):
            worker = busy.pop(pipe)  # ty: ignore[invalid-argument-type]  # wait() is typed wider
            try:
                outcome = worker.take()
            except CellError as error:
                failed = failed or error
                continue
            if waiting and failed is None:
                worker.give(*waiting.popleft())
                busy[worker.pipe] = worker
            yield outcome
        if failed is not None:
            raise failed


class _Worker:
    """One spawned process and the job it has in hand."""

    def __init__(self) -> None:
        self.pipe, far = _SPAWN.Pipe()
        self.process = _SPAWN.Process(target=_serve, args=(far,), daemon=True)
        self.key = ""
        self.process.start()
        far.close()  # so that a dead child reads as the end of the file

    def give(self, key: str, job: bytes) -> None:
        self.key = key
        with suppress(OSError):  # a child that died is found, and named, by take()
            self.pipe.send_bytes(job)

    def take(self) -> Outcome:
        try:
            reply = json.loads(self.pipe.recv_bytes())
        except (EOFError, OSError):
            raise cell_error(self.key, f"its process {self._death()}", mendable=True) from None
        if "error" in reply:
            cause = WorkerTraceback(f"\n{reply['traceback']}")
            raise cell_error(self.key, reply["error"], mendable=reply["mendable"]) from cause
        return Outcome(self.key, reply["value"], reply["rows"])

    def _death(self) -> str:
        self.process.join(5)
        code = self.process.exitcode
        if code is None or code >= 0:
            return (
                f"ended early (exit code {code}); a script that runs cells needs "
                "`if __name__ == '__main__':` round its calls"
            )
        name = signal.Signals(-code).name
        return f"was ended by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")


def _stop(team: list[_Worker]) -> None:
    """End all processes now: whatever they still compute is not stored anywhere."""
    for worker in team:
        worker.process.terminate()
    for worker in team:
        worker.process.join(0.5)
        worker.process.kill()
        worker.process.join()
        worker.process.close()
        worker.pipe.close()


@contextmanager
def _settings_of_children() -> Generator[None]:
    """Processes started inside have one thread for each library and hold back Ctrl-C."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    mask = _hold_back_interrupts()
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)  # a Ctrl-C meanwhile raises here


def _hold_back_interrupts() -> set[Any] | None:
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        return None
    return signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def _serve(pipe: connection.Connection) -> None:
    """Compute jobs until the parent closes the pipe: the body of a child."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):  # the parent is done or gone
        while True:
            pipe.send_bytes(json.dumps(_reply(pipe.recv_bytes())).encode())


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _reply(job: bytes) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []

    def log(step: int, *, arm: str, seed: int, **metrics: float) -> None:
        rows.append(make_row(step, arm=arm, seed=seed, **metrics))

    try:
        fn, args = pickle.loads(job)
        # The environment did it already unless the parent's main module, imported again here,
        # chose otherwise; torch is never imported for this.
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(1)
        return {"value": to_json(fn(*args, log=log), "its result"), "rows": rows}
    except (Exception, SystemExit) as error:
        return {
            "error": sentence(error),
            "mendable": isinstance(error, UserError | MissingExtra),
            "traceback": traceback.format_exc(),
        }
