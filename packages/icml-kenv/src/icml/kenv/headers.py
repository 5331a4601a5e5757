"""The lines by which a kernel announces a crash, and the titles that they get.

Titles follow the conventions of syzkaller, so that they can be compared with those on syzbot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Blame = Literal["text", "pointer", "call", "lock", "none"]
"""Where the function of a title is looked for first: in the line itself, at the instruction
pointer, in the call trace, where a lock was wanted, or nowhere."""


@dataclass(frozen=True)
class Header:
    """One way to announce a crash."""

    pattern: re.Pattern[str]
    kind: str
    title: str
    """With the pattern's groups and ``{access}`` filled in; `` in FUNCTION`` is added to it."""
    alt: str | None = None
    """The title that all bugs of this sort share."""
    blame: Blame = "call"


_F = r"(?P<func>[A-Za-z_][\w.$]*)"
_AT = rf"{_F}(?:\+0x[0-9a-f]+/0x[0-9a-f]+)?"
_BAD, _FREE, _STALL = "bad-access", "invalid-free", "stall"


def _header(
    pattern: str, kind: str, title: str, alt: str | None = None, *, blame: Blame = "call"
) -> Header:
    return Header(re.compile(pattern, re.ASCII), kind, title, alt, blame)


HEADERS: tuple[Header, ...] = (
    _header(
        rf"BUG: KASAN: (?:double-free or )?invalid-free in {_AT}",
        "KASAN",
        "KASAN: invalid-free",
        _FREE,
        blame="text",
    ),
    _header(
        rf"BUG: KASAN: double-free in {_AT}", "KASAN", "KASAN: double-free", _FREE, blame="text"
    ),
    _header(
        rf"BUG: KASAN: (?P<class>[\w-]+(?: [\w-]+)?) in {_AT}",
        "KASAN",
        "KASAN: {class}{access}",
        _BAD,
        blame="text",
    ),
    _header(
        rf"BUG: KMSAN: (?P<class>[\w-]+) in {_AT}", "KMSAN", "KMSAN: {class}", _BAD, blame="text"
    ),
    _header(
        rf"BUG: KFENCE: (?P<class>[\w-]+(?: [\w-]+){{0,3}}?) in {_AT}",
        "KFENCE",
        "KFENCE: {class}",
        blame="text",
    ),
    _header(
        rf"BUG: KCSAN: (?P<class>[\w-]+) in {_AT}(?: / (?P<other>[A-Za-z_][\w.$]*))?",
        "KCSAN",
        "KCSAN: {class}",
        blame="text",
    ),
    _header(
        r"(?:BUG: )?[Uu]nable to handle (?:kernel )?NULL pointer dereference"
        r"|BUG: kernel NULL pointer dereference",
        "NULL pointer dereference",
        "BUG: unable to handle kernel NULL pointer dereference",
        _BAD,
        blame="pointer",
    ),
    _header(
        r"(?:BUG: )?[Uu]nable to handle (?:kernel )?(?:paging request|page fault)",
        "paging request",
        "BUG: unable to handle kernel paging request",
        _BAD,
        blame="pointer",
    ),
    _header(
        r"(?:Oops: )?general protection fault\b",
        "general protection fault",
        "general protection fault",
        _BAD,
        blame="pointer",
    ),
    _header(r"kernel BUG at [^\s:]+:[0-9]+!", "BUG", "kernel BUG", blame="pointer"),
    _header(rf"BUG: failure at [^\s:]+:[0-9]+/{_F}\(\)!", "BUG", "kernel BUG", blame="text"),
    _header(
        r"WARNING: possible (?:circular locking dependency|recursive locking|irq lock inversion"
        r" dependency|bad locking order)|INFO: possible (?:circular locking dependency|recursive"
        r" locking|irq lock inversion dependency)|WARNING: [A-Z-]+-safe -> [A-Z-]+-unsafe lock"
        r" order detected",
        "deadlock",
        "possible deadlock",
        blame="lock",
    ),
    _header(
        r"(?:WARNING|INFO): inconsistent lock state",
        "deadlock",
        "inconsistent lock state",
        blame="lock",
    ),
    _header(
        r"WARNING: (?P<class>suspicious RCU usage|bad unlock balance detected"
        r"|lock held when returning to user space)",
        "WARNING",
        "WARNING: {class}",
    ),
    _header(
        rf"WARNING: (?:CPU: [0-9]+ PID: [0-9]+ )?at (?P<file>[^\s:]+):[0-9]+(?: {_AT})?"
        rf"|WARNING: (?P<newfile>[^\s:]+):[0-9]+ at (?P<newfunc>[A-Za-z_][\w.$]*)\+0x",
        "WARNING",
        "WARNING",
        blame="text",
    ),
    _header(
        r"INFO: task .{1,40} blocked (?:in I/O wait )?for more than", "hang", "INFO: task hung"
    ),
    _header(
        r"(?:rcu: )?INFO: rcu_\w+ (?:self-)?detected (?:expedited )?stalls?\b",
        "stall",
        "INFO: rcu detected stall",
        _STALL,
        blame="pointer",
    ),
    _header(
        r"(?:watchdog: )?BUG: soft lockup\b",
        "stall",
        "BUG: soft lockup",
        _STALL,
        blame="pointer",
    ),
    _header(
        r"BUG: sleeping function called from invalid context",
        "sleeping function",
        "BUG: sleeping function called from invalid context",
    ),
    _header(r"BUG: memory leak", "leak", "memory leak"),
    _header(r"UBSAN: (?P<class>[\w-]+(?: [\w-]+)?) in ", "UBSAN", "UBSAN: {class}"),
    _header(
        r"(?:Oops: )?(?P<class>divide error|invalid opcode|stack segment|int3|double fault"
        r"|alignment check|bounds|control protection fault)\b: ?(?:[0-9a-f]{4}\b|[a-z ]*\[#)",
        "trap",
        "{class}",
        blame="pointer",
    ),
    _header(r"BUG: (?P<class>Bad page \w+|Bad rss-counter state)", "BUG", "BUG: {class}"),
    _header(
        r"BUG: (?P<class>[A-Za-z][^:(\[]{2,80}?)(?: - | ?[:(\[]|$)",
        "BUG",
        "BUG: {class}",
        blame="pointer",
    ),
    _header(
        r"Kernel panic - not syncing: (?P<class>.{1,200})",
        "panic",
        "kernel panic: {class}",
        blame="none",
    ),
    _header(
        r"(?P<class>lost connection to test machine|no output from test machine)",
        "host",
        "{class}",
        blame="none",
    ),
)

PROBE = re.compile(
    r"BUG: |Unable to handle|general protection fault|kernel BUG at |WARNING: |INFO: |UBSAN: "
    r"|divide error|invalid opcode|stack segment|int3|double fault|alignment check|bounds"
    r"|control protection fault|Kernel panic - not|lost connection to|no output from test"
)
"""What any header has in it: most lines of a console have none of it."""

CONSEQUENCE = re.compile(
    r"Kernel panic - not syncing: (?:Fatal exception|BUG!|Aiee|Oops|.{0,30}panic_on_"
    r"|Attempted to kill (?:init|the idle)|softlockup:|hung_task:|RCU [Ss]tall|Fatal hardware"
    r"|stack-protector|UBSAN:|KASAN:|kmsan)"
)
"""Panics that only say that an earlier report was fatal."""


def find_header(line: str) -> tuple[Header, re.Match[str]] | None:
    """Return the header that a line without its time stamp is, and the match."""
    for header in HEADERS:
        if found := header.pattern.match(line):
            return header, found
    return None
