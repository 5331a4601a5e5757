"""From saved syzbot records to a benchmark's bugs; each bug that is dropped has its reason.

**Differs from the paper:** C reproducers do as well as syz ones, all crashes of a bug are looked
at and not the first alone, and no bug disappears without a reason.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from icml.core.errors import UserError
from icml.kenv.models import Record
from icml.kenv.syzbot import SyzBug, SyzCrash, SyzEntry, Unreadable, linked_text, read_folder

FilterReason = Literal[
    "unreadable",
    "not_saved",
    "duplicate",
    "bad_id",
    "neither_open_nor_fixed",
    "no_crashes",
    "no_reproducer",
    "no_config",
    "other_architecture",
    "no_report",
    "no_kernel_commit",
    "fix_commit_unknown",
    "link_refused",
]
"""Why a bug is not in the benchmark, the first that applies; of its crashes, the one that came
furthest."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ARCHITECTURE = "Linux/x86_64"
_CRASH_ORDER: tuple[FilterReason, ...] = (
    "link_refused",
    "no_reproducer",
    "no_config",
    "other_architecture",
    "no_report",
    "no_kernel_commit",
)


class CuratedBug(Record):
    """A bug of syzbot that can be evaluated where its kernel can be built."""

    id: str
    title: str
    status: Literal["open", "fixed"]
    reported: datetime | None = None
    fix_time: datetime | None = None
    fix_commits: list[str] = Field(default_factory=list)
    """Hashes; hidden from agents."""
    repo: str = ""
    base: str
    """Commit to build: the parent of the first fix (``<hash>~1``), else that of the crash."""
    compiler: str = ""
    syzkaller: str = ""
    """Commit of syzkaller, which syz reproducers need."""
    config: str
    report: str
    c_reproducer: str = ""
    syz_reproducer: str = ""
    repro_opts: str = ""
    extra: dict[str, object] = Field(default_factory=dict)
    """Keys of the record that we don't know."""


class Dropped(NamedTuple):
    """A bug that is not in the benchmark."""

    name: str
    """Its id, or the file that could not be read."""
    reason: FilterReason
    detail: str = ""


class Curated(NamedTuple):
    """What came of a folder."""

    kept: list[CuratedBug]
    dropped: list[Dropped]


class _Filtered(Exception):
    def __init__(self, reason: FilterReason, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason: FilterReason = reason
        self.detail = detail


def curate(folder: Path) -> Curated:
    """Filter the bugs of a folder of saved JSON.

    Raises:
        UserError: If there is no folder, nothing saved in it, or too much.
    """
    bugs, entries, failed = read_folder(folder)
    kept: dict[str, CuratedBug] = {}
    dropped = [Dropped(name, "unreadable", why) for name, why in failed.items()]
    seen: set[str] = set()
    for bug in bugs:
        try:
            if _ID.fullmatch(bug.id) is None:
                raise _Filtered("bad_id", bug.title[:120])
            if bug.id in seen:
                raise _Filtered("duplicate")
            seen.add(bug.id)
            kept[bug.id] = _keep(bug, folder)
        except _Filtered as why:
            dropped.append(Dropped(bug.id[:120] or "no id", why.reason, why.detail))
    dropped += _not_saved(entries, seen)
    return Curated([kept[name] for name in sorted(kept)], dropped)


def _not_saved(entries: Sequence[SyzEntry], seen: set[str]) -> list[Dropped]:
    """Return the lines of lists whose bug was not saved."""
    found = {}
    for entry in entries:
        match = re.search(r"(?:ext)?id=([A-Za-z0-9_-]{1,64})", entry.link)
        if match is None:
            found[entry.title[:120]] = Dropped(entry.title[:120], "not_saved", "no id in its link")
        elif match[1] not in seen:
            found[match[1]] = Dropped(match[1], "not_saved", entry.title[:120])
    return list(found.values())


def _keep(bug: SyzBug, folder: Path) -> CuratedBug:
    fixed = bool(bug.fix_commits) or bug.fix_time is not None
    status = bug.status.lower()
    if not fixed and (bug.close_time is not None or status.startswith(("invalid", "dup", "auto"))):
        raise _Filtered("neither_open_nor_fixed", bug.status[:120])
    if not bug.crashes:
        raise _Filtered("no_crashes")
    hashes = [commit.hash for commit in bug.fix_commits]
    if fixed and (not hashes or _COMMIT.fullmatch(hashes[0]) is None):
        raise _Filtered("fix_commit_unknown", (hashes or [""])[0][:60])
    furthest: _Filtered | None = None
    for crash in bug.crashes:
        try:
            return _record(bug, crash, hashes, folder)
        except _Filtered as why:
            rank = _CRASH_ORDER.index
            if furthest is None or rank(why.reason) > rank(furthest.reason):
                furthest = why
    assert furthest is not None
    raise furthest


def _record(bug: SyzBug, crash: SyzCrash, hashes: list[str], folder: Path) -> CuratedBug:
    def text(link: str) -> str:
        try:
            return (linked_text(folder, link) or "") if link else ""
        except Unreadable as error:
            raise _Filtered("link_refused", str(error)) from None

    c, syz = text(crash.c_reproducer), text(crash.syz_reproducer)
    if not c and not syz:
        saved = crash.c_reproducer or crash.syz_reproducer
        raise _Filtered("no_reproducer", "linked, not saved" if saved else "")
    config = text(crash.kernel_config)
    if not config:
        raise _Filtered("no_config", "linked, not saved" if crash.kernel_config else "")
    if _ARCHITECTURE not in config:
        raise _Filtered("other_architecture", crash.architecture[:60])
    report = text(crash.crash_report_link)
    if not report:
        raise _Filtered("no_report")
    if not hashes and _COMMIT.fullmatch(crash.kernel_source_commit) is None:
        raise _Filtered("no_kernel_commit", crash.kernel_source_commit[:60])
    return CuratedBug(
        id=bug.id,
        title=crash.title or bug.title,
        status="fixed" if hashes else "open",
        reported=bug.first_crash,
        fix_time=bug.fix_time or (bug.fix_commits[0].date if bug.fix_commits else None),
        fix_commits=hashes,
        repo=(bug.fix_commits[0].repo if bug.fix_commits else "") or crash.kernel_source_git,
        base=f"{hashes[0]}~1" if hashes else crash.kernel_source_commit,
        compiler=crash.compiler_description,
        syzkaller=crash.syzkaller_commit,
        config=config,
        report=report,
        c_reproducer=c,
        syz_reproducer=syz,
        repro_opts=crash.repro_opts,
        extra=dict(bug.model_extra or {}),
    )


def summary_lines(found: Curated) -> list[str]:
    """Return what was kept, and each dropped bug with its reason."""
    if not found.kept and not found.dropped:
        raise UserError("the lists in the folder are empty: there is no bug")
    return [
        *(f"kept     {bug.id:42} {bug.title}" for bug in found.kept),
        *(
            f"dropped  {bug.name:42} {bug.reason}" + (f": {bug.detail}" if bug.detail else "")
            for bug in found.dropped
        ),
        f"{len(found.kept)} kept, {len(found.dropped)} dropped",
    ]
