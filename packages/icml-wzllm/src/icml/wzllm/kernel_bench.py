"""Many statements to the kernel tier: every accepted proof is a file, checked again from there.

The folder holds::

    identities.jsonl   the journal: what became of each identity, a line each
    proofs/<id>.lean   each proof that the kernel accepted
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from icml.core import progress
from icml.core.errors import UserError
from icml.core.journal import LOCK, Journal, cannot_write, lock_folder, remove_drafts
from icml.core.provenance import cores
from icml.core.workers import run_jobs
from icml.wzllm.bench import item_record, refuse_doubles
from icml.wzllm.identities import Item
from icml.wzllm.proof_file import ProofFile, write_proof
from icml.wzllm.proofs import Status
from icml.wzllm.recheck import recheck_in_new_process
from icml.wzllm.statement import Identity
from icml.wzllm.worker import Worker

__all__ = ["is_certified", "obligation", "outcome", "run_kernel_bench", "table"]

JOURNAL = "identities.jsonl"
PROOFS = "proofs"
NEEDS = ("id", "statement", "vars", "status", "budget_s", "file")

WORKERS = 2  # ours: a check takes up to 1 GB
MEMORY_MB = 1500  # ours, for each of them: Lean's limit and Python's own

_NONE: dict[str, Any] = {"axioms": ()}
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,60}")
_PREFIX = re.compile(
    r"(?:not printed for the kernel|restated for the kernel|the kernel): "
    r"(?:no printed proof of )?"
)


def run_kernel_bench(
    items: Sequence[Item | tuple[str, str]],
    folder: Path,
    *,
    budget_s: float = 60.0,
    tell: Callable[[dict[str, Any]], None] = lambda record: None,
) -> list[dict[str, Any]]:
    """Prove every item in the wheel's kernel, and check each accepted file in a new process.

    What the folder's journal has is not computed again, but where a file was refused, or changed
    since its re-check, that is repeated; where it is gone, or a larger budget is given to an
    identity that stayed open, everything is.

    Args:
        items: What :func:`icml.wzllm.bench.read_items` gave.
        folder: Where the journal and the files are or will be.
        budget_s: Seconds for each search, and for each check by the kernel.
        tell: Is called with every new record, as they finish.

    Returns:
        The records of all items, in their order.

    Raises:
        UserError: If two items have one id, another process has the folder, or it holds something
            else or can't be written.
        MissingExtra: If the kernel isn't installed.
    """
    from icml.wzllm.kernel import WheelKernel

    refuse_doubles(items)
    WheelKernel().prepare()  # once, before two workers want the compiled base
    lock = _claim(folder)
    try:
        journal = Journal(folder / JOURNAL, needs=NEEDS)
        known = {record["id"]: record for record in journal.read()}
        records: dict[int, dict[str, Any]] = {}
        jobs: dict[str, tuple[Any, ...]] = {}
        for i, item in enumerate(items):
            old = known.get(_key(item)[0])
            if old is not None and _key(item)[1:] != (old["statement"], *old["vars"]):
                old = None  # another identity under the same id
            if old is not None and _stands(old, folder, budget_s):
                records[i] = old
            else:
                jobs[f"{i}"] = (item, old if old and _is_there(old, folder) else None)
        work = partial(kernel_record, folder=folder.absolute(), budget_s=budget_s)
        outcomes = run_jobs(jobs, work, workers=_workers())
        with closing(outcomes), progress.meter(
            len(items), "identities", done=len(records)
        ) as advance:  # fmt: skip
            for found in outcomes:
                journal.append(found.value)
                records[int(found.key)] = found.value
                tell(found.value)
                advance()
        return [records[i] for i in range(len(items))]
    finally:
        lock.release()


def kernel_record(
    item: Item | tuple[str, str],
    old: dict[str, Any] | None,
    *,
    folder: Path,
    budget_s: float,
    log: Any,
) -> dict[str, Any]:
    """Do one item in a worker process; with an old record, only check its file again."""
    if old is not None and isinstance(item, Item):
        return {**old, **_rechecked(folder, old["file"], item.identity, budget_s)}
    name, statement, *variables = _key(item)
    with Worker() as worker:
        record, proof = item_record(item, "kernel", budget_s, worker)
    record.pop("lean", None)
    record |= {"statement": statement, "vars": variables, "budget_s": budget_s, "file": None}
    if proof is None or proof.printed is None or proof.status is not Status.PROVED:
        return record
    file, printed = f"{PROOFS}/{_file_name(name)}.lean", proof.printed
    said = ProofFile(proof.identity, printed.statement, printed.theorem, printed.text)
    write_proof(folder / file, said)
    again = _rechecked(folder, file, proof.identity, budget_s)
    return {**record, "file": file, **again}


def _rechecked(folder: Path, file: str, identity: Identity, budget_s: float) -> dict[str, Any]:
    digest = _digest(folder / file)
    found = recheck_in_new_process(folder / file, identity, budget_s=budget_s)
    return {"recheck": {**asdict(found), "sha256": digest}}


def _key(item: Item | tuple[str, str]) -> tuple[str, ...]:
    if isinstance(item, Item):
        return item.id, str(item.identity), *item.identity.vars
    return item


def _file_name(name: str) -> str:
    if _PLAIN.fullmatch(name):
        return name
    return f"statement-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _digest(file: Path) -> str | None:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return None


def _is_there(record: dict[str, Any], folder: Path) -> bool:
    return record["file"] is not None and (folder / record["file"]).exists()


def _stands(record: dict[str, Any], folder: Path, budget_s: float) -> bool:
    """Say whether a record of the journal is still all that there is to know."""
    if record["file"] is not None:
        again = record["recheck"]
        return again["accepted"] and _digest(folder / record["file"]) == again["sha256"]
    settled = record["status"] in ("false", "not hypergeometric", "bad statement")
    return settled or record["budget_s"] >= budget_s


def _claim(folder: Path) -> Any:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = lock_folder(folder)
    except OSError as error:
        raise cannot_write(folder, error) from error
    for entry in folder.iterdir():
        if entry.name not in (JOURNAL, PROOFS, LOCK) and not entry.name.endswith(".tmp"):
            lock.release()
            raise UserError(
                f"{folder} holds something else ({entry.name} is in it); use another --out folder"
            )
    remove_drafts(folder)
    return lock


def _workers() -> int:
    import psutil

    fit = psutil.virtual_memory().available // (MEMORY_MB * 2**20)
    return max(1, min(WORKERS, cores(), fit))


def is_certified(record: dict[str, Any]) -> bool:
    """Say whether the judge accepted a certificate, whatever the kernel said."""
    return bool(record.get("certificate")) or record["status"] in ("certified", "proved")


def obligation(detail: str) -> str:
    """Return what is missing, or how it was restated, from a proof's detail.

    Example:
        >>> obligation("not printed for the kernel: no printed proof of a recurrence of order 3")
        'a recurrence of order 3'
    """
    return detail.removeprefix(found[0]) if (found := _PREFIX.match(detail)) else detail


def outcome(record: dict[str, Any]) -> tuple[str, str]:
    """Return what became of a certified identity, and what there is to say of it.

    Args:
        record: Of :func:`run_kernel_bench`, certified.

    Returns:
        verbatim, restated, open or refused; and how it was restated, the obligation that is
        missing, or why its file was refused.
    """
    if record["file"] is None:
        return "open", obligation(record["detail"])
    again = record["recheck"]
    if not again["accepted"]:
        return "refused", again["why"]
    return ("restated" if again["rewritings"] else "verbatim"), "; ".join(again["rewritings"])


def table(records: Sequence[dict[str, Any]]) -> str:
    """Return the certified identities as a table, and the totals of all."""
    lines = [f"{'identity':<12} {'outcome':<9} {'re-checked':<11} {'s':>5} {'MB':>5}  said"]
    certified = [record for record in records if is_certified(record)]
    said = Counter[str]()
    for record in certified:
        word, detail = outcome(record)
        said[word] += 1
        numbers, again = f"{'':<11} {'':>5} {'':>5}", record.get("recheck")
        if again is not None:
            yes = "yes" if again["accepted"] else "REFUSED"
            numbers = f"{yes:<11} {again['seconds']:>5.1f} {again['max_rss_mb'] or 0:>5.0f}"
        lines.append(f"{record['id'][:12]:<12} {word:<9} {numbers}  {detail}".rstrip())
    accepted = said["verbatim"] + said["restated"]
    axioms = {name for record in certified for name in (record.get("recheck") or _NONE)["axioms"]}
    lines.append(
        f"the kernel accepts {accepted} of {len(certified)} certified identities: "
        f"{said['verbatim']} verbatim, {said['restated']} restated; {said['open']} open"
    )
    lines.append(
        f"re-checked from disk, each in a process of its own: {accepted} accepted, "
        f"{said['refused']} refused, axioms: {', '.join(sorted(axioms)) or 'none'}"
    )
    rest = Counter(record["status"] for record in records if not is_certified(record))
    if rest:
        lines.append("not certified: " + "  ".join(f"{name}: {n}" for name, n in rest.items()))
    return "\n".join(lines)
