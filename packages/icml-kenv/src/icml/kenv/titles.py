"""One spelling for the titles of crashes, so that equal crashes get equal titles."""

from __future__ import annotations

import re

TITLE_LENGTH = 120
"""Characters that a title keeps (syzkaller's limit)."""

_STEPS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.ASCII), text)
    for pattern, text in (
        (r"\bsyz-executor[a-z0-9.-]*(?:[/:][0-9]+)?", "syz-executor"),
        (r"\bsyzkaller[0-9]+", "syzkaller"),
        (r"(?<![A-Za-z0-9_])(?:0x|(?=[a-f]*[0-9])|(?=[a-f]{8}))[0-9a-f]{6,}(?!\w)", "ADDR"),
        (r"(?<![0-9.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9.])", "IP"),
        (r"(\.[chS]):[0-9]+(?::[0-9]+)?", r"\1:LINE"),
        (r"\+0x[0-9a-fA-F]+/0x[0-9a-fA-F]+", ""),
        (r"\bCPU#[0-9]+", "CPU"),
        (r"(?<!\w)(?<!signal )[0-9]+(?!\w)", "NUM"),  # signal 8 is another crash than signal 11
        (r"[0-9]{7,}", "NUM"),
    )
)


def _once(title: str) -> str:
    for pattern, text in _STEPS:
        title = pattern.sub(text, title)
    printable = "".join(" " if c.isspace() else c for c in title if c.isspace() or c.isprintable())
    return " ".join(printable.split())[:TITLE_LENGTH].strip()


def normalise_title(title: str) -> str:
    """Replace what differs from run to run (addresses, numbers, names) and tidy the blanks.

    The chain is repeated until nothing changes, so a normalised title stays as it is.

    Example:
        >>> normalise_title("WARNING: CPU#3 at net/kcm/kcmsock.c:634 kcm_write_msgs+0x4be/0x640")
        'WARNING: CPU at net/kcm/kcmsock.c:LINE kcm_write_msgs'
    """
    title = title[: 16 * TITLE_LENGTH]  # bounds the work on a hostile line
    while (simpler := _once(title)) != title:
        title = simpler
    return title
