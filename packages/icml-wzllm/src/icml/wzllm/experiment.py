"""What the experiment does with one identity; worker processes call it."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from icml.wzllm.bench import proof_to_json
from icml.wzllm.certificate import Certificate
from icml.wzllm.certify import certify
from icml.wzllm.identities import Item, suite
from icml.wzllm.proofs import prove
from icml.wzllm.verification import verify
from icml.wzllm.worker import Worker

__all__ = ["kernel_trials", "perturbed", "symbolic_trials"]


def symbolic_trials(ids: Sequence[str], *, budget_s: float, log: Any) -> list[dict[str, Any]]:
    """Prove some identities of the suite, and try to fool the judge with each.

    Args:
        ids: Which ones.
        budget_s: Seconds for each search.
        log: Receives the times.
    """
    items = {item.id: item for item in suite()}
    with Worker() as worker:
        return [_symbolic_trial(items[name], worker, budget_s, log) for name in ids]


def _symbolic_trial(item: Item, worker: Worker, budget_s: float, log: Any) -> dict[str, Any]:
    proof = prove(item.identity, budget_s=budget_s, worker=worker)
    log(0, arm="prove", seed=int(item.id[2:]), seconds=proof.seconds)
    record: dict[str, Any] = {"id": item.id, "name": item.identity.name, "holds": item.holds}
    record |= {**proof_to_json(proof), "verified": None, "forged": None, "unguarded": None}
    del record["seconds"]
    if proof.certificate is not None:
        start = time.perf_counter()
        again = Certificate.from_json(proof.certificate.to_json())
        record["verified"] = verify(again, item.identity).accepted
        log(0, arm="verify", seed=int(item.id[2:]), seconds=time.perf_counter() - start)
        record["forged"] = sum(verify(fake).accepted for fake in perturbed(proof.certificate))
    if item.holds is False:  # would the algebra alone be fooled?
        record["unguarded"] = certify(item.identity).status
    return record


def perturbed(certificate: Certificate) -> list[Certificate]:
    """Return wrong certificates: a coefficient, R or the boundary changed, a base case left out."""
    first, *rest = certificate.recurrence
    ratio = certificate.certificate
    forged = [
        replace(certificate, recurrence=(f"{first}+1", *rest)),
        replace(
            certificate,
            certificate=ratio._replace(num=f"{ratio.num}+{ratio.den}*{certificate.sum_var}"),
        ),
        replace(certificate, boundary=(*certificate.boundary, "1")),
    ]
    if certificate.base_cases:
        forged.append(replace(certificate, base_cases=certificate.base_cases[1:]))
    return forged


def kernel_trials(name: str, *, budget_s: float, log: Any) -> dict[str, Any]:
    """Have the wheel's kernel check one identity, then two forgeries of it.

    Args:
        name: The identity's id in the suite.
        budget_s: Seconds for each check.
        log: Receives seconds and memory.

    Returns:
        Among others ``accepted`` and ``forged``, the forgeries that the kernel accepted.
    """
    from icml.wzllm.kernel import WheelKernel

    item = next(item for item in suite() if item.id == name)
    kernel = WheelKernel()
    kernel.prepare()
    proof = prove(item.identity, tier="kernel", budget_s=budget_s, kernel=kernel)
    record: dict[str, Any] = {"id": name, "name": item.identity.name, "accepted": False}
    record |= {"printed": proof.lean is not None, "lean": proof.lean}
    record |= {"detail": proof.detail, "axioms": [], "forged": 0, "forgeries": 0}
    record |= {"statement": "", "verbatim": None}
    printed = proof.printed
    if proof.verdict is None or printed is None:
        return record
    record["accepted"] = proof.verdict.accepted
    record |= {"axioms": list(proof.verdict.axioms), "statement": printed.statement}
    record["verbatim"] = printed.verbatim
    memory = proof.verdict.max_rss_mb or 0.0
    log(0, arm="kernel", seed=int(name[2:]), seconds=proof.verdict.seconds, memory_mb=memory)
    if proof.verdict.accepted:
        forgeries = [
            (printed.text, FALSE_STATEMENT),
            (_with_wrong_certificate(printed.text, printed.theorem), printed.statement),
        ]
        verdicts = [
            kernel.check(text, printed.theorem, statement, budget_s)
            for text, statement in forgeries
        ]
        record["forgeries"] = len(verdicts)
        record["forged"] = sum(verdict.accepted for verdict in verdicts)
    return record


FALSE_STATEMENT = "(n : Nat) → Eq n (Nat.succ n)"
"""Swapped for the printed one: no proof may pass for this."""


def _with_wrong_certificate(text: str, theorem: str) -> str:
    """Return a printed proof in which 1 is added to the certificate's negative part or summand."""
    definition = re.compile(rf"^(noncomputable def {theorem}_D\b.*? => )(.*)$", re.MULTILINE)
    changed, count = definition.subn(r"\1(wAdd \2 (Whole.pos (Nat.succ Nat.zero)))", text)
    if count == 0:  # the wider class proves by ratios; there, the summand is forged
        definition = re.compile(rf"^(noncomputable def {theorem}_F\b.*? => )(.*)$", re.MULTILINE)
        changed, count = definition.subn(r"\1(wAdd \2 (Whole.pos (Nat.succ Nat.zero)))", text)
    if count != 1:
        raise ValueError(f"the printed proof defines what is to be forged {count} times")
    return changed
