"""Read bugs of a syzbot dashboard that somebody saved: JSON records and the files they link to.

All of it is text from strangers: sizes, depths and numbers of files are bounded, and a link leads
to a file of the same folder or nowhere. Nothing is fetched.

A folder holds, at any depth, lists (``Bugs`` or ``bugs``) and records of single bugs as
``*.json``. A link ``/text?tag=ReproC&x=1f`` is the file ``text?tag=ReproC&x=1f``, or
``text@tag=ReproC&x=1f`` where a system's file names hold no question mark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from icml.core.errors import UserError

MOST_FILES = 20_000
MOST_JSON = 16 * 2**20
"""Bytes of one record or list."""
MOST_TEXT = 4 * 2**20
"""Bytes of one linked file."""
MOST_LINK = 1024


class Unreadable(UserError):
    """A file or a link that is refused; the message names it."""


class _Saved(BaseModel):
    """What syzbot says; keys that we don't know are kept."""

    model_config = ConfigDict(
        frozen=True, extra="allow", alias_generator=lambda name: name.replace("_", "-"),
        populate_by_name=True,
    )  # fmt: skip


class SyzCommit(_Saved):
    """A commit that fixes or causes a bug."""

    title: str = ""
    link: str = ""
    hash: str = ""
    repo: str = ""
    branch: str = ""
    author: str = ""
    author_name: str = ""
    date: datetime | None = None


class SyzCrash(_Saved):
    """One crash; reproducers, configuration and report are links."""

    title: str = ""
    syz_reproducer: str = ""
    c_reproducer: str = ""
    repro_opts: str = ""
    kernel_config: str = ""
    kernel_source_git: str = ""
    kernel_source_commit: str = ""
    syzkaller_git: str = ""
    syzkaller_commit: str = ""
    compiler_description: str = ""
    architecture: str = ""
    crash_report_link: str = ""


class SyzBug(_Saved):
    """One bug; every field but the title may be missing."""

    version: int = 1
    title: str
    display_title: str = ""
    id: str = ""
    status: str = ""
    first_crash: datetime | None = None
    last_crash: datetime | None = None
    fix_time: datetime | None = None
    close_time: datetime | None = None
    fix_commits: list[SyzCommit] = Field(default_factory=list)
    cause_commit: SyzCommit | None = None
    discussions: list[str] | None = None
    crashes: list[SyzCrash] = Field(default_factory=list)


class SyzEntry(_Saved):
    """One line of a list."""

    title: str = ""
    link: str = ""


def read_folder(folder: Path) -> tuple[list[SyzBug], list[SyzEntry], dict[str, str]]:
    """Read all records and lists of a folder.

    Returns:
        The bugs in the order of their files, the lines of the lists, and for each file that
        could not be read why (by its path in the folder).

    Raises:
        UserError: If there is no such folder, no JSON in it, or too many files.
    """
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder: give one with saved JSON of syzbot")
    bugs: list[SyzBug] = []
    entries: list[SyzEntry] = []
    failed: dict[str, str] = {}
    files = list(_json_files(folder))
    for file in files:
        name = file.relative_to(folder).as_posix()
        try:
            value = parse_json(_bounded(file, MOST_JSON), name)
            lines = value.get("Bugs", value.get("bugs")) if isinstance(value, dict) else None
            if isinstance(lines, list):
                entries += [SyzEntry.model_validate(line) for line in lines]
            else:
                bugs.append(SyzBug.model_validate(value))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part)[:60] for part in first["loc"]) or "the record"
            failed[name] = f"{where}: {first['msg'][:200]}"
        except Unreadable as error:
            failed[name] = str(error)
    if not files:
        raise UserError(f"{folder} has no *.json: save bugs of syzbot with json=1 there")
    return bugs, entries, failed


def _json_files(folder: Path) -> Iterator[Path]:
    found = sorted(p for p in folder.rglob("*.json") if p.is_file() and not p.is_symlink())
    if len(found) > MOST_FILES:
        raise UserError(f"{folder} has {len(found)} files of JSON, at most {MOST_FILES} are read")
    yield from found


def parse_json(data: bytes, name: str) -> Any:
    """Parse JSON of strangers: no NaN, no deep nests, no numbers of a million digits.

    Raises:
        Unreadable: If it is none; one sentence.
    """
    try:
        return json.loads(data, parse_constant=_no_constant)
    except RecursionError:
        raise Unreadable(f"{name} is nested too deeply") from None
    except ValueError as error:
        raise Unreadable(f"{name} is no JSON: {str(error)[:120]}") from None


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


def _bounded(file: Path, most: int) -> bytes:
    try:
        with file.open("rb") as opened:
            data = opened.read(most + 1)
    except OSError as error:
        raise Unreadable(f"cannot read {file.name[:120]!r}: {error.strerror}") from None
    if len(data) > most:
        raise Unreadable(f"{file.name[:120]!r} has more than {most} bytes")
    return data


def linked_text(folder: Path, link: str) -> str | None:
    """Return the text that a relative link leads to, None where nobody saved it.

    Raises:
        Unreadable: If the link leads elsewhere or out of the folder, or the file is too big.
    """
    path = _inside(link)
    for name in dict.fromkeys((path, path.replace("?", "@"))):
        file = folder / name
        try:
            real = file.resolve()
            if not real.is_relative_to(folder.resolve()):
                raise Unreadable(f"the link {link[:120]!r} leads out of the folder")
            if real.is_file():
                return _bounded(real, MOST_TEXT).decode(errors="replace")
        except OSError:  # a name that is too long, say
            continue
    return None


def _inside(link: str) -> str:
    path = link.removeprefix("/")
    bare = path.partition("?")[0]
    outside = (
        not path
        or len(link) > MOST_LINK
        or path.startswith("/")
        or ":" in bare
        or any(ord(c) < 32 or c == "\\" for c in link)
        or ".." in PurePosixPath(path.replace("?", "/")).parts
    )
    if outside:
        raise Unreadable(f"the link {link[:120]!r} is no relative link to a file of the folder")
    return path
