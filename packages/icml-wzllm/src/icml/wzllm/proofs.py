"""From a statement to a verdict: refuted, certified, proved in the kernel, or why not."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import StrEnum
from math import isfinite
from typing import TYPE_CHECKING, Literal

from icml.wzllm.certificate import Certificate
from icml.wzllm.certify import MAX_ORDER
from icml.wzllm.cfinite_certificate import CFiniteCertificate
from icml.wzllm.finite import Counterexample, FiniteCheck, check_small_values
from icml.wzllm.statement import BadStatement, Identity
from icml.wzllm.worker import Stopped, Worker

if TYPE_CHECKING:
    from icml.wzllm.kernel import Kernel, Verdict
    from icml.wzllm.lean.printer import LeanProof
    from icml.wzllm.lean.sketch import SubGoal
    from icml.wzllm.provers.protocol import Attempt, Prover

__all__ = ["Proof", "Status", "Tier", "prove"]

Tier = Literal["finite", "certificate", "kernel"]


class Status(StrEnum):
    """What became of a statement."""

    PROVED = "proved"
    """Accepted by a Lean kernel."""
    CERTIFIED = "certified"
    """Proved by a certificate that the judge accepts."""
    OPEN = "open"
    """Neither proved nor refuted; the detail names the obligation that is left."""
    FALSE_STATEMENT = "false"
    """Refuted by a counterexample."""
    NOT_HYPERGEOMETRIC = "not hypergeometric"
    """Outside of the class that the method decides; the detail names the part."""
    TIMEOUT = "timeout"
    """The budget ran out; ``reached`` says after which tier."""
    BAD_STATEMENT = "bad statement"
    """Not a statement of the language (:func:`prove` raises BadStatement, a list goes on)."""


@dataclass(frozen=True)
class Proof:
    """The verdict on a statement and what backs it."""

    status: Status
    identity: Identity
    detail: str = ""
    """Why it isn't proved, or what the status leaves out; "" if nothing is left to say."""
    certificate: Certificate | None = None
    counterexample: Counterexample | None = None
    reached: str = "finite"
    """The last tier that was completed: finite, certificate or kernel."""
    checked_upto: int = -1
    """Every point whose values add up to this or less was compared exactly."""
    points: int = 0
    """Points that were compared."""
    seconds: float = 0.0
    lean: str | None = None
    """The proof's text for the kernel, where one was printed."""
    printed: LeanProof | None = None
    """The same with its statement, and how that was restated."""
    verdict: Verdict | None = None
    """What the kernel said of it."""
    template: str = ""
    """How it was certified: ``wz`` by creative telescoping, ``c-finite`` by a bounded induction."""
    induction: CFiniteCertificate | None = None
    """The certificate of the template ``c-finite``."""
    prover: str = ""
    """Whose proposal was accepted, where provers were asked."""
    attempts: tuple[Attempt, ...] = ()
    """What was proposed, in order, and why it was refused."""
    open_goals: tuple[SubGoal, ...] = ()
    """Obligations that the kernel's proof lacks, where the printer could name them."""


def prove(
    identity: Identity | str,
    *,
    prover: Prover | None = None,
    tier: Tier = "certificate",
    max_order: int = MAX_ORDER,
    check_upto: int = 12,
    budget_s: float = 30.0,
    kernel: Kernel | None = None,
    worker: Worker | None = None,
    proposals: int = 8,
    seed: int = 0,
) -> Proof:
    """Try to refute a statement at small values, then to certify it, then to have it checked.

    The search runs in a child process, which is ended when the budget is spent.

    Args:
        identity: The statement, or its text.
        prover: Proposes certificates, and terms for obligations that the printer can't prove; see
            :mod:`icml.wzllm.provers`. What it says is judged here, never believed. The search for
            a recurrence and R alone if None.
        tier: How far to go. ``finite`` compares small values; ``certificate`` (the default) looks
            for a recurrence and R, and has the judge check them; ``kernel`` prints the proof and
            has a Lean kernel check that.
        max_order: Highest order of a recurrence, 0 or more.
        check_upto: Points whose values add up to this are compared.
        budget_s: Seconds for the search, and again for the kernel.
        kernel: Judges the proof; the one of the wheel (``icml-wzllm[kernel]``) if None.
        worker: A running child process for many statements; one for this call if None.
        proposals: How many of a prover's proposals for one goal are looked at.
        seed: For the prover.

    Raises:
        BadStatement: If the text isn't a statement, or has no value at any small point.

    Example:
        >>> prove("sum(k,0,n,binomial(n,k)) = 2^n").status
        <Status.CERTIFIED: 'certified'>
        >>> str(prove("sum(k,0,n,binomial(n,k)) = 2^n+n").counterexample)
        'at n = 1 the left side is 2, the right side 3'
    """
    start = time.perf_counter()
    if isinstance(identity, str):
        identity = Identity.parse(identity)
    if proposals < 1:
        raise ValueError(f"proposals must be 1 or more, got {proposals}")
    if max_order < 0 or check_upto < 0 or not (budget_s > 0 and isfinite(budget_s)):
        raise ValueError(
            f"max_order and check_upto must be 0 or more and budget_s positive and finite, "
            f"got {max_order}, {check_upto} and {budget_s}"
        )
    checked = check_small_values(identity, check_upto)
    proof = _after_finite(identity, checked)
    if proof.status is Status.OPEN and tier != "finite":
        with ExitStack() as stack:
            at_hand = worker or stack.enter_context(Worker())
            if prover is None:
                proof = _searched(proof, at_hand, max_order, budget_s)
            else:
                from icml.wzllm.provers.proving import certified

                proof = certified(proof, prover, at_hand, n=proposals, seed=seed, budget_s=budget_s)
            if proof.status is Status.CERTIFIED and tier == "kernel":
                from icml.wzllm.formal import checked_by_kernel

                proof = checked_by_kernel(proof, at_hand, kernel, max_order, budget_s)
                if prover is not None and proof.status is Status.CERTIFIED and proof.lean is None:
                    from icml.wzllm.provers.proving import completed

                    proof = completed(
                        proof, prover, kernel, n=proposals, seed=seed, budget_s=budget_s
                    )
    return replace(proof, seconds=time.perf_counter() - start)


def _after_finite(identity: Identity, checked: FiniteCheck) -> Proof:
    """Turn the finite check into a verdict; open where it decides nothing."""
    if checked.points == 0:
        why = checked.stopped or f"none of {checked.undefined} small points gives both sides values"
        raise BadStatement(f"nothing to check: {why}")
    proof = Proof(
        Status.OPEN,
        identity,
        f"{checked.points} points compared, which proves nothing",
        checked_upto=checked.upto,
        points=checked.points,
    )
    if checked.counterexample is not None:
        return replace(
            proof, status=Status.FALSE_STATEMENT, detail="", counterexample=checked.counterexample
        )
    if not identity.vars:
        detail = "no variables: both sides are the same number"
        return replace(proof, status=Status.CERTIFIED, detail=detail)
    return proof


def _searched(proof: Proof, worker: Worker, max_order: int, budget_s: float) -> Proof:
    try:
        outcome = worker.certify(proof.identity, max_order=max_order, budget_s=budget_s)
    except Stopped as stopped:
        return replace(proof, status=Status.TIMEOUT, detail=f"the search: {stopped}")
    return replace(
        proof,
        status=Status(outcome.status),
        detail=outcome.detail,
        certificate=outcome.certificate,
        template="" if outcome.certificate is None else "wz",
        reached="certificate",
    )
