"""What an agent gets: a source tree without a future, a report, a reproducer, and feedback."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from icml.core.errors import UserError
from icml.kenv.models import Bug, CompileError, Patch, PublicBug, Record, Verdict, VerdictKind
from icml.kenv.templates import diff_text

FeedbackLevel = Literal["none", "verdict", "title", "report", "full"]
"""Each tells what the one before it tells, and more: nothing; the kind; the crash's title or the
first build error; the crash's report or all build errors; what the reproducer saw as well."""

LEVELS: tuple[FeedbackLevel, ...] = ("none", "verdict", "title", "report", "full")


class FeedbackDisabled(UserError):
    """The session gives no feedback."""


class RunsExhausted(UserError):
    """The session's budget of runs is used up."""


class Feedback(Record):
    """What the environment says about a diff, as much as the session's level allows."""

    kind: VerdictKind
    title: str = ""
    """Of the crash."""
    build_errors: list[str] = Field(default_factory=list)
    report: str = ""
    """The console's part that reports the crash."""
    transcript: list[str] = Field(default_factory=list)
    """What the reproducer printed in the last run."""
    runs_left: int

    def text(self) -> str:
        """Return it as plain text for an agent that reads."""
        parts = [f"verdict: {self.kind}", f"runs left: {self.runs_left}"]
        if self.title:
            parts.append(f"title: {self.title}")
        parts += self.build_errors
        if self.transcript:
            parts += ["the reproducer printed:", *self.transcript]
        if self.report:
            parts += ["the console's report:", self.report]
        return "\n".join(parts) + "\n"


class Session:
    """One agent's attempt at one bug.

    Agents read ``bug``, edit ``worktree``, call `run_kernel` and at last `submit`. The bug is
    its public view, the tree has the bug's folder and no history, and feedback is made of the
    patched kernel's own behaviour: nothing of the developers' fix is in any of them.
    """

    def __init__(
        self,
        bug: Bug | PublicBug,
        tree: Path,
        worktree: Path,
        *,
        evaluate: Callable[[Patch], Verdict],
        feedback: FeedbackLevel = "full",
        max_runs: int = 4,
    ) -> None:
        """Copy the bug's folder of the unpatched source into a new worktree.

        Args:
            bug: The bug; of a `Bug`, only the public view is kept.
            tree: Root of the unpatched source.
            worktree: A folder that isn't there yet, or is empty.
            evaluate: Builds and runs a patch; what it says of equivalence is never passed on.
            feedback: How much `run_kernel` tells.
            max_runs: How many different diffs `run_kernel` evaluates.

        Raises:
            UserError: If the worktree is not empty or the tree lacks the bug's folder.
        """
        if feedback not in LEVELS:
            raise UserError(f"feedback must be one of {', '.join(LEVELS)}, got {feedback!r}")
        if worktree.exists() and any(worktree.iterdir()):
            raise UserError(f"{worktree} is not empty: a session needs a worktree of its own")
        self.bug: PublicBug = bug.public() if isinstance(bug, Bug) else bug
        source = tree / self.bug.directory
        if not source.is_dir():
            raise UserError(f"the source {tree} has no folder {self.bug.directory}")
        shutil.copytree(source, worktree / self.bug.directory, symlinks=True)
        self.worktree = worktree
        self.submitted: Patch | None = None
        self._original = source_texts(worktree)
        self._evaluate = evaluate
        self._level: FeedbackLevel = feedback
        self._max_runs = max_runs
        self._verdicts: dict[str, Verdict] = {}

    @property
    def runs_left(self) -> int:
        """Diffs that `run_kernel` still evaluates."""
        return self._max_runs - len(self._verdicts) if self._level != "none" else 0

    def diff(self) -> str:
        """Return what was edited in the worktree: sources alone, no build products."""
        return diff_texts(self._original, source_texts(self.worktree))

    def run_kernel(self, diff: str | None = None) -> Feedback:
        """Build and run a diff, by default what was edited; the same diff twice costs one run.

        Raises:
            FeedbackDisabled: If the session gives none.
            RunsExhausted: If the budget is used up.
        """
        if self._level == "none":
            raise FeedbackDisabled("this session gives no feedback: submit a diff")
        patch = Patch(diff=self.diff() if diff is None else diff)
        if patch.sha256 not in self._verdicts:
            if self.runs_left <= 0:
                raise RunsExhausted(f"all {self._max_runs} runs are used: submit a diff")
            self._verdicts[patch.sha256] = self._evaluate(patch)
        verdict = self._verdicts[patch.sha256]
        return feedback_on(verdict, self._level, runs_left=self.runs_left)

    def submit(self, diff: str | None = None) -> Patch:
        """Hand in a diff, by default what was edited; the first one counts.

        Raises:
            UserError: If something was handed in before.
        """
        if self.submitted is not None:
            raise UserError("this session has a submission: start another one")
        self.submitted = Patch(diff=self.diff() if diff is None else diff)
        return self.submitted


def feedback_on(verdict: Verdict, level: FeedbackLevel, *, runs_left: int) -> Feedback:
    """Return what a level lets an agent know of a verdict: never its comparison with the fix."""
    depth = LEVELS.index(level)
    told = Feedback(kind=verdict.kind, runs_left=runs_left)
    build, crash = verdict.build, verdict.crash
    errors = [] if build is None else [_error_text(error) for error in build.errors]
    if depth >= LEVELS.index("title"):
        title = crash.title if crash else ""
        told = told.model_copy(update={"title": title, "build_errors": errors[:1]})
    if depth >= LEVELS.index("report"):
        report = crash.raw if crash else ""
        told = told.model_copy(update={"report": report, "build_errors": errors})
    if depth >= LEVELS.index("full") and verdict.runs:
        seen = verdict.runs[-1].transcript or []
        told = told.model_copy(update={"transcript": list(seen)})
    return told


def _error_text(error: CompileError) -> str:
    place = f"{error.file}:{error.line}: " if error.file else ""
    return f"{place}{error.message}"


def diff_texts(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """Return a unified diff of two sets of files, by path; one that is in one alone is new or gone.

    Every surface makes its diff here, so that the same edit is the same patch to all of them.
    """
    parts = []
    for path in sorted(old.keys() | new.keys()):
        text = diff_text(path, old.get(path, ""), new.get(path, ""))
        if path not in old:
            text = text.replace(f"--- a/{path}\n", "--- /dev/null\n", 1)
        elif path not in new:
            text = text.replace(f"+++ b/{path}\n", "+++ /dev/null\n", 1)
        parts.append(text)
    return "".join(parts)


def source_texts(root: Path) -> dict[str, str]:
    """Read the C and assembler files below a folder; links and other files are left out."""
    return {
        str(path.relative_to(root)): path.read_bytes().decode(errors="replace")
        for path in sorted(root.rglob("*"))
        if path.suffix in (".c", ".h", ".S") and path.is_file() and not path.is_symlink()
    }
