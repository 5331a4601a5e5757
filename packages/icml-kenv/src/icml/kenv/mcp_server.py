"""One bug as an MCP server over stdio, for agents that speak the Model Context Protocol.

The agent edits the worktree with its own tools, or sends diffs; the server builds and boots them.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from icml.core.errors import UserError
from icml.kenv import __version__
from icml.kenv.attempt import Attempt
from icml.kenv.models import Patch, Record, VerdictKind
from icml.kenv.session import source_texts

_Result = TypeVar("_Result")

INSTRUCTIONS = (
    "A crash of the Linux kernel is to be mended. kenv_bug tells the crash, the reproducer and the "
    "folder with the sources: edit them there, or send unified diffs. kenv_run_kernel builds, "
    "boots and runs the reproducer; the same diff asked again costs nothing, also after a "
    "time-out. kenv_submit hands in."
)


class BugBrief(Record):
    """What an agent gets of the bug: its public view and a place to work in."""

    id: str
    title: str
    subsystems: list[str]
    kernel: str
    crash_report: str
    reproducer: str
    worktree: str
    """Folder with the sources; edit them there."""
    sources: list[str]
    """Paths in the worktree, as a diff names them."""
    runs_left: int


class Submitted(Record):
    """What became of the submission; how it compares with the fix is in the journal alone."""

    kind: VerdictKind
    plausible: bool
    reason: str
    key: str


class _Tools:
    """What the tools do: their docstrings are what a model reads.

    They take turns: a call that a client gave up on ends first, and its answer is kept.
    """

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._session = attempt.session
        self._turn = Lock()
        self._report = attempt.session.bug.crash_report

    def _told(self, work: Callable[[], _Result]) -> _Result:
        with self._turn:
            try:
                return work()
            except UserError as error:
                raise ToolError(str(error)) from error

    def kenv_bug(self) -> BugBrief:
        """Tell what crashes, how it is provoked, and where the sources are."""
        bug, session = self._session.bug, self._session
        return BugBrief(
            id=bug.id,
            title=bug.title,
            subsystems=bug.subsystems,
            kernel=f"{bug.source.ref} {bug.source.version}",
            crash_report=bug.crash_report,
            reproducer=bug.reproducers[0].text,
            worktree=str(session.worktree),
            sources=list(source_texts(session.worktree)),
            runs_left=session.runs_left,
        )

    def kenv_run_kernel(self, diff: str = "") -> str:
        """Build the kernel with the worktree's edits or with a diff, boot it, run the reproducer.

        Takes up to some minutes. The number of different diffs is limited.
        """

        def run() -> str:
            found = self._session.run_kernel(diff or None)
            self._report = found.report
            return found.text()

        return self._told(run)

    def kenv_report(self) -> str:
        """Tell the console's report of the last crash: the bug's own before the first run."""
        return self._told(lambda: self._report or "the last run gave no report")

    def kenv_submit(self, diff: str = "") -> Submitted:
        """Hand in the worktree's edits, or a diff. Only the first submission counts."""

        def submit() -> Submitted:
            session = self._session
            if session.submitted is None:
                session.submit(diff or None)
            elif diff and Patch(diff=diff).sha256 != session.submitted.sha256:
                raise UserError("another patch was handed in before: the first one counts")
            verdict = self._attempt.verdict()
            told = {name: getattr(verdict, name) for name in Submitted.model_fields}
            return Submitted.model_validate(told)

        return self._told(submit)


def server_for(attempt: Attempt) -> MCPServer:
    """Return the server of one attempt."""
    server: MCPServer = MCPServer("icml-kenv", version=__version__, instructions=INSTRUCTIONS)
    tools = _Tools(attempt)
    for work in (tools.kenv_bug, tools.kenv_run_kernel, tools.kenv_report, tools.kenv_submit):
        server.add_tool(work)
    return server
