"""The symbolic part in a process of its own, which can be ended at any moment.

python-flint computes without looking at Python's signals, so no timer inside of the process can
stop it. ``python -m icml.wzllm.worker`` answers requests, a line of JSON each.
"""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from types import TracebackType
from typing import Any, NamedTuple

from icml.wzllm.certificate import Certificate
from icml.wzllm.certificate_files import AnyCertificate, certificate_from_json
from icml.wzllm.certify import Outcome, certify
from icml.wzllm.cfinite_certificate import CFiniteCertificate, find_cfinite
from icml.wzllm.cfinite_terms import NotCFinite
from icml.wzllm.statement import Identity
from icml.wzllm.training.answers import completed, judged
from icml.wzllm.verification import Report, verify

__all__ = ["Stopped", "Worker"]

MEMORY_MB = 1500  # ours: the suite needs 60
GRACE_S = 5  # ours: after budget and grace an orphan ends by itself


class Stopped(Exception):
    """The request was not finished; the message says why."""


class _Answer(NamedTuple):
    line: str


class Worker:
    """A child process for searches; started when it is needed, and again after it was stopped.

    Example::

        with Worker() as worker:
            outcome = worker.certify(identity, budget_s=30.0)
    """

    def __init__(self) -> None:
        """Start nothing yet."""
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str] = queue.Queue()

    def __enter__(self) -> Worker:
        """Return the worker itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the process."""
        self.stop()

    def certify(
        self, identity: Identity, *, max_order: int, min_order: int = 0, budget_s: float
    ) -> Outcome:
        """Run :func:`icml.wzllm.certify.certify` in the process.

        Raises:
            Stopped: If it takes more than ``budget_s`` seconds or too much memory.
        """
        request = {"do": "certify", "max_order": max_order, "min_order": min_order}
        answer = self._ask({**request, "identity": _identity_to_json(identity)}, budget_s)
        text = answer["certificate"]
        certificate = None if text is None else Certificate.from_json(text)
        return Outcome(answer["status"], answer["detail"], certificate)

    def find_cfinite(self, identity: Identity, *, budget_s: float) -> CFiniteCertificate:
        """Run :func:`icml.wzllm.cfinite_certificate.find_cfinite` in the process.

        Raises:
            NotCFinite: If a side isn't C-finite.
            Stopped: If it takes more than ``budget_s`` seconds or too much memory.
        """
        answer = self._ask(
            {"do": "find c-finite", "identity": _identity_to_json(identity)}, budget_s
        )
        if answer["certificate"] is None:
            raise NotCFinite(answer["detail"])
        found = certificate_from_json(answer["certificate"])
        assert isinstance(found, CFiniteCertificate)
        return found

    def verify(
        self, certificate: AnyCertificate, identity: Identity | None = None, *, budget_s: float
    ) -> Report:
        """Run :func:`icml.wzllm.verification.verify` in the process.

        Raises:
            Stopped: If it takes more than ``budget_s`` seconds or too much memory.
        """
        wanted = None if identity is None else _identity_to_json(identity)
        request = {"do": "verify", "certificate": certificate.to_json(), "identity": wanted}
        return Report(**self._ask(request, budget_s))

    def judge(self, identity: Identity, text: str, *, budget_s: float) -> Report:
        """Run :func:`icml.wzllm.training.answers.judged` in the process, on a model's answer.

        Raises:
            Stopped: If it takes more than ``budget_s`` seconds or too much memory.
        """
        request = {"do": "judge", "identity": _identity_to_json(identity), "text": text}
        return Report(**self._ask(request, budget_s))

    def complete(
        self, identity: Identity, text: str, *, budget_s: float
    ) -> tuple[Report, Certificate | None]:
        """Run :func:`icml.wzllm.training.answers.completed` in the process.

        Raises:
            Stopped: If it takes more than ``budget_s`` seconds or too much memory.
        """
        request = {"do": "complete", "identity": _identity_to_json(identity), "text": text}
        answer = self._ask(request, budget_s)
        found = answer["certificate"]
        return Report(**answer["report"]), None if found is None else Certificate.from_json(found)

    def stop(self) -> None:
        """End the process, at once."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()

    def _ask(self, request: dict[str, Any], budget_s: float) -> dict[str, Any]:
        process = self._process or self._start()
        assert process.stdin is not None
        process.stdin.write(json.dumps({**request, "budget_s": budget_s}) + "\n")
        process.stdin.flush()
        try:
            answer = self._wait(process, time.monotonic() + budget_s, budget_s)
        except BaseException:
            self.stop()
            raise
        return json.loads(answer)

    def _wait(self, process: subprocess.Popen[str], deadline: float, budget_s: float) -> str:
        from psutil import NoSuchProcess
        from psutil import Process as Watched

        while True:
            left = deadline - time.monotonic()
            try:
                answer = self._answers.get(timeout=max(0.0, min(left, 0.1)))
            except queue.Empty:
                if left <= 0:
                    raise Stopped(f"not finished in {budget_s:g} s") from None
                try:
                    used = Watched(process.pid).memory_info().rss / 1e6
                except NoSuchProcess:
                    used = 0.0
                if used > MEMORY_MB:
                    raise Stopped(f"more than {MEMORY_MB} MB of memory") from None
                continue
            if not answer:
                raise Stopped("the search's process ended unexpectedly")
            return answer

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "icml.wzllm.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self._process, self._answers = process, queue.Queue()
        threading.Thread(target=_read, args=(process, self._answers), daemon=True).start()
        if self._answers.get(timeout=60) != "ready\n":
            self.stop()
            raise Stopped("the search's process could not be started")
        return process


def _read(process: subprocess.Popen[str], answers: queue.Queue[str]) -> None:
    assert process.stdout is not None
    try:
        for line in process.stdout:
            answers.put(line)
    except ValueError:  # closed by stop()
        pass
    answers.put("")


def _identity_to_json(identity: Identity) -> dict[str, Any]:
    return {"lhs": identity.lhs, "rhs": identity.rhs, "vars": list(identity.vars)}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Do what a request asks for."""
    fields = request["identity"]
    identity = fields and Identity(fields["lhs"], fields["rhs"], tuple(fields["vars"]))
    if request["do"] == "verify":
        return asdict(verify(certificate_from_json(request["certificate"]), identity))
    if request["do"] == "find c-finite":
        try:
            return {"certificate": find_cfinite(identity).to_json()}
        except NotCFinite as error:
            return {"certificate": None, "detail": str(error)}
    if request["do"] == "judge":
        return asdict(judged(identity, request["text"]))
    if request["do"] == "complete":
        report, found = completed(identity, request["text"])
        return {"report": asdict(report), "certificate": found and found.to_json()}
    outcome = certify(identity, max_order=request["max_order"], min_order=request["min_order"])
    text = None if outcome.certificate is None else outcome.certificate.to_json()
    return {"status": outcome.status, "detail": outcome.detail, "certificate": text}


def main() -> None:
    """Answer requests until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process itself
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if hasattr(signal, "setitimer"):
            # The default action of SIGALRM ends the process, whatever it computes: a parent that
            # was killed leaves nothing behind.
            signal.setitimer(signal.ITIMER_REAL, request["budget_s"] + GRACE_S)
        result = answer(request)
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
