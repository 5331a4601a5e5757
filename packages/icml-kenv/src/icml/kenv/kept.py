"""What a service keeps: sessions, runs and evaluations, in memory as in the journal that has them.

Each step is written down before it is taken, so a restart that takes the steps again sees what was
seen before. Tokens are kept as digests alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from icml.core.errors import UserError
from icml.core.journal import Journal
from icml.kenv.building import digest
from icml.kenv.executor import Handle, Job
from icml.kenv.models import Patch, Record, Verdict
from icml.kenv.wire import NewSession, RunState


class SessionRecord(Record):
    """A session as it is kept."""

    id: str
    wanted: NewSession
    token_sha256: str
    opened: datetime


@dataclass
class Evaluation:
    """One bug's evaluation of one diff."""

    job: Job
    handle: Handle | None = None
    verdict: Verdict | None = None
    failure: str = ""

    @property
    def state(self) -> RunState:
        """How far it has come."""
        if self.verdict is not None:
            return "done"
        if self.failure:
            return "failed"
        return "running" if self.handle is not None and self.handle.running() else "queued"


@dataclass
class Run:
    """One session's diff."""

    id: str
    session: str
    evaluation: str
    cancelled: bool = False


@dataclass
class KeptSession:
    """A session and what it has asked for."""

    record: SessionRecord
    runs: list[str] = field(default_factory=list)
    submitted: Patch | None = None


class Kept:
    """The sessions, runs and evaluations of one service, by name; not for several threads."""

    def __init__(self, journal: Journal, job: Callable[[str, Patch], Job]) -> None:
        """Take the journal's steps again.

        Args:
            journal: Of this service alone.
            job: Makes the job of a bug, by its id, and a diff.

        Raises:
            UserError: If the journal is damaged, or names a bug that there is no longer.
        """
        self.sessions: dict[str, KeptSession] = {}
        self.runs: dict[str, Run] = {}
        self.evaluations: dict[str, Evaluation] = {}
        self._journal, self._job = journal, job
        for number, step in enumerate(journal.read(), 1):
            place = f"{journal.path}, record {number}"
            try:
                getattr(self, f"_take_{step['step']}")(step["value"])
            except UserError as error:
                raise UserError(f"{place} can't be gone on with: {error}") from error
            except (AttributeError, KeyError, TypeError, ValidationError) as error:
                raise UserError(
                    f"{place} was not written by this server: use another --out folder"
                ) from error

    def note(self, step: str, value: dict[str, Any]) -> None:
        """Write a step down, then take it.

        Raises:
            UserError: If it cannot be written; it is not taken then.
        """
        self._journal.append({"step": step, "value": value})
        getattr(self, f"_take_{step}")(value)

    def _take_session(self, value: dict[str, Any]) -> None:
        record = SessionRecord.model_validate(value)
        self.sessions[record.id] = KeptSession(record)

    def _take_run(self, value: dict[str, Any]) -> None:
        session = self.sessions[value["session"]]
        evaluation = self.evaluation(session, Patch(diff=value["diff"]))
        self.runs[value["id"]] = Run(value["id"], value["session"], evaluation)
        if value["id"] not in session.runs:
            session.runs.append(value["id"])

    def _take_cancel(self, value: dict[str, Any]) -> None:
        self.runs[value["id"]].cancelled = True

    def _take_submit(self, value: dict[str, Any]) -> None:
        session = self.sessions[value["session"]]
        session.submitted = Patch(diff=value["diff"])
        self.evaluation(session, session.submitted)

    def _take_verdict(self, value: dict[str, Any]) -> None:
        evaluation = self.evaluations.get(value["evaluation"])
        if evaluation is not None:  # else of another backend, or of a bug that has changed since
            evaluation.verdict = Verdict.model_validate(value["verdict"])

    def evaluation(self, session: KeptSession, patch: Patch) -> str:
        """Return the name of a diff's evaluation; it is there afterwards."""
        job = self._job(session.record.wanted.bug_id, patch)
        key = digest("evaluation", job.bug.model_dump_json(), patch.sha256, job.backend)
        self.evaluations.setdefault(key, Evaluation(job))
        return key
