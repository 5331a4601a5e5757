"""``icml kenv mcp``: one bug at the service of an agent that speaks MCP."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from icml.kenv.serve_cli import BackendName

# Spelled out: the module that defines it would make each --help load pydantic.
FeedbackLevel = Literal["none", "verdict", "title", "report", "full"]


@dataclass(frozen=True)
class McpOptions:
    """Which bug to serve, and what the agent is told."""

    id: Annotated[Positional[str], arg(metavar="ID", help_behavior_hint="(required)")]
    """For example phonet-autobind."""
    feedback: FeedbackLevel = "full"
    """How much a run tells; none allows no runs."""
    max_runs: int = 4
    """How many different diffs are evaluated before the submission."""
    backend: BackendName = "auto"
    """auto takes uml where a tree is built, else module."""
    runs: int | None = None
    """Boots without a crash that plausible takes; None follows from the bug's baseline."""
    worktree: Path | None = None
    """A new folder for the sources; None makes one that goes with the server."""
    out: Path | None = None
    """Folder of the journals; None is in the cache."""

    def __post_init__(self) -> None:
        """Refuse numbers that allow nothing."""
        if self.max_runs < 1 or (self.runs is not None and self.runs < 1):
            raise ValueError("--max-runs and --runs must be at least 1; --feedback none runs none")


def mcp(options: McpOptions) -> None:
    """Serve one bug to an agent that speaks MCP, over standard input and output."""
    from contextlib import closing

    from icml.core.errors import require
    from icml.kenv.attempt import Attempt
    from icml.kenv.backends.choose import backend_named
    from icml.kenv.bugs import load_bug

    require("mcp", extra="icml-kenv[mcp]")
    from icml.kenv.mcp_server import server_for

    attempt = Attempt(
        load_bug(options.id),
        backend=backend_named(options.backend),
        feedback=options.feedback,
        max_runs=options.max_runs,
        runs=options.runs,
        folder=options.out,
        worktree=options.worktree,
    )
    with closing(attempt):
        server_for(attempt).run()
