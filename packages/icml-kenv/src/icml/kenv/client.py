"""A client of the environment's server (extra ``client``)."""

from __future__ import annotations

import io
import subprocess
import tarfile
import time
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from icml.core.errors import UserError, require
from icml.kenv.models import PublicBug
from icml.kenv.session import FeedbackLevel
from icml.kenv.wire import (
    ENDED,
    ArtifactName,
    NewSession,
    OpenedSession,
    ResultRow,
    RunView,
    Submitted,
)

_Answer = TypeVar("_Answer")
_VIEW = TypeAdapter(RunView)  # agents poll it: made once

BASE = "kenv-base"
"""The tag of the unpatched source in a tree that `Client.checkout` makes."""


class ApiError(UserError):
    """The server refused a request: its status, its word for programs, and its sentence."""

    def __init__(self, status: int, error: str, message: str) -> None:
        """Keep them."""
        super().__init__(message)
        self.status, self.error = status, error


class Unreachable(UserError):
    """There is no server, or it doesn't answer."""


class Client:
    """Talks to one server with one token: the operator's, or that of a session.

    Example:
        >>> Client("http://127.0.0.1:8123/").url
        'http://127.0.0.1:8123'
    """

    def __init__(
        self, url: str, *, token: str = "", session: str = "", timeout_s: float = 60
    ) -> None:
        """Name the server, who asks, and how long an answer may take (s).

        Raises:
            MissingExtra: If httpx is not installed.
            UserError: If the token cannot be one.
        """
        self._httpx: Any = require("httpx", extra="icml-kenv[client]")
        self.url, self.token, self.session = url.rstrip("/"), token, session
        if not (token.isascii() and token.isprintable()):
            raise UserError("the token has letters that no token has: copy it anew")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        # The server is named outright: no proxy and no .netrc of the surroundings is asked.
        self._client = self._httpx.Client(headers=headers, timeout=timeout_s, trust_env=False)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def bugs(self, **filters: str) -> list[PublicBug]:
        """List the bugs, by ``subsystem`` and ``frozen``."""
        answer = self._ask("GET", "/v1/bugs", params=filters)
        return self._read(TypeAdapter(list[PublicBug]), answer)

    def open_session(
        self,
        bug_id: str,
        *,
        feedback: FeedbackLevel = "full",
        max_runs: int = 4,
        agent: str = "",
        model: str = "",
    ) -> OpenedSession:
        """Begin an attempt at a bug; takes the operator's token."""
        wanted = NewSession(
            bug_id=bug_id, feedback=feedback, max_runs=max_runs, agent=agent, model=model
        )
        answer = self._ask("POST", "/v1/sessions", json=wanted.model_dump())
        return self._read(TypeAdapter(OpenedSession), answer)

    def checkout(self, folder: Path) -> Path:
        """Put the unpatched source into an empty folder, as a git tree tagged ``kenv-base``.

        Raises:
            UserError: If the folder isn't empty, or git is not here.
        """
        if folder.exists() and any(folder.iterdir()):
            raise UserError(f"{folder} is not empty: name a new folder")
        answer = self._ask("GET", f"/v1/sessions/{self.session}/tree")
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with tarfile.open(fileobj=io.BytesIO(answer.content), mode="r:gz") as archive:
                archive.extractall(folder, filter="data")
        except tarfile.TarError as error:
            raise self._stranger(answer) from error
        identity = ["-c", "user.name=kenv", "-c", "user.email=kenv@localhost"]
        unsigned = ["-c", "commit.gpgSign=false", "-c", "tag.gpgSign=false"]
        for command in (
            ["init", "-q"],
            ["add", "-A", "-f"],
            [*identity, *unsigned, "commit", "-q", "-m", "the unpatched source"],
            [*unsigned, "tag", BASE],
        ):
            try:
                subprocess.run(["git", *command], cwd=folder, check=True, capture_output=True)
            except (OSError, subprocess.CalledProcessError) as error:
                raise UserError(f"git cannot make a tree in {folder}: {error}") from error
        return folder

    def run(self, diff: str) -> RunView:
        """Ask for a run of a diff; the same diff again is the same run."""
        answer = self._ask("POST", f"/v1/sessions/{self.session}/runs", json={"diff": diff})
        return self._read(_VIEW, answer)

    def view(self, run_id: str) -> RunView:
        """Look at a run."""
        return self._read(_VIEW, self._ask("GET", f"/v1/runs/{run_id}"))

    def wait(self, run_id: str, *, timeout_s: float = 7200, patience_s: float = 120) -> RunView:
        """Wait until a run has ended.

        Args:
            run_id: Of the run.
            timeout_s: How long it may take (s).
            patience_s: How long the server may be away meanwhile (s): a restart loses no run.

        Raises:
            TimeoutError: If it takes longer.
            Unreachable: If the server stays away.
        """
        start = seen = time.monotonic()
        pause = 0.05
        while time.monotonic() - start < timeout_s:
            try:
                view = self.view(run_id)
                seen = time.monotonic()
                if view.state in ENDED:
                    return view
            except Unreachable:
                if time.monotonic() - seen > patience_s:
                    raise
            time.sleep(pause)
            pause = min(pause * 1.5, 2.0)
        raise TimeoutError(f"run {run_id} did not end in {timeout_s:.0f} s")

    def cancel(self, run_id: str) -> RunView:
        """End a run."""
        return self._read(_VIEW, self._ask("DELETE", f"/v1/runs/{run_id}"))

    def artifact(self, run_id: str, name: ArtifactName) -> str:
        """Return a text of an ended run."""
        return self._ask("GET", f"/v1/runs/{run_id}/artifacts/{name}").text

    def submit(self, diff: str) -> Submitted:
        """Hand in a diff."""
        answer = self._ask("POST", f"/v1/sessions/{self.session}/submit", json={"diff": diff})
        return self._read(TypeAdapter(Submitted), answer)

    def results(self) -> list[ResultRow]:
        """Return what became of all sessions; takes the operator's token."""
        return self._read(TypeAdapter(list[ResultRow]), self._ask("GET", "/v1/results"))

    def _read(self, adapter: TypeAdapter[_Answer], answer: Any) -> _Answer:
        try:
            return adapter.validate_json(answer.content)
        except ValidationError as error:
            raise self._stranger(answer) from error

    def _stranger(self, answer: Any) -> ApiError:
        sentence = f"{self.url} answered {answer.status_code}: is it a server of icml-kenv?"
        return ApiError(answer.status_code, "unknown", sentence)

    def _ask(self, method: str, path: str, **more: Any) -> Any:
        try:
            answer = self._client.request(method, f"{self.url}{path}", **more)
        except (self._httpx.HTTPError, self._httpx.InvalidURL) as error:
            raise Unreachable(f"no answer from {self.url}: {error}") from error
        if answer.is_success:
            return answer
        try:
            told = answer.json()
            raise ApiError(answer.status_code, str(told["error"]), str(told["message"]))
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, ApiError):
                raise
            raise self._stranger(answer) from error
