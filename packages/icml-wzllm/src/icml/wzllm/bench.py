"""Many statements in one go, resumed where it was interrupted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from icml.core.errors import UserError
from icml.core.journal import Journal
from icml.wzllm.identities import Item, read_item, suite
from icml.wzllm.proofs import Proof, Status, Tier, prove
from icml.wzllm.statement import BadStatement
from icml.wzllm.worker import Worker

__all__ = [
    "contradicts",
    "item_record",
    "proof_to_json",
    "read_items",
    "refuse_doubles",
    "run_bench",
]

ANSWERED = (Status.PROVED, Status.CERTIFIED, Status.FALSE_STATEMENT)


def read_items(path: Path | None) -> Iterator[Item | tuple[str, str]]:
    """Yield the items of a JSON Lines file, or (id, complaint) for a line that isn't one.

    Args:
        path: The file; the shipped suite if None.

    Raises:
        UserError: If the file can't be read.
    """
    if path is None:
        yield from suite()
        return
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} can't be read: {error}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield read_item(json.loads(line), line)
        except (ValueError, RecursionError) as error:
            yield f"line {number}", str(error)


def run_bench(
    items: Sequence[Item | tuple[str, str]],
    out: Path,
    *,
    tier: Tier = "certificate",
    budget_s: float = 30.0,
    tell: Callable[[dict[str, Any]], None] = lambda record: None,
) -> list[dict[str, Any]]:
    """Prove every item and append a line for each to ``out``; ids that are there are skipped.

    Args:
        items: What :func:`read_items` gave.
        out: JSON Lines file; a torn last line is dropped.
        tier: How far to go with each.
        budget_s: Seconds for each.
        tell: Is called with every new record.

    Returns:
        The records of all items, in their order.

    Raises:
        UserError: If two items have one id, or the file can't be written or is something else.
    """
    if out.is_dir():
        raise UserError(f"{out} is a folder; this tier writes a file: give another --out")
    ids = refuse_doubles(items)
    journal = Journal(out, needs=("id", "status", "tier"))
    found = {record["id"]: record for record in journal.read() if record["tier"] == tier}
    with Worker() as worker:
        for name, item in zip(ids, items, strict=True):
            if name not in found:
                found[name] = item_record(item, tier, budget_s, worker)[0]
                journal.append(found[name])
                tell(found[name])
    return [found[name] for name in ids]


def refuse_doubles(items: Sequence[Item | tuple[str, str]]) -> list[str]:
    """Return the items' ids.

    Raises:
        UserError: If two have the same.
    """
    ids = [item.id if isinstance(item, Item) else item[0] for item in items]
    twice = [name for name, count in Counter(ids).items() if count > 1]
    if twice:
        raise UserError(f"two identities have the id {twice[0]!r}")
    return ids


def item_record(
    item: Item | tuple[str, str], tier: Tier, budget_s: float, worker: Worker
) -> tuple[dict[str, Any], Proof | None]:
    """Prove one item.

    Returns:
        The verdict as JSON values, also of what is no statement, and the proof if it is one.
    """
    if isinstance(item, tuple):
        status = {"status": str(Status.BAD_STATEMENT), "detail": item[1]}
        return {"id": item[0], "tier": tier, "holds": None, **status}, None
    known = {"id": item.id, "tier": tier, "holds": item.holds}
    try:
        proof = prove(item.identity, tier=tier, budget_s=budget_s, worker=worker)
    except BadStatement as error:
        return {**known, "status": str(Status.BAD_STATEMENT), "detail": str(error)}, None
    return {**known, **proof_to_json(proof)}, proof


def proof_to_json(proof: Proof) -> dict[str, Any]:
    """Return a verdict as JSON values."""
    wrong, verdict = proof.counterexample, proof.verdict
    return {
        "status": str(proof.status),
        "statement": str(proof.identity),
        "detail": proof.detail,
        "reached": proof.reached,
        "checked_upto": proof.checked_upto,
        "points": proof.points,
        "seconds": round(proof.seconds, 6),
        "counterexample": wrong and {"values": wrong.values, "lhs": wrong.lhs, "rhs": wrong.rhs},
        "certificate": proof.certificate and json.loads(proof.certificate.to_json()),
        "kernel": verdict
        and {
            "accepted": verdict.accepted,
            "axioms": list(verdict.axioms),
            "messages": list(verdict.messages),
            "seconds": verdict.seconds,
            "max_rss_mb": verdict.max_rss_mb,
            "backend": verdict.backend,
        },
        "lean": proof.lean,
    }


def contradicts(record: dict[str, Any]) -> bool:
    """Say whether a record's status contradicts what is known of the identity.

    Example:
        >>> contradicts({"holds": False, "status": "certified"})
        True
    """
    if record["holds"] is None or record["status"] not in ANSWERED:
        return False
    return record["holds"] != (record["status"] != Status.FALSE_STATEMENT)
