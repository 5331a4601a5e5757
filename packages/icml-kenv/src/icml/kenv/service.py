"""Sessions of agents and the queue of their runs; kept on disk, so that a restart loses neither.

A run is one session's diff, an evaluation one bug's: the same diff twice is the same run, and two
sessions' same diff are two runs of one evaluation. Tokens are kept as digests alone.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from icml.core.errors import UserError
from icml.core.journal import Journal, cannot_write, lock_folder
from icml.kenv.archive import packed
from icml.kenv.backends.choose import BackendName, backend_named
from icml.kenv.building import digest
from icml.kenv.executor import EvaluationCancelled, Executor, Handle, Job
from icml.kenv.kept import Kept, KeptSession, Run, SessionRecord
from icml.kenv.models import Bug, Patch, Verdict
from icml.kenv.session import FeedbackDisabled, RunsExhausted, feedback_on
from icml.kenv.wire import (
    ENDED,
    ArtifactName,
    NewSession,
    OpenedSession,
    ResultRow,
    RunView,
    Submitted,
)

OPERATOR_FILE = "operator-token"
"""Whoever has it opens sessions and reads results: an agent with it could give itself runs."""


class Refused(UserError):
    """A request that is not answered; ``code`` is a word for programs."""

    def __init__(self, code: str, message: str) -> None:
        """Keep the word."""
        super().__init__(message)
        self.code = code


class Service:
    """Opens sessions, evaluates their diffs and keeps both; one process a folder.

    All methods return at once, but for `tree`; they may be called from several threads.
    """

    def __init__(
        self,
        folder: Path,
        executor: Executor,
        *,
        bugs: Mapping[str, Bug],
        backend: BackendName = "auto",
        shelf: Path | None = None,
        frozen: str = "",
    ) -> None:
        """Open the folder and go on with what was asked for before.

        Args:
            folder: Of the sessions, their runs and the operator's token.
            executor: Runs the evaluations; closed with the service.
            bugs: What is served, by id.
            backend: Of all evaluations; ``auto`` is settled now.
            shelf: Folder of the bugs, for ``replay``.
            frozen: Name of the snapshot that the bugs are.

        Raises:
            UserError: If another process has the folder, it cannot be written, the journal in it is
                damaged, or a session in it is of a bug that is not served.
        """
        self.bugs, self.frozen = dict(bugs), frozen
        self._executor = executor
        self._backend = backend_named(backend)
        self.backend: BackendName = cast(BackendName, self._backend.name)
        self._shelf, self._folder = shelf, folder
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise cannot_write(folder, error) from error
        self._held = lock_folder(folder)
        self._lock = threading.RLock()
        self._closed = False
        self.operator_token = _operator_token(folder / OPERATOR_FILE)
        journal = Journal(folder / "service.jsonl", needs=("step", "value"))
        try:
            self._kept = Kept(journal, self._job)
        except UserError:
            self._held.release()
            raise
        for key in {run.evaluation for run in self._kept.runs.values() if not run.cancelled}:
            self._start(key)
        for session in self._kept.sessions.values():
            if session.submitted is not None:
                self._start(self._kept.evaluation(session, session.submitted))

    # What is asked for

    def open_session(self, wanted: NewSession) -> OpenedSession:
        """Begin an agent's attempt at a bug.

        Raises:
            Refused: ``unknown_bug``.
        """
        bug = self.bug(wanted.bug_id).public()
        session_id = secrets.token_hex(8)
        token = f"{session_id}.{secrets.token_urlsafe(32)}"
        record = SessionRecord(
            id=session_id, wanted=wanted, token_sha256=_sha256(token), opened=datetime.now(UTC)
        )
        with self._lock:
            self._kept.note("session", record.model_dump(mode="json"))
        has_tree = self._tree_folder(bug.id) is not None
        return OpenedSession(
            session_id=session_id,
            token=token,
            report=bug.crash_report,
            reproducer=bug.reproducers[0].text,
            tree_url=f"/v1/sessions/{session_id}/tree" if has_tree else None,
        )

    def session_of(self, token: str, session_id: str | None = None) -> str:
        """Return the session that a token opens, comparing in constant time.

        Raises:
            Refused: ``unauthorized`` if it opens none, or another than ``session_id``.
        """
        named = token.partition(".")[0]
        session = self._kept.sessions.get(named)
        wanted = session.record.token_sha256 if session is not None else _sha256("")
        fits = hmac.compare_digest(_sha256(token), wanted)
        if not fits or session is None or session_id not in (None, named):
            raise Refused("unauthorized", "this token does not open this session")
        return named

    def check_operator(self, token: str) -> None:
        """Let the operator pass.

        Raises:
            Refused: ``unauthorized`` for everybody else.
        """
        if not hmac.compare_digest(_sha256(token), _sha256(self.operator_token)):
            raise Refused(
                "unauthorized",
                f"this takes the operator's token, see {OPERATOR_FILE} of the server",
            )

    def run(self, session_id: str, patch: Patch) -> RunView:
        """Evaluate a diff for an agent; the same diff again is the same run.

        Raises:
            FeedbackDisabled: If the session gives none.
            RunsExhausted: If its budget is used up.
        """
        with self._lock:
            session = self._kept.sessions[session_id]
            if session.record.wanted.feedback == "none":
                raise FeedbackDisabled("this session gives no feedback: submit a diff")
            run_id = digest("run", session_id, patch.sha256)
            known = self._kept.runs.get(run_id)
            alive = known is not None and not known.cancelled
            if not alive or self._kept.evaluations[known.evaluation].failure:
                if not alive and self._left(session) <= 0:
                    most = session.record.wanted.max_runs
                    raise RunsExhausted(f"all {most} runs are used: submit a diff")
                self._kept.note("run", {"id": run_id, "session": session_id, "diff": patch.diff})
                self._start(self._kept.runs[run_id].evaluation, again=True)
            return self._view(self._kept.runs[run_id])

    def view(self, session_id: str, run_id: str) -> RunView:
        """Look at a run.

        Raises:
            Refused: ``unknown_run`` if the session has none of this name.
        """
        return self._view(self._run(session_id, run_id))

    def cancel(self, session_id: str, run_id: str) -> RunView:
        """End a run that hasn't ended: it no longer counts; an ended one stays as it is.

        Raises:
            Refused: ``unknown_run``.
        """
        with self._lock:
            run = self._run(session_id, run_id)
            if self._view(run).state not in ENDED:
                self._kept.note("cancel", {"id": run_id})
                self._stop(run.evaluation)
            return self._view(run)

    def submit(self, session_id: str, patch: Patch) -> Submitted:
        """Hand in a diff; the first one counts, and its evaluation is the operator's to read.

        Raises:
            Refused: ``already_submitted`` if another one was handed in.
        """
        with self._lock:
            session = self._kept.sessions[session_id]
            if session.submitted is None:
                self._kept.note("submit", {"session": session_id, "diff": patch.diff})
                self._start(self._kept.evaluation(session, patch))
            elif session.submitted.sha256 != patch.sha256:
                raise Refused(
                    "already_submitted", "this session has a submission: the first counts"
                )
        return Submitted(session_id=session_id, sha256=patch.sha256)

    def results(self) -> list[ResultRow]:
        """Return what became of each session, in the order in which they were opened."""
        with self._lock:
            return [self._row(session) for session in self._kept.sessions.values()]

    def artifact(self, session_id: str, run_id: str, name: ArtifactName) -> str:
        """Return a text of a run: the last boot's console, the crash's report, the build's log.

        Raises:
            Refused: ``unknown_run``, ``run_not_finished``, or ``no_artifact``.
            FeedbackDisabled: If the session's level doesn't tell so much.
        """
        run = self._run(session_id, run_id)
        level = self._kept.sessions[session_id].record.wanted.feedback
        if level not in ("report", "full") or (name == "console" and level != "full"):
            raise FeedbackDisabled(f"feedback {level!r} of this session tells no {name}")
        verdict = self._kept.evaluations[run.evaluation].verdict
        if verdict is None or run.cancelled:
            raise Refused("run_not_finished", f"run {run_id} has no verdict yet")
        text = _artifact(verdict, name)
        if text is None:
            raise Refused("no_artifact", f"run {run_id} ({verdict.kind}) has no {name}")
        return text

    def bug(self, bug_id: str) -> Bug:
        """Return a bug, with what an agent must not see.

        Raises:
            Refused: ``unknown_bug``.
        """
        if bug_id not in self.bugs:
            raise Refused("unknown_bug", f"no such bug: there are {', '.join(sorted(self.bugs))}")
        return self.bugs[bug_id]

    def tree(self, session_id: str) -> bytes:
        """Return the bug's folder of the unpatched source, a tar archive without history.

        Raises:
            Refused: ``no_artifact`` if the backend has no source.
        """
        bug = self.bug(self._kept.sessions[session_id].record.wanted.bug_id)
        root = self._tree_folder(bug.id)
        if root is None:
            raise Refused("no_artifact", f"the backend {self._backend.name} has no source")
        return packed(root, bug.directory)

    def close(self) -> None:
        """End what runs: the next service in this folder goes on with it."""
        with self._lock:
            self._closed = True
        self._executor.close()
        self._held.release()

    # How it runs

    def _job(self, bug_id: str, patch: Patch) -> Job:
        return Job(
            bug=self.bug(bug_id),
            patch=patch,
            backend=self.backend,
            folder=self._folder / "verdicts",
            bugs=self._shelf,
        )

    def _start(self, key: str, *, again: bool = False) -> None:
        evaluation = self._kept.evaluations[key]
        if again:
            evaluation.failure = ""
        busy = evaluation.handle is not None and not evaluation.handle.done()
        if busy or evaluation.verdict is not None or evaluation.failure:
            return
        evaluation.handle = self._executor.submit(evaluation.job)
        evaluation.handle.add_done_callback(lambda handle: self._ended(key, handle))

    def _stop(self, key: str) -> None:
        """End an evaluation that nobody waits for any more."""
        wanted = any(r.evaluation == key and not r.cancelled for r in self._kept.runs.values())
        handed_in = any(
            session.submitted is not None
            and self._kept.evaluation(session, session.submitted) == key
            for session in self._kept.sessions.values()
        )
        handle = self._kept.evaluations[key].handle
        if handle is not None and not wanted and not handed_in:
            self._kept.evaluations[key].handle = None
            self._executor.cancel(handle)

    def _ended(self, key: str, handle: Handle) -> None:
        """Keep a verdict; called from a thread of the executor."""
        with self._lock:
            evaluation = self._kept.evaluations[key]
            if self._closed or evaluation.handle is not handle:
                return
            try:
                verdict = handle.result()
                value = {"evaluation": key, "verdict": verdict.model_dump(mode="json")}
                self._kept.note("verdict", value)
            except EvaluationCancelled:
                evaluation.handle = None
            except UserError as error:
                evaluation.failure = str(error)
            except Exception as error:
                evaluation.failure = f"an evaluation broke off: {type(error).__name__}"
                raise

    def _run(self, session_id: str, run_id: str) -> Run:
        run = self._kept.runs.get(run_id)
        if run is None or run.session != session_id:
            raise Refused("unknown_run", "this session has no run of this name")
        return run

    def _left(self, session: KeptSession) -> int:
        wanted = session.record.wanted
        used = sum(not self._kept.runs[name].cancelled for name in session.runs)
        return wanted.max_runs - used if wanted.feedback != "none" else 0

    def _view(self, run: Run) -> RunView:
        evaluation = self._kept.evaluations[run.evaluation]
        if run.cancelled:
            return RunView(run_id=run.id, state="cancelled", message="the run was cancelled")
        state, verdict = evaluation.state, evaluation.verdict
        if verdict is None:
            return RunView(run_id=run.id, state=state, message=evaluation.failure)
        session = self._kept.sessions[run.session]
        level = session.record.wanted.feedback
        told = feedback_on(verdict, level, runs_left=self._left(session))
        return RunView(run_id=run.id, state=state, feedback=told, key=verdict.key)

    def _row(self, session: KeptSession) -> ResultRow:
        wanted = session.record.wanted
        row = ResultRow(
            session_id=session.record.id,
            **wanted.model_dump(),
            runs=sum(not self._kept.runs[name].cancelled for name in session.runs),
            opened=session.record.opened,
        )
        if session.submitted is None:
            return row
        evaluation = self._kept.evaluations[self._kept.evaluation(session, session.submitted)]
        known: dict[str, Any] = {"submitted": session.submitted.sha256, "state": evaluation.state}
        verdict = evaluation.verdict
        if verdict is not None:
            same = verdict.equivalence
            known |= {"kind": verdict.kind, "plausible": verdict.plausible, "key": verdict.key}
            known["equivalence"] = None if same is None else same.answer
        return row.model_copy(update=known)

    def _tree_folder(self, bug_id: str) -> Path | None:
        if self._backend.recorded:
            return None
        return self._backend.prepare(self.bugs[bug_id]).tree


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _operator_token(file: Path) -> str:
    """Return the operator's token, which only the folder's owner may read."""
    with suppress(FileNotFoundError):
        if token := file.read_text().strip():
            return token
    token = secrets.token_urlsafe(32)
    # Whole or not at all: a kill in between would leave a file that opens nothing for good.
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as opened:
            opened.write(token + "\n")
        draft.replace(file)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise cannot_write(file, error) from error
    return token


def _artifact(verdict: Verdict, name: ArtifactName) -> str | None:
    if name == "report":
        return verdict.crash.raw if verdict.crash is not None else None
    if name == "build":
        return verdict.build.log_tail if verdict.build is not None else None
    last = verdict.runs[-1].console if verdict.runs else None
    return last.read_bytes().decode(errors="replace") if last and last.is_file() else None
