"""Recorded consoles: no kernel, no compiler; every verdict from here is marked as recorded.

A folder of a bug's consoles holds one folder a patch, named by the patch's sha256 (``unpatched``
for none), with one console a boot and ``nonce.txt``. A patch that was never recorded is refused.
"""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Any

from icml.core.errors import UserError
from icml.kenv.bugs import BUGS, bug_ids
from icml.kenv.building import digest
from icml.kenv.console import read_console
from icml.kenv.models import Availability, Bug, BuildResult, Image, Patch, Reproducer, RunResult
from icml.kenv.protocol import Limits, Prepared

CONSOLES = "consoles"
UNPATCHED = "unpatched"


class ReplayBackend:
    """Answers from consoles that were recorded with another backend."""

    name = "replay"
    recorded = True
    verified = True

    def __init__(self, bugs: Path = BUGS) -> None:
        """Name the folder of the bugs, which has the consoles."""
        self._bugs = bugs
        self._turns: dict[str, Any] = {}

    def available(self) -> Availability:
        """Count the bugs that have consoles."""
        known = [bug for bug in bug_ids(self._bugs) if (self._bugs / bug / CONSOLES).is_dir()]
        if not known:
            return Availability(ok=False, reason=f"no consoles in {self._bugs}")
        return Availability(ok=True, reason=f"recorded consoles of {', '.join(known)}")

    def prepare(self, bug: Bug) -> Prepared:
        """Find the consoles.

        Raises:
            UserError: If the bug has none.
        """
        folder = self._bugs / bug.id / CONSOLES
        if not folder.is_dir():
            raise UserError(f"{bug.id} has no recorded consoles: use another backend")
        return Prepared(bug, folder, folder, digest("replay 1", bug.id), scope=(bug.directory,))

    def build(self, prepared: Prepared, patch: Patch | None, *, limits: Limits) -> BuildResult:
        """Find a patch's consoles.

        Raises:
            UserError: If the patch was never recorded.
        """
        name = UNPATCHED if patch is None or patch.empty else patch.sha256
        folder = prepared.work / name
        if not folder.is_dir():
            raise UserError(
                f"no consoles of this patch ({name[:12]}…) are recorded for {prepared.bug.id}: "
                "run it with another backend"
            )
        image = Image(key=digest(prepared.key, name), folder=folder)
        return BuildResult(ok=True, seconds=0.0, image=image, cache_hit=True)

    def run(self, image: Image, reproducer: Reproducer, *, limits: Limits) -> RunResult:
        """Read the next console; after the last one the first comes again."""
        if image.key not in self._turns:
            files = sorted(p for p in image.folder.glob("*.txt") if p.name != "nonce.txt")
            self._turns[image.key] = cycle(files)
        file = next(self._turns[image.key])
        nonces = (image.folder / "nonce.txt").read_text().split()
        text = file.read_bytes().decode(errors="replace")
        nonce = next((n for n in nonces if n in text), nonces[0])
        read = read_console(text, nonce)
        return RunResult(
            booted=read.booted,
            finished=read.finished,
            crash=read.crash,
            transcript=read.transcript,
            seconds=0.0,
            console=file,
            exit=read.exit,
            isolation="recorded",
        )
