"""The sittings of a run: how long each took, how much memory, and with which code.

A run that is interrupted and continued has several sittings. Each finished cell carries a mark of
its sitting, so a sitting that was killed counts up to its last finished cell.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, TypedDict

from icml.core.journal import Journal
from icml.core.provenance import Provenance, changes
from icml.core.summary import Timing

SAMPLE_SECONDS = 0.5
SAMPLING_SHARE = 0.02  # of one core's time, at most


class Mark(TypedDict):
    """How far a sitting had come."""

    sitting: int
    seconds: float
    memory_mb: float


class Sitting:
    """This process's part of a run, from :meth:`begin` to :meth:`end`."""

    def __init__(self, journal: Journal, number: int) -> None:
        """Start the clock of sitting ``number``, counted from 0."""
        self._journal = journal
        self._number = number
        self._start = time.monotonic()
        self._memory = MemoryPeak()

    @classmethod
    def begin(cls, journal: Journal, made_with: Provenance) -> Sitting:
        """Journal what this sitting computes with and start its clock."""
        number = sum("started" in record for record in journal.read())
        journal.append({"sitting": number, "started": now(), "made_with": made_with})
        return cls(journal, number)

    def mark(self) -> Mark:
        """Return the state of this sitting now."""
        seconds = round(time.monotonic() - self._start, 3)
        return Mark(sitting=self._number, seconds=seconds, memory_mb=self._memory.megabytes)

    def end(self) -> None:
        """Journal the last mark and stop watching the memory."""
        self._memory.stop()
        self._journal.append(dict(self.mark()))


def now() -> str:
    """Return the time as ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def timing(journal: Journal, marks: Iterable[dict[str, Any]]) -> Timing:
    """Add up the sittings.

    Args:
        journal: The sittings' own journal.
        marks: The marks of this sitting and of all finished cells.
    """
    records = journal.read()
    every = [*marks, *(record for record in records if "seconds" in record)]
    longest: dict[int, float] = {}
    for mark in every:
        longest[mark["sitting"]] = max(mark["seconds"], longest.get(mark["sitting"], 0.0))
    return Timing(
        started=next(record["started"] for record in records if "started" in record),
        finished=now(),
        wall_seconds=round(sum(longest.values()), 3),
        peak_memory_mb=max(mark["memory_mb"] for mark in every),
    )


def changes_between(journal: Journal, current: Provenance) -> list[str]:
    """Say what changed between sittings and since; empty where all used the same code."""
    made_with = [record["made_with"] for record in journal.read() if "made_with" in record]
    made_with.append(current)
    return [line for old, new in pairwise(made_with) for line in changes(old, new)]


class MemoryPeak:
    """Watches the memory of this process and its children until :meth:`stop`.

    On Linux it adds up proportional set sizes, which count a page that n processes share as 1/n
    in each: the sum is what the run occupies. Elsewhere it adds up resident sizes, which count a
    shared page n times: an upper bound. A peak between two samples (0.5 s or more) is missed.
    """

    def __init__(self) -> None:
        """Start to watch, in a thread."""
        self.megabytes = 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take a last sample and stop."""
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        pause = 0.0
        while not self._stopped.wait(pause):
            pause = self._sample()
        self._sample()

    def _sample(self) -> float:
        """Take one sample; return the seconds to wait so that sampling stays cheap."""
        start = time.thread_time()
        self.megabytes = max(self.megabytes, round(tree_memory() / 1e6, 1))
        return max(SAMPLE_SECONDS, (time.thread_time() - start) / SAMPLING_SHARE)


def tree_memory() -> int:
    """Return the bytes that this process and its children occupy now; see MemoryPeak."""
    import psutil

    total = 0
    this = psutil.Process()
    for process in [this, *this.children(recursive=True)]:
        try:
            full = process.memory_full_info()
            total += getattr(full, "pss", full.rss)
        except (psutil.Error, OSError):  # it ended meanwhile, or is another user's
            continue
    return total
