"""One agent's attempt at one bug: a session, a place to work in, and a verdict at its end."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from icml.kenv.models import Bug, Patch, Verdict
from icml.kenv.protocol import Backend
from icml.kenv.runner import evaluate
from icml.kenv.session import FeedbackLevel, Session
from icml.kenv.sources import source_folder


class Attempt:
    """A session whose diffs are evaluated here, as `evaluate` would: same verdict, same key."""

    def __init__(
        self,
        bug: Bug,
        *,
        backend: Backend,
        feedback: FeedbackLevel = "full",
        max_runs: int = 4,
        runs: int | None = None,
        folder: Path | None = None,
        worktree: Path | None = None,
    ) -> None:
        """Lay out the worktree.

        Args:
            bug: With its fix, which the session never shows.
            backend: Builds and boots.
            feedback: How much `Session.run_kernel` tells.
            max_runs: How many different diffs it evaluates.
            runs: Boots without a crash that ``plausible`` takes; None follows from the bug.
            folder: Of the journals; None is in the cache.
            worktree: A folder that isn't there yet, or is empty; None makes one that `close`
                removes.

        Raises:
            UserError: If the worktree is in use, or the source is not here.
        """
        self.bug = bug
        self.backend = backend
        self._runs = runs
        self._folder = folder
        place = Path() if worktree is not None else Path(tempfile.mkdtemp(prefix="kenv-"))
        self._own = None if worktree is not None else place
        try:
            # A recorded backend has no source of its own.
            version = bug.source.version
            tree = source_folder(version) if backend.recorded else backend.prepare(bug).tree
            self.session = Session(
                bug,
                tree,
                worktree if worktree is not None else place / "worktree",
                evaluate=self.evaluate,
                feedback=feedback,
                max_runs=max_runs,
            )
        except BaseException:
            self.close()
            raise

    def evaluate(self, patch: Patch) -> Verdict:
        """Evaluate a patch; what was evaluated before is read and not run again."""
        return evaluate(self.bug, patch, backend=self.backend, runs=self._runs, folder=self._folder)

    def verdict(self) -> Verdict:
        """Evaluate what was submitted; what was edited is submitted first if nothing was.

        Raises:
            UserError: As `evaluate` does.
        """
        return self.evaluate(self.session.submitted or self.session.submit())

    def close(self) -> None:
        """Remove a worktree that was made for this attempt."""
        if self._own is not None:
            shutil.rmtree(self._own, ignore_errors=True)
