"""Read a unified diff strictly: what is applied is what was read, and nothing else.

Patches come from agents. A line that a lenient reader would pass over is an error here, so that
no two programs can read two different patches from one text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from icml.core.errors import UserError

RejectedKind = Literal["patch_empty", "patch_invalid", "patch_rejected", "apply_failed"]

_GIT = re.compile(r"diff --git a/(\S+) b/(\S+)")
_RANGE = re.compile(
    r"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@(?: .*)?"
)
_MODE = re.compile(r"(old mode|new mode|new file mode|deleted file mode|index \S+) ([0-7]{6})")
_EXTENDED = ("index ", "similarity index ", "dissimilarity index ")
_MISSING = "/dev/null"
REGULAR_MODE = "100644"
"""The only mode that a patch may name."""


class PatchRejected(UserError):
    """A patch that is refused before any tool sees it, or that doesn't fit the tree."""

    def __init__(
        self, kind: RejectedKind, reason: str, *, path: str | None = None, line: int | None = None
    ) -> None:
        """Say why, and where in the tree (``path``) and in the diff (``line``, from 1)."""
        self.kind: RejectedKind = kind
        self.reason = reason
        self.path = path
        self.line = line
        place = "".join((f"line {line}: " if line else "", f"{path}: " if path else ""))
        super().__init__(f"{place}{reason}")


@dataclass(frozen=True)
class Hunk:
    """A run of changed lines with the unchanged ones round it; lines end in a newline or not."""

    old_start: int
    """First line in the old file, counted from 1; 0 where the old side is empty."""
    new_start: int
    lines: tuple[tuple[str, str], ...]
    """Pairs of mark (blank, ``-`` or ``+``) and text, in the order of the diff."""

    @property
    def old(self) -> list[str]:
        """The lines that must be there."""
        return [text for mark, text in self.lines if mark != "+"]

    @property
    def new(self) -> list[str]:
        """The lines that will be there."""
        return [text for mark, text in self.lines if mark != "-"]


@dataclass(frozen=True)
class FileChange:
    """What a diff does to one file."""

    old_path: str | None
    """None for a file that the patch creates."""
    new_path: str | None
    """None for a file that the patch deletes."""
    hunks: tuple[Hunk, ...]
    modes: tuple[str, ...] = ()
    """Modes that its header names, in the form ``what:mode``."""
    binary: bool = False
    copied: bool = False
    line: int = 1
    """Of its header, in the diff."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Its one name, or both where it is renamed."""
        return tuple(dict.fromkeys(path for path in (self.old_path, self.new_path) if path))

    @property
    def added_lines(self) -> list[str]:
        """Text of the added lines without their newline."""
        return [t.rstrip("\n") for h in self.hunks for mark, t in h.lines if mark == "+"]

    @property
    def removed_lines(self) -> list[str]:
        """Text of the removed lines without their newline."""
        return [t.rstrip("\n") for h in self.hunks for mark, t in h.lines if mark == "-"]


@dataclass
class _Open:
    """A file change that is being read."""

    line: int
    old: str | None = None
    new: str | None = None
    hunks: list[Hunk] = field(default_factory=list)
    modes: list[str] = field(default_factory=list)
    binary: bool = False
    copied: bool = False
    headed: bool = False

    def done(self) -> FileChange:
        return FileChange(
            old_path=self.old,
            new_path=self.new,
            hunks=tuple(self.hunks),
            modes=tuple(self.modes),
            binary=self.binary,
            copied=self.copied,
            line=self.line,
        )


def _invalid(reason: str, line: int) -> PatchRejected:
    return PatchRejected("patch_invalid", reason, line=line)


def _check_text(diff: str) -> None:
    if not diff.strip():
        raise PatchRejected("patch_empty", "the patch is empty")
    try:
        diff.encode()
    except UnicodeEncodeError:
        raise PatchRejected("patch_invalid", "the patch is not UTF-8") from None
    for character, hint in (("\0", "a NUL byte"), ("\r", "a carriage return: write LF line ends")):
        if character in diff:
            raise _invalid(f"the patch has {hint}", diff[: diff.index(character)].count("\n") + 1)


def parse_diff(diff: str) -> tuple[FileChange, ...]:
    r"""Parse a unified diff, with or without git's headers.

    Text before the first file and between files is allowed (a commit message), a hunk whose
    header counts other lines than it has is not.

    Raises:
        PatchRejected: ``patch_empty`` or ``patch_invalid``, with the line.

    Example:
        >>> (change,) = parse_diff("--- a/x.c\n+++ b/x.c\n@@ -1 +1 @@\n-a\n+b\n")
        >>> change.new_path, change.added_lines
        ('x.c', ['b'])
    """
    _check_text(diff)
    return _Parser(diff).files()


