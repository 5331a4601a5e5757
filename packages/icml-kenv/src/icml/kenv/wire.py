"""What goes over HTTP, as checked JSON: server and client read and write the same records."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from icml.kenv.models import EquivalenceAnswer, Record, VerdictKind
from icml.kenv.session import Feedback, FeedbackLevel

RunState = Literal["queued", "running", "done", "failed", "cancelled"]
"""``failed``: something other than the patch was in the way; asking again tries again."""

ENDED: tuple[RunState, ...] = ("done", "failed", "cancelled")

ArtifactName = Literal["console", "report", "build"]


def _encodable(text: str) -> str:
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("wanted text that UTF-8 can carry, got half of a surrogate pair")
    return text


Text = Annotated[str, AfterValidator(_encodable)]
Name = Annotated[Text, Field(max_length=200)]


class NewSession(Record):
    """Which bug an agent is to work on, and how much it is told."""

    bug_id: Name
    feedback: FeedbackLevel = "full"
    max_runs: int = Field(default=4, ge=0, le=1000)
    """Different diffs that are evaluated for the agent."""
    agent: Name = ""
    model: Name = ""


class OpenedSession(Record):
    """What an agent needs to begin."""

    session_id: str
    token: str
    """Told once; it opens this session and no other."""
    report: str
    reproducer: str
    tree_url: str | None
    """Path of the unpatched source, a tar archive; None where the backend has none."""


class Diff(Record):
    """A unified diff."""

    diff: Text


class RunView(Record):
    """One diff's evaluation, as much of it as the session's level lets the agent know."""

    run_id: str
    state: RunState
    message: str = ""
    """Why there is no verdict."""
    feedback: Feedback | None = None
    """Once it is done."""
    key: str = ""
    """Of the evaluation: the same for the same diff on every surface."""


class Submitted(Record):
    """What was handed in; its verdict is not told to the agent."""

    session_id: str
    sha256: str


class ResultRow(Record):
    """What became of one session; for the operator alone."""

    session_id: str
    bug_id: str
    agent: str
    model: str
    feedback: FeedbackLevel
    max_runs: int
    runs: int
    """Different diffs that were evaluated for the agent."""
    opened: datetime
    submitted: str | None = None
    """Digest of the diff that was handed in."""
    state: RunState | None = None
    """Of the evaluation of what was handed in."""
    kind: VerdictKind | None = None
    plausible: bool = False
    equivalence: EquivalenceAnswer | None = None
    key: str = ""


class Refusal(Record):
    """Why a request was refused."""

    error: str
    """A word for programs."""
    message: str
    """A sentence for readers."""
