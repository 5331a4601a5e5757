"""The tools of inspect-ai with which a model works on a bug: each is bound to one session."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from anyio import to_thread
from inspect_ai.tool import Tool, ToolError, tool
from inspect_ai.util import concurrency

from icml.core.errors import UserError
from icml.kenv import worktree
from icml.kenv.session import Session

_Result = TypeVar("_Result")


async def evaluated(work: Callable[[], _Result]) -> _Result:
    """Do what builds and boots in a thread, half as many at a time as there are processors."""
    async with concurrency("kernels", max(1, (os.cpu_count() or 2) // 2)):
        # What was started is waited for: a build that nobody watches would go on by itself.
        return await to_thread.run_sync(work)


def _told(work: Callable[[], str]) -> str:
    """Tell the model what it can mend; all else ends the sample."""
    try:
        return work()
    except UserError as error:
        raise ToolError(str(error)) from error


@tool
def run_kernel(session: Session) -> Tool:
    """Build and boot what was edited, and tell as much as the session's feedback allows."""

    async def execute(diff: str = "") -> str:
        """Build the kernel with your edits, boot it and run the reproducer. Runs are limited.

        Args:
            diff: A unified diff against the original source, in place of your edits.
        """
        return await evaluated(lambda: _told(lambda: session.run_kernel(diff or None).text()))

    return execute


@tool
def find_text(session: Session) -> Tool:
    """Search the worktree's sources."""

    async def execute(text: str) -> str:
        """Find a text in the sources: every line that has it, with file and line number.

        Args:
            text: Looked for as it stands, no pattern.
        """
        return _told(lambda: worktree.find(session, text))

    return execute


@tool
def read_source(session: Session) -> Tool:
    """Read one of the worktree's sources."""

    async def execute(path: str, start: int = 1, count: int = worktree.MOST_LINES) -> str:
        """Read numbered lines of a source.

        Args:
            path: For example net/phonet/socket.c.
            start: The first line, counted from 1.
            count: How many lines at most.
        """
        return _told(lambda: worktree.read_lines(session, path, start, count))

    return execute


@tool
def edit_source(session: Session) -> Tool:
    """Edit one of the worktree's sources."""

    async def execute(path: str, old: str, new: str) -> str:
        """Replace a text in a source. It must occur exactly once: take whole lines.

        Args:
            path: For example net/phonet/socket.c.
            old: The text to replace; empty to create a new file.
            new: What comes in its place.
        """
        return _told(lambda: worktree.edit(session, path, old, new))

    return execute


@tool
def submit(session: Session) -> Tool:
    """Hand in what was edited."""

    async def execute(diff: str = "") -> str:
        """Hand in your edits as the patch. Only the first submission counts.

        Args:
            diff: A unified diff against the original source, in place of your edits.
        """
        _told(lambda: session.submit(diff or None).diff)
        return "It is handed in. Say that you are done."

    return execute


def session_tools(session: Session) -> list[Tool]:
    """Return the tools for one session; `run_kernel` only where it gives feedback."""
    tools = [read_source(session), find_text(session), edit_source(session), submit(session)]
    return [run_kernel(session), *tools] if session.runs_left else tools