class _Parser:
    def __init__(self, diff: str) -> None:
        self.lines = diff.removesuffix("\n").split("\n")
        self.open: _Open | None = None
        self.found: list[FileChange] = []

    def files(self) -> tuple[FileChange, ...]:
        index = 0
        while index < len(self.lines):
            index = self._step(index)
        self._close()
        if not self.found:
            raise _invalid("no file header (--- and +++, or diff --git) was found", 1)
        return tuple(self.found)

    def _close(self) -> None:
        if self.open is not None:
            change = self.open.done()
            if change.old_path == change.new_path and not (
                change.hunks or change.modes or change.binary
            ):
                raise _invalid("a file header with nothing after it", change.line)
            self.found.append(change)
            self.open = None

    def _peek(self, index: int) -> str:
        return self.lines[index] if index < len(self.lines) else ""

    def _step(self, index: int) -> int:
        line = self.lines[index]
        if line.startswith("diff --git "):
            self._git_header(index)
        elif line.startswith("--- ") and self._peek(index + 1).startswith("+++ "):
            self._names(index)
            return index + 2
        elif line.startswith("@@ "):
            return self._hunk(index)
        elif line == "-- ":  # the end of a patch mail
            self._close()
        elif self.open is not None and not self.open.hunks:
            self._extended(self.open, line, index)
        elif self.open is not None and line[:1] in ("+", "-", " ", "\\"):
            raise _invalid("a line after the end of the hunk: its header counts fewer", index + 1)
        elif line.startswith(("GIT binary patch", "Binary files ")):
            raise PatchRejected("patch_rejected", "binary changes are refused", line=index + 1)
        elif self.open is not None:
            self._close()
        return index + 1

    def _git_header(self, index: int) -> None:
        self._close()
        found = _GIT.fullmatch(self.lines[index])
        if found is None:
            raise _invalid("cannot read the paths: quotes and blanks are refused", index + 1)
        self.open = _Open(index + 1, found[1], found[2])

    def _names(self, index: int) -> None:
        if self.open is None or self.open.headed:
            self._close()
            self.open = _Open(index + 1)
        self.open.headed = True
        old = _name(self.lines[index][4:], "a/")
        new = _name(self.lines[index + 1][4:], "b/")
        if old is None and new is None:
            raise _invalid("both sides are /dev/null", index + 1)
        named = (self.open.old, self.open.new)
        if named != (None, None) and not {old, new} - {None} <= set(named):
            raise _invalid(f"diff --git names {named}, --- and +++ name others", index + 1)
        if not self._peek(index + 2).startswith("@@ "):
            raise _invalid("no hunk follows the file header", index + 3)
        self.open.old, self.open.new = old, new

    @staticmethod
    def _extended(change: _Open, line: str, index: int) -> None:
        assert change is not None
        if found := _MODE.fullmatch(line):
            change.modes.append(f"{found[1].split(' ')[0]}:{found[2]}")
            if found[1] == "new file mode":
                change.old = None
            elif found[1] == "deleted file mode":
                change.new = None
        elif line.startswith(("GIT binary patch", "Binary files ")):
            change.binary = True
        elif line.startswith(("copy from ", "copy to ")):
            change.copied = True
        elif line.startswith("rename from "):
            change.old = line.removeprefix("rename from ")
        elif line.startswith("rename to "):
            change.new = line.removeprefix("rename to ")
        elif not line.startswith(_EXTENDED) and not change.binary:
            raise _invalid(f"cannot read {line[:40]!r} in a file header", index + 1)

    def _hunk(self, index: int) -> int:
        found = _RANGE.fullmatch(self.lines[index])
        if found is None or self.open is None or not self.open.headed:
            raise _invalid("a hunk without a file header, or with a broken one", index + 1)
        old_left, new_left = int(found[2] or 1), int(found[4] or 1)
        body: list[tuple[str, str]] = []
        index += 1
        while old_left or new_left:
            if index >= len(self.lines):
                raise _invalid("the hunk ends before its header's count", index)
            mark, text = self.lines[index][:1] or " ", self.lines[index][1:]
            old_left -= mark in " -"
            new_left -= mark in " +"
            if mark not in " -+" or old_left < 0 or new_left < 0:
                raise _invalid("the hunk has other lines than its header counts", index + 1)
            index += 1
            if self._peek(index).startswith("\\ No newline"):
                index += 1
            else:
                text += "\n"
            body.append((mark, text))
        if all(mark == " " for mark, _ in body):
            raise _invalid("the hunk changes nothing", index)
        self.open.hunks.append(Hunk(int(found[1]), int(found[3]), tuple(body)))
        return index


def _name(text: str, prefix: str) -> str | None:
    path = text.split("\t")[0]
    return None if path == _MISSING else path.removeprefix(prefix)
