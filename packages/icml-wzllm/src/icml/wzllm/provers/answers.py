"""From a prover's text to a verdict on a statement: read, judged in a child process, recorded."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from icml.core.errors import UserError
from icml.wzllm.certificate import BadCertificate
from icml.wzllm.certificate_files import AnyCertificate, certificate_from_json
from icml.wzllm.cfinite_certificate import CFiniteCertificate
from icml.wzllm.cfinite_terms import NotCFinite
from icml.wzllm.parser import BadStatement
from icml.wzllm.provers.protocol import Attempt, Candidate, Proposed, Prover
from icml.wzllm.statement import Identity
from icml.wzllm.verification import Report
from icml.wzllm.worker import Stopped, Worker

if TYPE_CHECKING:
    from icml.wzllm.lean.sketch import SubGoal

__all__ = ["MAX_TEXT", "Judged", "ask", "judge_statement", "unfenced"]

MAX_TEXT = 1_000_000  # characters of a proposal that are read at all, ours
SHOWN = 120  # characters of a proposal that a record keeps, ours

_FENCE = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```[ \t]*$", re.DOTALL | re.MULTILINE)
_CFINITE = re.compile(r"c-finite(?:\s*\|\s*(\d{1,6})\s*\|\s*(\d{1,6}))?", re.ASCII)


class Judged(NamedTuple):
    """What became of all proposals for a statement."""

    certificate: AnyCertificate | None
    """The accepted one."""
    prover: str
    """Whose it is; "" if there is none."""
    attempts: tuple[Attempt, ...]
    why_none: str = ""
    status: str = "open"


def ask(
    prover: Prover, goals: Sequence[Identity | SubGoal], n: int, seed: int
) -> Sequence[Proposed]:
    """Ask a prover and check that it answers in the protocol's words.

    Raises:
        UserError: If it doesn't.
    """
    found = prover.propose(goals, n, seed)
    if len(found) != len(goals) or not all(isinstance(entry, Proposed) for entry in found):
        raise UserError(
            f"the prover {prover.name!r} must return one Proposed for each of {len(goals)} goals"
        )
    return found


def unfenced(text: str) -> str:
    r"""Return what stands in the last code block of a text; all of it if there is none.

    Example:
        >>> unfenced("Here it is:\n```text\n-2, 1 | k | k-n-1\n```\n")
        '-2, 1 | k | k-n-1'
    """
    blocks = _FENCE.findall(text)
    return (blocks[-1] if blocks else text).strip()


def judge_statement(
    identity: Identity,
    provers: Sequence[Prover],
    worker: Worker,
    *,
    n: int,
    seed: int,
    budget_s: float,
) -> Judged:
    """Ask provers one after the other until the judge accepts a proposal.

    Args:
        identity: The statement.
        provers: In this order.
        worker: Where the judge runs.
        n: Proposals of each that are looked at.
        seed: For the provers.
        budget_s: Seconds for judging what one prover proposes.
    """
    attempts: list[Attempt] = []
    failures: list[Proposed] = []
    for prover in provers:
        (proposed,) = ask(prover, [identity], n, seed)
        deadline = time.monotonic() + budget_s
        seen: dict[Candidate, str] = {}
        reasons: list[str] = []
        looked_at = proposed.candidates[:n]
        for i, candidate in enumerate(looked_at):
            # An equal share of what is left for each, so that one can't use it all up.
            left = (deadline - time.monotonic()) / (len(looked_at) - i)
            certificate: AnyCertificate | None = None
            reason = unreadable(candidate, ("certificate", "answer"))
            if not reason and (reason := seen.get(candidate, "")) == "":
                if left <= 0:
                    reason = "not judged: the budget is spent"
                else:
                    reason, certificate = _judged(identity, candidate, worker, left)
                seen[candidate] = reason
            attempts.append(attempt(prover, "statement", candidate, reason))
            if certificate is not None:
                return Judged(certificate, prover.name, tuple(attempts))
            reasons.append(reason)
        if (more := len(proposed.candidates) - n) > 0:
            reason = f"more proposals than the {n} that were asked for: {more}"
            attempts.append(attempt(prover, "statement", proposed.candidates[n], reason))
        failures.append(_failure(prover, proposed, reasons))
    status = next((f.status for f in failures if f.status != "open"), "open")
    why = "; ".join(failure.why_none for failure in failures)
    return Judged(None, "", tuple(attempts), why, status)


def attempt(prover: Prover, goal: str, candidate: Any, reason: str) -> Attempt:
    """Record a proposal, shortened; it may be anything."""
    text = candidate.text if isinstance(candidate, Candidate) else repr(candidate)
    text = str(text)[: SHOWN + 1]
    shown = text if len(text) <= SHOWN else text[:SHOWN] + "..."
    return Attempt(prover.name, goal, shown, not reason, reason)


def _failure(prover: Prover, proposed: Proposed, reasons: list[str]) -> Proposed:
    """Say why nothing of a prover was accepted."""
    if any(reason.startswith(("not judged", "the judge: not finished")) for reason in reasons):
        return Proposed((), f"{prover.name}: the judge's budget is spent", "timeout")
    if reasons:
        first = f"0 of {len(reasons)} proposals accepted ({reasons[0]})"
        return Proposed((), f"{prover.name}: {first}")
    # A prover may say that it gave up, never that something is proved.
    known = ("open", "not hypergeometric", "timeout")
    status = proposed.status if proposed.status in known else "open"
    return Proposed((), str(proposed.why_none)[:500] or f"{prover.name}: no proposal", status)


def _judged(
    identity: Identity, candidate: Candidate, worker: Worker, budget_s: float
) -> tuple[str, AnyCertificate | None]:
    """Return why a candidate is refused, or "" and the certificate that the judge accepts."""
    started = time.monotonic()
    try:
        if candidate.kind == "certificate":
            certificate: AnyCertificate | None = certificate_from_json(candidate.text)
        else:
            certificate = _answer(identity, candidate.text, worker, budget_s)
        left = max(0.1, budget_s - (time.monotonic() - started))
        report = worker.verify(certificate, identity, budget_s=left)
    except _Refused as refused:
        return refused.report.reason, None
    except (BadCertificate, BadStatement, NotCFinite) as error:
        return str(error)[:500], None
    except Stopped as stopped:
        return f"the judge: {stopped}", None
    return (report.reason[:500], None) if not report.accepted else ("", certificate)


def unreadable(candidate: Any, kinds: Sequence[str]) -> str:
    """Say why a candidate isn't even looked at; "" if it is."""
    if not isinstance(candidate, Candidate) or not isinstance(candidate.text, str):
        return f"not a Candidate with a text but {type(candidate).__name__}"
    if candidate.kind not in kinds:
        return f"a candidate of kind {str(candidate.kind)[:40]!r}, wanted {' or '.join(kinds)}"
    if len(candidate.text) > MAX_TEXT:
        return f"a text of {len(candidate.text)} characters, at most {MAX_TEXT} are read"
    return ""


class _Refused(Exception):
    def __init__(self, report: Report) -> None:
        super().__init__(report.reason)
        self.report = report


def _answer(identity: Identity, text: str, worker: Worker, budget_s: float) -> AnyCertificate:
    """Complete an answer to a certificate, which is then judged like any other.

    Raises:
        _Refused: If the answer says nothing that a certificate can be made of.
        NotCFinite: If it names a template that doesn't fit.
        Stopped: If that takes too long.
    """
    line = unfenced(text)
    if named := _CFINITE.fullmatch(line):
        if named[1] is None:
            return worker.find_cfinite(identity, budget_s=budget_s)
        variable = identity.vars[0] if identity.vars else ""
        return CFiniteCertificate(identity, variable, int(named[1]), int(named[2]), (), "a model")
    report, certificate = worker.complete(identity, line, budget_s=budget_s)
    if certificate is None:
        raise _Refused(report)
    return certificate
