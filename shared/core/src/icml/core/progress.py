"""Progress of a long loop on stderr: a bar on a terminal, a plain line now and then in a pipe."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TypeVar

PLAIN_SECONDS = 10.0

Item = TypeVar("Item")

_shown = threading.Lock()  # one bar at a time: only the outermost of nested loops is shown


def track(items: Iterable[Item], *, total: int | None = None, desc: str = "") -> Iterator[Item]:
    """Yield the items and show how many are done; ``total`` is taken from their length if None."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    with meter(total, desc) as advance:
        for item in items:
            yield item
            advance()


@contextmanager
def meter(total: int | None, desc: str, *, done: int = 0) -> Generator[Callable[[], None]]:
    """Show progress while the block runs; call what it yields after each item.

    Args:
        total: Number of items, where it is known.
        desc: What is counted.
        done: Items that were finished before.
    """
    if not _shown.acquire(blocking=False):
        yield lambda: None
        return
    try:
        with (_bar if sys.stderr.isatty() else _lines)(total, desc, done) as advance:
            yield advance
    finally:
        _shown.release()


@contextmanager
def _bar(total: int | None, desc: str, done: int) -> Generator[Callable[[], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeElapsedColumn as Elapsed
    from rich.progress import TimeRemainingColumn as Remaining

    text = TextColumn("{task.description}", markup=False)
    columns = (text, BarColumn(), MofNCompleteColumn(), Elapsed(), TextColumn("left"), Remaining())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(desc, total=total, completed=done)
        yield lambda: progress.advance(task)


@contextmanager
def _lines(total: int | None, desc: str, done: int) -> Generator[Callable[[], None]]:
    lines = _Lines(total, desc, done)
    thread = threading.Thread(target=lines.repeat, name="progress", daemon=True)
    thread.start()
    try:
        yield lines.advance
    finally:
        lines.stopped.set()
        thread.join()


class _Lines:
    """Prints a line every PLAIN_SECONDS, so a short loop prints nothing."""

    def __init__(self, total: int | None, desc: str, done: int) -> None:
        self.stopped = threading.Event()
        self._total, self._desc, self._done, self._before = total, desc, done, done
        self._start = time.monotonic()

    def advance(self) -> None:
        self._done += 1

    def repeat(self) -> None:
        while not self.stopped.wait(PLAIN_SECONDS):
            print(self._line(time.monotonic() - self._start), file=sys.stderr, flush=True)

    def _line(self, seconds: float) -> str:
        text = f"{self._desc}: " if self._desc else ""
        text += str(self._done) + ("" if self._total is None else f" of {self._total}")
        text += f" after {seconds:.0f} s"
        new = self._done - self._before
        if self._total is not None and 0 < self._done < self._total and new:
            text += f", about {seconds / new * (self._total - self._done):.0f} s left"
        return text
