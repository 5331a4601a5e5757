"""What one boot's console says: markers of our own, the reproducer's transcript, the crash.

The machine that prints the console runs a patched kernel and a reproducer, so each marker carries
a nonce that is new in each boot: text from an earlier boot or from a patch can't stand for it.
"""

from __future__ import annotations

import re
import secrets
from typing import NamedTuple

from icml.core.errors import UserError
from icml.kenv.models import CrashReport
from icml.kenv.report import parse_report

_NONCE = re.compile(r"[0-9a-f]{16,64}")
_STAMP = re.compile(r"(?:<[0-9]{1,3}>)?\[ {0,9}[0-9]{1,8}\.[0-9]{6}\]", re.ASCII)
_REPRODUCER = "repro: "
_MOST_LINES = 10_000  # of a transcript: a reproducer may print for ever


class Markers(NamedTuple):
    """The lines that the guest's first program prints."""

    boot: str
    """Before the reproducer starts."""
    exit: str
    """After it ended, followed by a blank and its exit status."""
    done: str
    """A second later, when whatever it left behind had time to crash."""


class Reading(NamedTuple):
    """What a console says of its boot."""

    booted: bool
    finished: bool
    exit: int | None
    """The reproducer's exit status; None where it didn't end."""
    transcript: list[str] | None
    """What the reproducer printed of its calls; None where the kernel did not boot."""
    crash: CrashReport | None
    """The first crash after the boot marker, or of the whole console where there is none."""


def new_nonce() -> str:
    """Return 32 hexadecimal digits that nobody can guess."""
    return secrets.token_hex(16)


def markers(nonce: str) -> Markers:
    """Return the markers of one boot.

    Raises:
        UserError: If the nonce is not of 16 to 64 hexadecimal digits.

    Example:
        >>> markers("0123456789abcdef").done
        'KENV_DONE 0123456789abcdef'
    """
    if _NONCE.fullmatch(nonce) is None:
        raise UserError(f"a nonce has 16 to 64 hexadecimal digits, got {nonce[:80]!r}")
    names = ("KENV_BOOT_OK", "KENV_REPRO_EXIT", "KENV_DONE")
    return Markers(*(f"{name} {nonce}" for name in names))


def read_console(console: str, nonce: str) -> Reading:
    """Read one boot's console.

    Markers count in their order only. The kernel may print within a program's line: its text is
    taken out before lines are compared.

    Args:
        console: What the machine printed.
        nonce: Of this boot.
    """
    mark = markers(nonce)
    reports = parse_report(console)
    lines = console.split("\n")
    boot = _marker_line(lines, mark.boot)
    if boot is None:
        return Reading(False, False, None, None, reports[0] if reports else None)
    crash = next((report for report in reports if report.end > boot + 1), None)
    spoken = _programs_lines(lines[boot : boot + 20 * _MOST_LINES])
    status = finished = None
    transcript: list[str] = []
    for line in spoken:
        if status is None and line.startswith(f"{mark.exit} "):
            status = line.removeprefix(f"{mark.exit} ")
        elif status is not None and line == mark.done:
            finished = True
        elif status is None and line.startswith(_REPRODUCER) and len(transcript) < _MOST_LINES:
            transcript.append(line.removeprefix(_REPRODUCER))
    known = status if status is not None and re.fullmatch(r"[0-9]{1,3}", status) else None
    return Reading(True, bool(finished), int(known) if known else None, transcript, crash)


def _marker_line(lines: list[str], marker: str) -> int | None:
    for index, line in enumerate(lines):
        if marker in line and marker in _programs_lines([line]):
            return index
    return None


def _programs_lines(lines: list[str]) -> list[str]:
    """Return what programs printed, without the kernel's stamped lines and parts of lines."""
    spoken = []
    pending = ""
    for raw in lines:
        line = raw.rstrip("\r")
        stamp = _STAMP.search(line)
        if stamp is not None:
            pending += line[: stamp.start()]
            continue
        spoken.append(pending + line)
        pending = ""
    return [*spoken, pending] if pending else spoken
