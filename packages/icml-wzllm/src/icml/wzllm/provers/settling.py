"""Open obligations of a draft: asked for, put in their places, judged by the kernel."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from icml.wzllm.kernel.protocol import Kernel, Verdict
from icml.wzllm.kernel.scan import Refused
from icml.wzllm.lean.sketch import SubGoal
from icml.wzllm.provers.answers import ask, attempt, unfenced, unreadable
from icml.wzllm.provers.obligations import Draft, as_term
from icml.wzllm.provers.protocol import Attempt, Candidate, Prover

__all__ = ["Settled", "settle"]

_TRIVIAL = "Eq Nat.zero Nat.zero"


class Settled(NamedTuple):
    """What became of the goals of a draft."""

    text: str | None
    """The whole proof, if the kernel accepts it."""
    verdict: Verdict | None
    """What the kernel said of the last whole proof."""
    open_goals: tuple[SubGoal, ...]
    attempts: tuple[Attempt, ...]


def settle(
    draft: Draft,
    provers: Sequence[Prover],
    kernel: Kernel,
    *,
    n: int,
    seed: int,
    budget_s: float,
    one_by_one: bool = True,
) -> Settled:
    """Ask provers one after the other for terms until the kernel accepts the whole proof.

    Args:
        draft: The proof with its holes.
        provers: In this order; each is asked for what is still open.
        kernel: The judge of each term and of the whole.
        n: Terms of each prover for each goal that are looked at.
        seed: For the provers.
        budget_s: Seconds for the kernel in all.
        one_by_one: Whether each term is tried for itself on our own base. Otherwise the i-th terms
            of all goals are tried together, as goals inside of one Mathlib theorem must be.
    """
    run = _Run(draft, kernel, n, time.monotonic() + budget_s)
    for prover in provers:
        goals = [goal for goal in draft.goals if goal.name not in run.terms]
        proposals = ask(prover, goals, n, seed)
        texts = [proposed.candidates for proposed in proposals]
        done = run.singly if one_by_one else run.together
        if done(prover, goals, texts):
            break
    left = tuple(goal for goal in draft.goals if goal.name not in run.terms)
    accepted = run.verdict is not None and run.verdict.accepted
    text = draft.filled(run.terms) if accepted else None
    return Settled(text, run.verdict, () if accepted else left, tuple(run.attempts))


class _Run:
    def __init__(self, draft: Draft, kernel: Kernel, n: int, deadline: float) -> None:
        self.draft, self.kernel, self.n, self.deadline = draft, kernel, n, deadline
        self.terms: dict[str, str] = {}
        self.attempts: list[Attempt] = []
        self.verdict: Verdict | None = None

    def singly(
        self, prover: Prover, goals: Sequence[SubGoal], texts: Sequence[Sequence[Candidate]]
    ) -> bool:
        """Keep the first term for each goal that checks by itself; then check the whole."""
        count = sum(min(len(candidates), self.n) for candidates in texts)
        for goal, candidates in zip(goals, texts, strict=True):
            for candidate in candidates[: self.n]:
                reason, term = self._term(candidate)
                if term:
                    reason = self._alone(goal.name, term, count)
                count -= 1
                self.attempts.append(attempt(prover, goal.name, candidate, reason))
                if not reason:
                    self.terms[goal.name] = term
                    break
        if len(self.terms) < len(self.draft.goals):
            return False
        return not self._whole(self.terms)

    def together(
        self, prover: Prover, goals: Sequence[SubGoal], texts: Sequence[Sequence[Candidate]]
    ) -> bool:
        """Check the i-th terms of all goals together, for each i."""
        for round_of in list(zip(*texts, strict=False))[: self.n]:
            read = [self._term(candidate) for candidate in round_of]
            reason = next((reason for reason, _ in read if reason), "")
            terms = {goal.name: term for goal, (_, term) in zip(goals, read, strict=True)}
            reason = reason or self._whole(terms)
            self.attempts += [
                attempt(prover, goal.name, candidate, own or reason)
                for goal, candidate, (own, _) in zip(goals, round_of, read, strict=True)
            ]
            if not reason:
                self.terms = terms
                return True
        return False

    def _term(self, candidate: Candidate) -> tuple[str, str]:
        """Return why a candidate is no term, or "" and the term."""
        if trouble := unreadable(candidate, ("term",)):
            return trouble, ""
        try:
            return "", as_term(unfenced(candidate.text))
        except Refused as error:
            return f"refused before Lean saw it: {error}", ""

    def _alone(self, goal: str, term: str, shares: int) -> str:
        """Say why a term doesn't prove its goal; it is checked with a trivial theorem on it."""
        text, name = self.draft.alone(goal, term)
        probe = f"{self.draft.theorem}_probe"
        text += f"\ntheorem {probe} : {_TRIVIAL} := (fun _ => Eq.refl) @{name}\n"
        return self._asked(text, probe, _TRIVIAL, shares)[0]

    def _whole(self, terms: dict[str, str]) -> str:
        draft = self.draft
        reason, verdict = self._asked(draft.filled(terms), draft.theorem, draft.statement, 1)
        self.verdict = verdict or self.verdict
        return reason

    def _asked(
        self, text: str, theorem: str, statement: str, shares: int
    ) -> tuple[str, Verdict | None]:
        left = self.deadline - time.monotonic()
        if left <= 0:
            return "not judged: the budget is spent", None
        # Each check gets an equal share of what is left, so that one can't use it all up.
        verdict = self.kernel.check(
            text, theorem, statement, max(1.0, round(left / (shares + 1), 2))
        )
        return "" if verdict.accepted else f"the kernel: {_most_telling(verdict)}", verdict


def _most_telling(verdict: Verdict) -> str:
    """Return the first message that says more than how Lean ended."""
    said = [text for text in verdict.messages if not text.startswith("Lean ended with exit status")]
    return (said or [*verdict.messages, "not accepted"])[0][:500]
