"""Evaluations on a Ray cluster, or on a local Ray that this starts and ends.

Jobs and verdicts travel as JSON. A machine that has a bug's tree built says so by a custom
resource (`cached_trees`), and the bug's evaluations go there; where no machine has it, any builds
it. Ray starts an evaluation again whose process or machine died; it goes on from its journal where
the journals' folder is there for both, which a shared folder makes sure of.
"""

from __future__ import annotations

import os
import socket
import tempfile
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from icml.core.errors import UserError, require
from icml.kenv.backends.choose import BackendName, all_backends, backend_named
from icml.kenv.bugs import bug_ids, load_bug
from icml.kenv.executor import (
    RETRIES,
    EvaluationCancelled,
    EvaluationFailed,
    Handle,
    Job,
    run_job,
    verdict_of,
)
from icml.kenv.models import Bug, Verdict
from icml.kenv.protocol import Backend

PROCESSORS = 2
"""That one evaluation asks Ray for: what make is told to use."""

_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
_LONGEST_FOLDER = 38  # Ray adds 69 characters, and the path of a socket has at most 107
_FIRST_ANSWER_S = 120
_SHARE = 0.001  # of a cached tree: it is there or not, and does not wear out


def cached_trees() -> dict[str, float]:
    """Return the resources by which this machine says which bugs' trees it has built.

    They are what ``ray start --resources`` takes, and what ``icml kenv trees`` prints.
    """
    found = {}
    for backend in all_backends():
        if backend.recorded or not backend.available().ok or not getattr(backend, "built", True):
            continue
        for bug in map(load_bug, bug_ids()):
            label = _label(backend, bug)
            if label is not None:
                found[label] = 1.0
    return found


def _label(backend: Backend, bug: Bug) -> str | None:
    """Name the tree of a bug by all that it is made of; None where it can't be told or built."""
    if not getattr(backend, "built", True):
        return None  # laying out the source would take long
    try:
        prepared = backend.prepare(bug)
    except UserError:
        return None
    return f"kcache:{backend.name}:{prepared.key[:16]}" if prepared.work.is_dir() else None


