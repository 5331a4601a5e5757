"""Files of items, checked by a process of its own under limits: which are verified, and why not."""

from __future__ import annotations

import json
import math
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from icml.brokenmath.checker import READY
from icml.brokenmath.items import Item
from icml.core.errors import UserError
from icml.core.process import run_child

__all__ = ["BATCH", "Checked", "table", "validate"]

BATCH = 250
"""Items that one process checks (ours): a start costs half a second."""
MEMORY_MB = 512
"""Of a checking process (ours): an honest one takes 60."""


class Checked(NamedTuple):
    """What became of an item."""

    id: str
    kind: str
    flag: str
    """Empty if it is verified, else the kind of fault; see `icml.brokenmath.verified.verify`.
    ``same text`` and ``not checked`` come from here."""
    reason: str
    seconds: float


def validate(items: Sequence[Item], *, seconds: float = 60.0) -> list[Checked]:
    """Check items in processes that end at a limit; each item is told of, none is lost.

    Args:
        items: Of any source: nothing in them is executed.
        seconds: For a batch of `BATCH` items.

    Raises:
        UserError: If the limit is no positive number.
    """
    if not 0 < seconds < math.inf:
        raise UserError(f"seconds must be positive and finite, got {seconds}")
    found: list[Checked] = []
    for first in range(0, len(items), BATCH):
        found += _batch(items[first : first + BATCH], seconds)
    twice = [text for text, n in Counter(item.statement for item in items).items() if n > 1]
    return [
        one._replace(flag="same text", reason=f"{one.id}: its statement stands twice")
        if not one.flag and item.statement in twice
        else one
        for item, one in zip(items, found, strict=True)
    ]


def _batch(items: Sequence[Item], seconds: float) -> list[Checked]:
    """Check a batch; what the process didn't come to at its limit is tried without the culprit."""
    child = run_child(
        [sys.executable, "-P", "-m", "icml.brokenmath.checker"],
        timeout_s=seconds,
        memory_mb=MEMORY_MB,
        stdin="".join(item.model_dump_json() + "\n" for item in items),
        env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    ready, _, answers = child.stdout.partition("\n")
    if child.reason == "exit" and ready != READY:
        raise UserError(f"the checker does not start: {child.stderr.strip()[-300:]}")
    found = [
        Checked(item.id, item.kind, line["flag"], line["reason"], line["seconds"])
        for item, line in zip(items, _lines(answers), strict=False)
    ]
    if len(found) == len(items):
        return found
    culprit = items[len(found)]
    limits = {"timeout": f"{seconds:g} s", "memory": f"{MEMORY_MB} MiB"}
    limit = limits.get(child.reason)
    last = (child.stderr.strip().splitlines() or [f"exit {child.exit}"])[-1][-200:]
    why = f"the checker crashed: {last}" if limit is None else f"the checker came to {limit}"
    reason = f"{culprit.id}: {why}"
    found.append(Checked(culprit.id, culprit.kind, "not checked", reason, child.seconds))
    return found + (_batch(items[len(found) :], seconds) if len(found) < len(items) else [])


def _lines(text: str) -> Iterator[dict]:
    for line in text.splitlines():
        try:
            yield json.loads(line)
        except ValueError:  # cut off at the limit
            return


def table(checked: Sequence[Checked]) -> str:
    """Return the counts by kind, with what failed below, for a terminal."""
    kinds = {one.kind: _printable(one.kind)[:40] or "(none)" for one in checked}
    width = max((len(name) for name in kinds.values()), default=len("kind"))
    lines = [f"{'kind':<{width}}  items  verified  seconds"]
    for kind, name in sorted(kinds.items()):
        own = [one for one in checked if one.kind == kind]
        good = sum(not one.flag for one in own)
        spent = sum(one.seconds for one in own)
        lines.append(f"{name:<{width}}  {len(own):5}  {good:8}  {spent:7.2f}")
    bad = [one for one in checked if one.flag]
    lines.append(f"{len(checked) - len(bad)} of {len(checked)} items are verified")
    for flag, n in Counter(one.flag for one in bad).most_common():
        example = next(one for one in bad if one.flag == flag)
        lines.append(f"{flag}: {n}, for example {_printable(example.reason)}")
    return "\n".join(lines)


def _printable(text: str) -> str:
    """Write what would steer a terminal as an escape; an item's words are anybody's."""
    return "".join(mark if mark.isprintable() else ascii(mark)[1:-1] for mark in text)
