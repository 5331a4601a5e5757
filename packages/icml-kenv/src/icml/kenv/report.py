"""Read the crashes on a kernel's console: x86 and User-Mode Linux, with or without time stamps.

A console is hostile input: a patched kernel wrote it. Lines are cut, every pattern is anchored
to a line, and the time grows with the length of the console and not faster.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from icml.kenv.frames import (
    guilty,
    instruction_pointer,
    is_helper,
    parse_frame,
    parse_stack,
    plain_name,
    trace_starts,
)
from icml.kenv.headers import CONSEQUENCE, PROBE, Header, find_header
from icml.kenv.models import CrashReport, Frame
from icml.kenv.titles import normalise_title

MOST_REPORTS = 64
"""Reports of one console: the first one tells, and a kernel may print millions."""

_LINE, _BODY = 2048, 1000  # characters of a line, lines of a report; the kernel's own are shorter
_STAMP = re.compile(r"(?:<[0-9]{1,3}>)?\[ *[0-9]{1,8}\.[0-9]{6}\](?:\[ *[TC][0-9]+\])? ?", re.ASCII)
_TASK = re.compile(
    r"\bPID: (?P<pid>[0-9]+) Comm: (?P<comm>.{1,16}?) (?:Not tainted|Tainted:|[0-9])"
)
_ACCESS = re.compile(
    r"(?P<access>Read|Write|read|write) (?:to \S+ )?of (?:size (?P<size>[0-9]+)|[0-9]+ bytes)?"
    r"(?:.{0,60}? by task (?P<comm>.{1,16})/(?P<pid>[0-9]+))?"
)
_LOCK = re.compile(r".{0,400}?\bat: (?P<frame>[A-Za-z_][\w.$]*\+0x[0-9a-f]+/0x[0-9a-f]+)", re.ASCII)
_OURS = ("repro: ", "KENV_")
_REFCOUNT = "refcount_warn_saturate"


@dataclass(frozen=True)
class _Start:
    line: int
    header: Header
    match: re.Match[str]


class _Console:
    """The lines of a console without carriage returns and time stamps."""

    def __init__(self, text: str) -> None:
        self.raw = text.split("\n")
        self.stamped = any(_STAMP.match(line) for line in self.raw[:400])

    def text(self, index: int) -> str:
        """Return one line, cut and without its stamp."""
        line = self.raw[index][:_LINE].rstrip("\r")
        if found := _STAMP.match(line):
            return line[found.end() :]
        return line

    def of_kernel(self, index: int) -> str | None:
        """Return what the kernel says in a line, None where a program speaks.

        A program's unfinished line may precede the kernel's text on the same line.
        """
        line = self.raw[index][:_LINE].rstrip("\r")
        if self.stamped:
            found = _STAMP.search(line)
            return line[found.end() :] if found else (line if _by_host(line) else None)
        return None if line.startswith(_OURS) else line

    def starts(self) -> Iterator[_Start]:
        """Yield the headers of reports in their order."""
        opcode_of_bug = -1
        for index, raw in enumerate(self.raw):
            if PROBE.search(raw[:_LINE]) is None or (line := self.of_kernel(index)) is None:
                continue
            found = find_header(line)
            if found is None:
                continue
            header, match = found
            if header.kind == "BUG":
                opcode_of_bug = index + 4
            elif index <= opcode_of_bug and line.removeprefix("Oops: ").startswith(
                "invalid opcode"
            ):
                continue  # how x86 carries out a BUG()
            yield _Start(index, header, match)


def _by_host(line: str) -> bool:
    return line in ("lost connection to test machine", "no output from test machine")


def parse_report(console: str) -> list[CrashReport]:
    r"""Return the crashes on a console, the first one first, `MOST_REPORTS` at most.

    A panic that only says that an earlier report was fatal sets that report's ``panicked`` and is
    no report of its own.

    Args:
        console: What the machine printed. Where the kernel stamps its lines with the time, only
            such lines can announce a crash: what a program prints is no report.

    Returns:
        A report for each crash; its lines are counted from 0.

    Example:
        >>> [found.title for found in parse_report("kernel BUG at fs/x.c:1!\nRIP: 0010:f+0x1/0x2")]
        ['kernel BUG in f']
    """
    lines = _Console(console)
    merged: list[tuple[_Start, bool]] = []
    last = len(lines.raw)
    for start in lines.starts():
        if merged and CONSEQUENCE.match(start.match.string):
            merged[-1] = (merged[-1][0], True)
        elif len(merged) == MOST_REPORTS:
            last = start.line
            break
        else:
            merged.append((start, False))
    ends = [*(start.line for start, _ in merged), last][1:]
    return [
        _read(lines, start, end, panicked)
        for (start, panicked), end in zip(merged, ends, strict=True)
    ]


def contains_crash(console: str) -> bool:
    """Say whether a console has any crash on it."""
    return next(_Console(console).starts(), None) is not None


def _read(lines: _Console, start: _Start, end: int, panicked: bool) -> CrashReport:
    first = _first_line(lines, start.line)
    body = [lines.text(index) for index in range(start.line, min(end, start.line + _BODY))]
    stop = next((i + 1 for i, line in enumerate(body) if "---[ end trace" in line), len(body))
    body = body[:stop]
    body[0] = start.match.string  # without what a program left on the line
    stacks, pointer = _stacks(body)
    access, size, comm, pid = _circumstances(body, start.header)
    frame = _blame(start, body, stacks.get("call", []), pointer)
    title = _title(start, frame, access)
    stop += start.line
    return CrashReport(
        title=normalise_title(title),
        alt_titles=[f"{start.header.alt} in {frame}"] if start.header.alt and frame else [],
        kind=title.split(":")[0].split(" in ")[0]
        if start.header.kind == "trap"
        else start.header.kind,
        corrupted=start.header.kind != "host" and not (frame or stacks.get("call")),
        access=access,
        access_size=size,
        comm=comm,
        pid=pid,
        stacks=stacks,
        panicked=panicked or start.header.kind == "panic",
        raw="\n".join(line[:_LINE].rstrip("\r") for line in lines.raw[first:stop]),
        start=first,
        end=stop,
    )


def _first_line(lines: _Console, index: int) -> int:
    """Return where a report begins: some have a rule above their header."""
    above = lines.text(index - 1) if index else ""
    return index - 1 if "[ cut here ]" in above or above.startswith("=====") else index


def _stacks(body: Sequence[str]) -> tuple[dict[str, list[Frame]], Frame | None]:
    stacks: dict[str, list[Frame]] = {}
    pointer = None
    for index, line in enumerate(body):
        name = _stack_name(line)
        if name and name not in stacks:
            stacks[name] = parse_stack(body[index + 1 : index + 1 + 300])
        elif pointer is None and "call" not in stacks:
            pointer = instruction_pointer(line)
    if not stacks.get("call"):
        stacks.pop("call", None)
    if pointer is not None:
        stacks["call"] = [pointer, *stacks.get("call", [])]
    return stacks, pointer


def _stack_name(line: str) -> str | None:
    if trace_starts(line):
        return "call"
    if line.startswith("Allocated by task"):
        return "alloc"
    return "free" if line.startswith("Freed by task") else None


def _circumstances(
    body: Sequence[str], header: Header
) -> tuple[Literal["Read", "Write"] | None, int | None, str | None, int | None]:
    access: Literal["Read", "Write"] | None = None
    size = comm = pid = None
    for line in body[:60]:
        if access is None and header.kind == "KASAN" and (found := _ACCESS.match(line)):
            access = "Read" if found["access"].lower() == "read" else "Write"
            size = int(found["size"][:9]) if found["size"] else None
            comm, pid = found["comm"], int(found["pid"][:9]) if found["pid"] else None
        if comm is None and (found := _TASK.search(line)):
            comm, pid = found["comm"], int(found["pid"][:9])
    return access, size, comm, pid


def _blame(
    start: _Start, body: Sequence[str], calls: Sequence[Frame], pointer: Frame | None
) -> str | None:
    """Return the function for the title: where the header says, else from the call trace."""
    where = start.header.blame
    if where == "none":
        return None
    found = None
    if where == "text":
        groups = start.match.groupdict()
        found = plain_name(groups.get("func") or groups.get("newfunc") or "")
    elif where == "pointer" and pointer is not None:
        found = pointer.func
    elif where == "lock":
        wanted = next((match for line in body[:40] if (match := _LOCK.match(line))), None)
        frame = parse_frame(wanted["frame"]) if wanted else None
        found = frame.func if frame else None
    if found and not is_helper(found):
        return found
    caller = guilty(calls)
    return caller.func if caller else found or None


def _title(start: _Start, frame: str | None, access: str | None) -> str:
    groups = {name: text or "" for name, text in start.match.groupdict().items()}
    if groups.get("func") == _REFCOUNT or groups.get("newfunc") == _REFCOUNT:
        return f"WARNING: refcount bug in {frame}"
    title = start.header.title.format(access=f" {access}" if access else "", **groups).strip()
    if start.header.kind == "KCSAN" and groups["other"]:
        return f"{title} in {' / '.join(sorted([plain_name(groups['func']), groups['other']]))}"
    return f"{title} in {frame}" if frame else title
