"""The symbolic search as a prover, and two provers one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal

from icml.wzllm.certify import MAX_ORDER
from icml.wzllm.cfinite_terms import NotCFinite
from icml.wzllm.provers.protocol import Candidate, Proposed, Prover
from icml.wzllm.statement import Identity
from icml.wzllm.worker import Stopped, Worker

if TYPE_CHECKING:
    from icml.wzllm.lean.sketch import SubGoal

__all__ = ["HybridProver", "SymbolicProver", "stages"]

Template = Literal["wz", "c-finite"]


class SymbolicProver:
    """Looks for a certificate: by creative telescoping, then as a C-finite identity.

    Each search runs in a child process, which is ended when its budget is spent. Sub-goals get no
    proposal: the printer has tried what the symbolic side knows.

    Example:
        >>> prover = SymbolicProver()
        >>> row = Identity.parse("sum(k,0,n,fibonacci(k)) = fibonacci(n+2)-1")
        >>> [candidate.kind for candidate in prover.propose([row], 1, 0)[0].candidates]
        ['certificate']
    """

    name = "symbolic"

    def __init__(
        self,
        *,
        max_order: int = MAX_ORDER,
        budget_s: float = 30.0,
        templates: tuple[Template, ...] = ("wz", "c-finite"),
        worker: Worker | None = None,
    ) -> None:
        """Set up the search.

        Args:
            max_order: Highest order of a recurrence.
            budget_s: Seconds for each template.
            templates: What to try, in this order.
            worker: A running child process; one for each call if None.
        """
        self.max_order = max_order
        self.budget_s = budget_s
        self.templates = templates
        self.worker = worker

    def propose(self, goals: Sequence[Identity | SubGoal], n: int, seed: int) -> Sequence[Proposed]:
        """Propose the certificate that is found first; there is nothing to draw."""
        with ExitStack() as stack:
            worker = self.worker or stack.enter_context(Worker())
            return [self._one(goal, worker) for goal in goals]

    def _one(self, goal: Identity | SubGoal, worker: Worker) -> Proposed:
        if not isinstance(goal, Identity):
            return Proposed((), "the symbolic search has no proof of it")
        failures: list[Proposed] = []
        for template in self.templates:
            search = self._telescoping if template == "wz" else self._cfinite
            try:
                found = search(goal, worker)
            except Stopped as stopped:
                found = Proposed((), f"the search: {stopped}", "timeout")
            if found.candidates:
                return found
            failures.append(found)
        status = next((f.status for f in failures if f.status != "open"), "open")
        return Proposed((), "; ".join(failure.why_none for failure in failures), status)

    def _telescoping(self, identity: Identity, worker: Worker) -> Proposed:
        outcome = worker.certify(identity, max_order=self.max_order, budget_s=self.budget_s)
        if outcome.certificate is not None:
            return Proposed((Candidate("certificate", outcome.certificate.to_json()),))
        outside = outcome.status == "not hypergeometric"
        return Proposed((), outcome.detail, "not hypergeometric" if outside else "open")

    def _cfinite(self, identity: Identity, worker: Worker) -> Proposed:
        try:
            certificate = worker.find_cfinite(identity, budget_s=self.budget_s)
        except NotCFinite as error:
            return Proposed((), f"not C-finite: {error}")
        return Proposed((Candidate("certificate", certificate.to_json()),))


class HybridProver:
    """One prover first, another for what the judge leaves open.

    ``prove`` asks ``then`` only about goals for which nothing of ``first`` was accepted. Asked by
    itself, it proposes what the first one does, and what the second does where that is nothing.
    """

    def __init__(self, first: Prover, then: Prover) -> None:
        """Remember both."""
        self.first = first
        self.then = then
        self.name = f"hybrid({first.name}, {then.name})"

    def propose(self, goals: Sequence[Identity | SubGoal], n: int, seed: int) -> Sequence[Proposed]:
        """Propose what the first prover does, or the second."""
        found = list(self.first.propose(goals, n, seed))
        left = [i for i, proposed in enumerate(found) if not proposed.candidates]
        if left:
            more = self.then.propose([goals[i] for i in left], n, seed)
            for i, proposed in zip(left, more, strict=True):
                found[i] = proposed
        return found


def stages(prover: Prover) -> list[Prover]:
    """Return the provers that are asked one after the other."""
    if isinstance(prover, HybridProver):
        return [*stages(prover.first), *stages(prover.then)]
    return [prover]
