"""Agents: three that are programs, and one that runs any command. None is a language model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from icml.core.errors import UserError
from icml.kenv.models import Patch
from icml.kenv.session import RunsExhausted, Session


class Agent(Protocol):
    """Something that looks at a session and submits a diff to it."""

    @property
    def name(self) -> str:
        """Shown in tables."""
        ...

    def solve(self, session: Session) -> None:
        """Submit a diff, or nothing at all."""
        ...


@dataclass(frozen=True)
class NullAgent:
    """Submits an empty diff: an environment that calls it plausible is broken."""

    name: str = "null"

    def solve(self, session: Session) -> None:
        """Submit nothing changed."""
        session.submit("")


@dataclass(frozen=True)
class DeveloperAgent:
    """Submits the developers' fix, which it is given by the experiment and not by the session."""

    fix: Patch
    name: str = "developer"

    def solve(self, session: Session) -> None:
        """Submit the fix."""
        session.submit(self.fix.diff)


@dataclass(frozen=True)
class TemplateAgent:
    """Tries candidates in the order given: the first unseen, or with feedback one after the other.

    Without feedback it submits the first. With it, it submits the first that the environment
    calls plausible, and the last one that it tried if none was.
    """

    candidates: Sequence[Patch]
    name: str = "template"

    def solve(self, session: Session) -> None:
        """Submit one of the candidates, nothing if there are none."""
        if not self.candidates:
            session.submit("")
            return
        chosen = self.candidates[0].diff
        if session.runs_left:
            for candidate in self.candidates:
                try:
                    told = session.run_kernel(candidate.diff)
                except RunsExhausted:
                    break
                chosen = candidate.diff
                if told.kind == "plausible":
                    break
        session.submit(chosen)


@dataclass(frozen=True)
class CommandAgent:
    """Runs a command in the worktree, round after round, and submits what it edited.

    Beside the worktree lie ``BUG.json`` (the public view), ``report.txt``, ``repro.c`` and, from
    the second round on, ``feedback.txt``; the command finds that folder in ``KENV_DIR``. A round
    ends with the command; the next one starts unless its edits are plausible, nothing was edited,
    the runs are used up or there is no feedback.
    """

    argv: Sequence[str]
    timeout_s: float = 600
    """Wall time of one round."""
    name: str = "command"

    def solve(self, session: Session) -> None:
        """Run the rounds and submit the worktree's diff.

        Raises:
            UserError: If the command is not there, fails, or takes longer than its limit.
        """
        folder = session.worktree.parent
        _write_brief(folder, session)
        tried: set[str] = set()
        while True:
            self._round(session, folder)
            diff = session.diff()
            if diff in tried or not diff or not session.runs_left:
                break
            tried.add(diff)
            told = session.run_kernel()
            (folder / "feedback.txt").write_text(told.text())
            if told.kind == "plausible":
                break
        session.submit()

    def _round(self, session: Session, folder: Path) -> None:

        from icml.core.process import run_child

        environment = {"KENV_DIR": str(folder), "PATH": os.environ.get("PATH", os.defpath)}
        result = run_child(
            self.argv, timeout_s=self.timeout_s, cwd=session.worktree, env=environment
        )
        if result.reason != "exit" or result.exit:
            why = f"exit {result.exit}" if result.reason == "exit" else f"its {result.reason} limit"
            raise UserError(f"the agent's command ended with {why}: {result.stderr[-500:]}")


def _write_brief(folder: Path, session: Session) -> None:
    (folder / "BUG.json").write_text(session.bug.model_dump_json(indent=1))
    (folder / "report.txt").write_text(session.bug.crash_report)
    (folder / "repro.c").write_text(session.bug.reproducers[0].text)


def blind_expectation(plausible: Sequence[bool]) -> float:
    """Return the chance that the first of randomly ordered candidates is plausible.

    Raises:
        ValueError: If there are no candidates.

    Example:
        >>> blind_expectation([True, True, False])
        0.6666666666666666
    """
    return feedback_expectation(plausible, budget=1)


def feedback_expectation(plausible: Sequence[bool], *, budget: int) -> float:
    """Return the chance that a plausible one is among the first ``budget``, over all orders.

    With k of n plausible that is ``1 - C(n-k, b) / C(n, b)``: no order has to be chosen.

    Raises:
        ValueError: If there are no candidates or the budget is below 1.

    Example:
        >>> feedback_expectation([True, False, False], budget=2)
        0.6666666666666666
    """
    from icml.core.stats import pass_at_k

    if not plausible:
        raise ValueError("there are no candidates")
    if budget < 1:
        raise ValueError(f"budget must be at least 1, got {budget}")
    return pass_at_k(len(plausible), sum(plausible), min(budget, len(plausible)))