def _knock(address: str) -> None:
    """Find out in seconds that nobody is there: Ray would try for ten minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()


def _answer() -> bool:
    return True


def _takes_rays_files(folder: str) -> bool:
    """Say whether Ray can work there: its workers refuse a folder of the virtual environment."""
    if len(folder) > _LONGEST_FOLDER:
        return False
    environment = os.environ.get("VIRTUAL_ENV")
    return not environment or not Path(folder).resolve().is_relative_to(Path(environment).resolve())


class RayExecutor:
    """Runs evaluations on Ray; without an address it starts a local one, and ends it."""

    def __init__(self, address: str | None = None, *, slots: int | None = None) -> None:
        """Connect, or start a local Ray without usage statistics and without its dashboard.

        Args:
            address: Of a cluster, for example ``10.0.0.1:6379`` or ``auto``; None starts one.
            slots: Evaluations at a time, for a local one; by default one per two processors.

        Raises:
            UserError: If there is no cluster, or both an address and slots are given.
            MissingExtra: If Ray is not installed.
        """
        if address is not None and slots is not None:
            raise UserError("--slots and --address exclude each other: a cluster has its own size")
        if slots is not None and slots < 1:
            raise UserError(f"slots must be at least 1, got {slots}")
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns
        # Below `uv run` Ray would start its workers by that command too, in a copy of this folder,
        # where a relative path to uv or to a package leads nowhere.
        os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
        if not _takes_rays_files(tempfile.gettempdir()):
            os.environ.setdefault("RAY_TMPDIR", "/tmp")
        self._ray: Any = require("ray", extra="icml-kenv[ray]")
        self._mine = not self._ray.is_initialized()
        if self._mine:
            self._connect(address, slots or max(1, (os.cpu_count() or 1) // 2))
        elif address is None:
            raise UserError("this process is connected to a Ray already: give its address")
        self._task = self._ray.remote(num_cpus=PROCESSORS, max_retries=RETRIES)(run_job)
        self._asked: dict[Handle, Any] = {}
        self._cancelled: set[Handle] = set()

    def _connect(self, address: str | None, slots: int) -> None:
        try:
            if address is None:
                self._start(slots)
            else:
                _knock(address)
                self._ray.init(address=address, **_QUIET)
        # A plain Exception where the processes of a local Ray don't answer in its time.
        except Exception as error:
            where = "a local Ray does not start" if address is None else f"no Ray at {address}"
            first = str(error).strip().splitlines()
            raise UserError(f"{where}: {first[0] if first else type(error).__name__}") from error

    def _start(self, slots: int) -> None:
        trees = cached_trees()
        for last in (False, True):
            try:
                self._ray.init(
                    address="local",
                    _node_ip_address="127.0.0.1",
                    num_cpus=PROCESSORS * slots,
                    num_gpus=0,
                    resources=trees,
                    include_dashboard=False,
                    **_QUIET,
                )
                self._see_a_worker()
                return
            except Exception:
                self._ray.shutdown()
                if last:  # on a busy machine the first start, which compiles Ray, takes too long
                    raise

    def _see_a_worker(self) -> None:
        """Wait for one: Ray starts workers that end at once again and again, and says nothing."""
        answer = self._ray.remote(num_cpus=0)(_answer).remote()
        try:
            self._ray.get(answer, timeout=_FIRST_ANSWER_S)
        except self._ray.exceptions.GetTimeoutError as error:
            logs = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()) / "ray"
            raise TimeoutError(
                f"none of its workers answers within {_FIRST_ANSWER_S} s; "
                f"{logs}/session_latest/logs/raylet.err says why"
            ) from error

    def submit(self, job: Job) -> Handle:
        """Ask for an evaluation, where the bug's tree is built if a machine has it."""
        label = self.place(job.bug, job.backend)
        resources = {} if label is None else {label: _SHARE}
        asked = self._task.options(resources=resources).remote(job.model_dump_json())
        handle: Handle = Future()
        handle.set_running_or_notify_cancel()
        self._asked[handle] = asked
        asked.future().add_done_callback(lambda done: self._ended(handle, done))
        return handle

    def place(self, bug: Bug, backend: BackendName) -> str | None:
        """Return the resource that a bug's evaluations ask for; None where any machine will do."""
        try:
            label = _label(backend_named(backend), bug)
        except UserError:  # not on this machine: it need not be one that evaluates
            return None
        return label if label in self._ray.cluster_resources() else None

    def _ended(self, handle: Handle, done: Future[str]) -> None:
        self._asked.pop(handle, None)
        error = done.exception()
        if handle in self._cancelled:
            self._cancelled.discard(handle)
            handle.set_exception(EvaluationCancelled("the evaluation was cancelled"))
        elif error is not None:
            first = str(error).strip().splitlines()[0]
            handle.set_exception(EvaluationFailed(f"Ray could not finish an evaluation: {first}"))
        else:
            try:
                handle.set_result(verdict_of(done.result()))
            except UserError as failed:
                handle.set_exception(failed)

    def result(self, handle: Handle, timeout: float | None = None) -> Verdict:
        """Wait for a verdict (s), as `Executor.result` says."""
        return handle.result(timeout)

    def cancel(self, handle: Handle) -> bool:
        """End an evaluation and everything that it started; False if it has ended already."""
        asked = self._asked.get(handle)
        if asked is None:
            return False
        self._cancelled.add(handle)
        self._ray.cancel(asked, force=True)
        return True

    def close(self) -> None:
        """Cancel what hasn't ended, and leave the cluster."""
        for handle in list(self._asked):
            self.cancel(handle)
        if self._mine:
            self._ray.shutdown()

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
