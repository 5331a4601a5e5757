"""Where evaluations run: in processes of this machine, or wherever an executor of another kind is.

An executor only starts `evaluate` and brings its verdict. What is finished lies in the journal of
the evaluation, so one whose process was killed is started again and goes on: nothing counts twice.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from icml.core.errors import UserError
from icml.kenv.backends.choose import BackendName
from icml.kenv.models import Bug, Patch, Record, Verdict

RETRIES = 2
"""Of an evaluation whose process was killed."""

Handle = Future[Verdict]
"""One evaluation that was asked for; ``result()`` waits for its verdict."""


class EvaluationFailed(UserError):
    """There is no verdict; the message says what was in the way."""


class EvaluationCancelled(UserError):
    """Somebody cancelled it; what was finished is kept."""


class Job(Record):
    """All that decides an evaluation, as JSON that goes to another process or machine."""

    bug: Bug
    patch: Patch
    backend: BackendName = "auto"
    runs: int | None = None
    """Boots without a crash that ``plausible`` takes; None follows from the bug's baseline."""
    folder: Path | None = None
    """Of the journals; None is in the cache of the machine that evaluates."""
    bugs: Path | None = None
    """For ``replay``: the folder of bugs that has the consoles; None is the package's."""

    def run(self) -> Verdict:
        """Evaluate here and now; raises what `evaluate` raises."""
        from icml.kenv.backends.replay import ReplayBackend
        from icml.kenv.runner import evaluate

        replay = self.backend == "replay" and self.bugs is not None
        backend = ReplayBackend(self.bugs) if replay and self.bugs else self.backend
        return evaluate(self.bug, self.patch, backend=backend, runs=self.runs, folder=self.folder)


class Executor(Protocol):
    """Runs evaluations somewhere, some at a time."""

    def submit(self, job: Job) -> Handle:
        """Ask for an evaluation; returns at once."""
        ...

    def result(self, handle: Handle, timeout: float | None = None) -> Verdict:
        """Wait for a verdict (s).

        Raises:
            EvaluationFailed: If something other than the patch is in the way.
            EvaluationCancelled: If it was cancelled.
            TimeoutError: If it takes longer.
        """
        ...

    def cancel(self, handle: Handle) -> bool:
        """End an evaluation and everything that it started; False if it has ended already."""
        ...

    def close(self) -> None:
        """Cancel what hasn't ended."""
        ...


def run_job(job: str) -> str:
    """Evaluate a job and return its verdict or what was in the way, both as JSON."""
    try:
        verdict = Job.model_validate_json(job).run()
    except UserError as error:
        return json.dumps({"error": str(error)})
    return json.dumps({"verdict": verdict.model_dump(mode="json")})


def verdict_of(said: str) -> Verdict:
    """Return the verdict that `run_job` told.

    Raises:
        EvaluationFailed: If there is none.
    """
    told = json.loads(said)
    if "error" in told:
        raise EvaluationFailed(told["error"])
    return Verdict.model_validate(told["verdict"])


class LocalExecutor:
    """Runs evaluations in processes of this machine, by default one per two processors.

    Each evaluation is a process of its own: one that is cancelled or killed takes its compiler and
    its emulator with it, and ends with us.

    Example:
        >>> from icml.kenv import Patch, load_bug
        >>> with LocalExecutor(slots=1) as executor:
        ...     job = Job(bug=load_bug("phonet-autobind"), patch=Patch(diff=""), backend="replay")
        ...     executor.result(executor.submit(job)).kind
        'patch_empty'
    """

    def __init__(self, slots: int | None = None) -> None:
        """Choose how many run at a time.

        Raises:
            UserError: If that is less than one.
        """
        if slots is not None and slots < 1:
            raise UserError(f"slots must be at least 1, got {slots}")
        self.slots = slots or max(1, (os.cpu_count() or 1) // 2)
        self._pool = ThreadPoolExecutor(self.slots, thread_name_prefix="kenv")
        self._children: dict[Handle, _Child] = {}

    def submit(self, job: Job) -> Handle:
        """Ask for an evaluation; returns at once."""
        child = _Child(job)
        handle = self._pool.submit(child.verdict)
        self._children[handle] = child
        handle.add_done_callback(lambda done: self._children.pop(done, None) and None)
        if handle.done():  # before it was written down
            self._children.pop(handle, None)
        return handle

    def result(self, handle: Handle, timeout: float | None = None) -> Verdict:
        """Wait for a verdict (s), as `Executor.result` says."""
        return handle.result(timeout)

    def cancel(self, handle: Handle) -> bool:
        """End an evaluation and everything that it started; False if it has ended already."""
        child = self._children.get(handle)
        if child is None or handle.done():
            return False
        child.cancel()
        return True

    def close(self) -> None:
        """Cancel what hasn't ended and wait until its processes are gone."""
        for child in list(self._children.values()):
            child.cancel()
        self._pool.shutdown()

    def __enter__(self) -> Self:
        """Return the executor."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()


class _Child:
    """The process of one evaluation, and its successors where it was killed."""

    def __init__(self, job: Job) -> None:
        self._job = job.model_dump_json()
        self._lock = threading.Lock()
        self._cancelled = False
        self._process: subprocess.Popen[str] | None = None

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            if self._process is not None:
                self._process.kill()

    def verdict(self) -> Verdict:
        for _ in range(1 + RETRIES):
            process = self._start()
            said, status = self._wait(process)
            if self._cancelled:
                raise EvaluationCancelled("the evaluation was cancelled; its runs are kept")
            if status == 0:
                return verdict_of(said)
            if status > 0:
                raise EvaluationFailed(f"an evaluation broke off, exit {status}: see above")
        raise EvaluationFailed(
            f"the process of an evaluation was killed {1 + RETRIES} times (signal {-status}): "
            "look for what kills it, for example a lack of memory, and repeat the command"
        )

    def _start(self) -> subprocess.Popen[str]:
        with self._lock:
            if self._cancelled:
                raise EvaluationCancelled("the evaluation was cancelled before it began")
            # A session of its own: Ctrl-C reaches us alone, and we end it.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "icml.kenv.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            return self._process

    def _wait(self, process: subprocess.Popen[str]) -> tuple[str, int]:
        assert process.stdin is not None
        assert process.stdout is not None
        with process:
            try:
                process.stdin.write(self._job + "\n")
                process.stdin.flush()  # and stays open: the worker ends when it closes
                said = process.stdout.read()
            except BrokenPipeError:
                said = ""
            except BaseException:
                process.kill()
                raise
            return said, process.wait()
