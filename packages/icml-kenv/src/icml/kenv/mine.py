"""Look for bugs in the difference of two source trees: small changes of modules that add a check.

A candidate is a hunk, no bug: whether it has a reproducer is for a person to find out. Hunks are
numbered as `FixSource` numbers them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from icml.core.errors import UserError
from icml.kenv.ctext import functions
from icml.kenv.patch import Hunk, PatchRejected, parse_diff
from icml.kenv.templates import diff_text

MOST_LINES = 600
"""Changed lines of a directory: more is a rewrite, not a fix."""

_OBJECT = re.compile(r"^\s*obj-\$\(\s*(CONFIG_\w+)\s*\)", re.MULTILINE)
_MODULE = re.compile(r"^(CONFIG_\w+)=m$", re.MULTILINE)
_LEAVES = re.compile(r"\b(?:return|goto|break|continue)\b")
_BOUND = re.compile(
    r"\bif\s*\([^;]*[<>]|\b(?:min|min_t|clamp|clamp_t|check_\w+_overflow|array_size|size_add)\s*\("
)
_NULL = re.compile(r"\bif\s*\([^;]*(?:![A-Za-z_(]|==\s*NULL|IS_ERR(?:_OR_NULL)?\()")
_COUNT = re.compile(r"\b(?:\w*refcount_\w+|kref_\w+|\w+_(?:get|put|hold)(?:_\w+)?)\s*\(")
_ASSERTION = re.compile(r"\b(?:BUG|WARN)(?:_ON)?(?:_ONCE)?\s*\(")


class Candidate(NamedTuple):
    """One hunk that may be the fix of a crash."""

    path: str
    hunk: int
    """Number in the file's difference, from 1."""
    function: str
    """In the newer source; empty outside of one."""
    why: tuple[str, ...]
    """``bound check``, ``NULL check``, ``reference count``, ``assertion removed``."""
    added: int
    removed: int


def mine(
    old: Path,
    new: Path,
    *,
    modules: Collection[str] | None = None,
    most_lines: int = MOST_LINES,
) -> list[Candidate]:
    """List candidates in the order of their paths.

    Args:
        old: Root of the older source.
        new: Root of the newer source.
        modules: Options that the distribution builds as modules, for example ``CONFIG_OMFS_FS``;
            only directories with such a module are looked at. None takes every directory.
        most_lines: Changed lines of a directory at most.

    Raises:
        UserError: If a root is no folder.
    """
    for root in (old, new):
        if not root.is_dir():
            raise UserError(f"{root} is no folder: give a source tree or a fetched version")
    found: list[Candidate] = []
    for directory in _directories(old, modules):
        relative = directory.relative_to(old).as_posix()
        pairs = list(_changed(directory, new / relative))
        diffs = {f"{relative}/{name}": (diff_text(f"{relative}/{name}", a, b), b)
                 for name, a, b in pairs}  # fmt: skip
        if sum(_changed_lines(diff) for diff, _ in diffs.values()) <= most_lines:
            for path, (diff, text) in diffs.items():
                found += _candidates(path, diff, text)
    return found


def built_as_modules(config: Path) -> frozenset[str]:
    """Return the options that a kernel's configuration builds as modules.

    Raises:
        UserError: If it cannot be read.
    """
    try:
        return frozenset(_MODULE.findall(config.read_text(errors="replace")))
    except OSError as error:
        raise UserError(f"cannot read {config}: {error.strerror}") from error


def _directories(root: Path, modules: Collection[str] | None) -> Iterator[Path]:
    for makefile in sorted(root.rglob("Makefile")):
        if modules is None:
            yield makefile.parent
            continue
        text = makefile.read_text(errors="replace")
        if not set(_OBJECT.findall(text)).isdisjoint(modules):
            yield makefile.parent


def _changed(old: Path, new: Path) -> Iterator[tuple[str, str, str]]:
    """Yield name and both texts of the sources that differ; what is new or gone is no fix."""
    for file in sorted(old.glob("*.[ch]")):
        other = new / file.name
        if not other.is_file() or file.is_symlink() or other.is_symlink():
            continue
        a, b = file.read_bytes(), other.read_bytes()
        if a != b:
            yield file.name, a.decode(errors="surrogateescape"), b.decode(errors="surrogateescape")


def _changed_lines(diff: str) -> int:
    return sum(line[:1] in "+-" and line[:3] not in ("+++", "---") for line in diff.split("\n"))


def _candidates(path: str, diff: str, text: str) -> Iterator[Candidate]:
    try:
        (change,) = parse_diff(diff)
    except PatchRejected:  # not a text that a patch could name: no bug to inject
        return
    places = None
    for number, hunk in enumerate(change.hunks, 1):
        why = reasons(hunk)
        if not why:
            continue
        places = functions(text) if places is None else places
        line = _first_added(hunk)
        inside = next((f.name for f in places if f.first <= line <= f.last), "")
        marks = [mark for mark, _ in hunk.lines]
        yield Candidate(path, number, inside, why, marks.count("+"), marks.count("-"))


def reasons(hunk: Hunk) -> tuple[str, ...]:
    """Return why a hunk may fix a crash; lines that only moved count neither way."""
    old = [text.strip() for mark, text in hunk.lines if mark == "-"]
    new = [text.strip() for mark, text in hunk.lines if mark == "+"]
    added = " ".join(line for line in new if line not in old).replace("->", ".")
    removed = " ".join(line for line in old if line not in new).replace("->", ".")
    leaves = _LEAVES.search(added) is not None
    tests = {
        "bound check": leaves and _more(_BOUND, added, removed),
        "NULL check": leaves and _more(_NULL, added, removed),
        "reference count": _more(_COUNT, added, removed),
        "assertion removed": _more(_ASSERTION, removed, added),
    }
    return tuple(name for name, holds in tests.items() if holds)


def _more(pattern: re.Pattern[str], here: str, there: str) -> bool:
    return len(pattern.findall(here)) > len(pattern.findall(there))


def _first_added(hunk: Hunk) -> int:
    line = hunk.new_start
    for mark, _ in hunk.lines:
        if mark == "+":
            break
        line += mark == " "
    return line
