"""What a patch may do, decided from its text before any tool sees it."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from icml.kenv.models import Patch
from icml.kenv.patch import REGULAR_MODE, FileChange, PatchRejected

_PLAIN_PATH = re.compile(r"[A-Za-z0-9_.,+@-]+(?:/[A-Za-z0-9_.,+@-]+)*", re.ASCII)
_HOST_FILES = re.compile(
    r"(?:.*/)?(?:Kbuild.*|Kconfig.*|Makefile.*|.*\.mk|.*\.sh|.*\.pl|.*\.py|\.gitmodules)"
)
_HOST_FOLDERS = ("scripts/", "tools/", "usr/")
_READING = r"(?:include\w*|import|embed)\b"
_REQUEST = re.compile(rf"(?:#|%:|\?\?=)[ \t]*{_READING}.*")
_PLAIN_REQUEST = re.compile(r'\s*#[ \t]*include[ \t]*(<[\w./+-]+>|"[\w./+-]+")\s*(?:/[*/].*)?')
_SPLIT = re.compile(r"(?:^|\*/)\s*(?:#|%:|\?\?=)\s*(?:/\*.*)?")
_FILE_READERS = re.compile(r"\.[ \t]*inc(?:bin|lude)\b|__has_embed|pragma\s+GCC\s+dependency")
_JOINED_STRINGS = re.compile(r'"\s*"')


@dataclass(frozen=True)
class Policy:
    """What is let through; `Policy()` is right for patches from agents."""

    max_bytes: int = 2**20
    max_files: int = 50
    max_hunks: int = 1000
    suffixes: tuple[str, ...] = (".c", ".h", ".S")
    """Files that a patch may touch: what runs in the guest, not what builds it on the host."""
    scope: tuple[str, ...] = ()
    """Folders of the tree that it may touch, for example what a backend rebuilds; none: all."""

    def check(self, patch: Patch) -> tuple[FileChange, ...]:
        """Parse a patch and let it pass or not.

        Code that is compiled can still ask the compiler for a file of the host in ways that no
        text search finds: builds run without a network, as nobody, where the system allows it.

        Returns:
            The files it changes.

        Raises:
            PatchRejected: ``patch_empty``, ``patch_invalid`` or ``patch_rejected``, with the file
                and the line of the diff.
        """
        size = len(patch.diff)  # characters: never more than its bytes
        if size > self.max_bytes or len(patch.diff.encode(errors="replace")) > self.max_bytes:
            raise PatchRejected("patch_rejected", f"more than {self.max_bytes} bytes")
        changes = patch.changes
        if len(changes) > self.max_files:
            raise PatchRejected(
                "patch_rejected", f"{len(changes)} files, at most {self.max_files} are let through"
            )
        if patch.hunks > self.max_hunks:
            raise PatchRejected("patch_rejected", f"more than {self.max_hunks} hunks")
        seen: set[str] = set()
        for change in changes:
            for path in change.paths:
                self._check_path(path, change)
                if path in seen:
                    raise _rejected("the file is changed twice", change, path)
                seen.add(path)
            _check_kind(change)
            _check_includes(change)
        return changes

    def _check_path(self, path: str, change: FileChange) -> None:
        parts = path.split("/")
        if path.startswith("/"):
            raise _rejected("an absolute path", change, path)
        if ".." in parts or "." in parts or ".git" in (part.lower() for part in parts):
            raise _rejected("the path has a part '..', '.' or '.git'", change, path)
        if "\\" in path or _PLAIN_PATH.fullmatch(path) is None:
            raise _rejected("the path has characters that no file of a kernel has", change, path)
        if _HOST_FILES.fullmatch(path) or path.startswith(_HOST_FOLDERS):
            raise _rejected("the file runs on the host while the kernel is built", change, path)
        if not path.endswith(self.suffixes):
            raise _rejected(f"only {', '.join(self.suffixes)} files may change", change, path)
        if self.scope and not any(path.startswith(f"{folder}/") for folder in self.scope):
            raise _rejected(f"out of scope: only {', '.join(self.scope)} is built", change, path)


def _rejected(reason: str, change: FileChange, path: str | None = None) -> PatchRejected:
    shown = path or change.paths[0]
    return PatchRejected("patch_rejected", reason, path=shown[:200], line=change.line)


def _check_kind(change: FileChange) -> None:
    if change.binary:
        raise _rejected("binary changes are refused", change)
    if change.copied:
        raise _rejected("copies are refused: write the new file out", change)
    for mode in change.modes:
        what, bits = mode.split(":")
        if bits == "120000":
            raise _rejected("symbolic links are refused", change)
        if bits == "160000":
            raise _rejected("submodules are refused", change)
        if what == "old" or bits != REGULAR_MODE:
            raise _rejected(f"only mode {REGULAR_MODE} is let through, got {bits}", change)


def _check_includes(change: FileChange) -> None:
    if change.new_path is None:
        return
    for hunk in change.hunks:
        found = _file_requests("".join(hunk.new), change.new_path)
        for request in found - _file_requests("".join(hunk.old), change.new_path):
            raise _rejected(f"it would make the compiler read a file: {request[:80]}", change)


def _file_requests(code: str, path: str) -> set[str]:
    """Return what asks the compiler for a file outside of the tree, or in a way that hides it."""
    code = code.replace("\\\n", "")
    found = {match[0] for match in _FILE_READERS.finditer(_JOINED_STRINGS.sub("", code))}
    for line in code.split("\n"):
        if "#" not in line and "%:" not in line and "??=" not in line:
            continue
        bare = _without_comments(line)
        if _SPLIT.fullmatch(bare):
            found.add(line.strip())
        elif request := _REQUEST.search(bare):
            plain = _PLAIN_REQUEST.fullmatch(line)
            if plain is None or _leaves(plain[1], path):
                found.add(request[0].strip())
    return found


def _without_comments(line: str) -> str:
    """Replace the comments that end within a line by blanks."""
    kept = []
    while (start := line.find("/*")) >= 0 and (end := line.find("*/", start + 2)) >= 0:
        kept.append(line[:start])
        line = line[end + 2 :]
    return " ".join([*kept, line])


def _leaves(quoted: str, path: str) -> bool:
    wanted = quoted[1:-1]
    if wanted.startswith("/") or (quoted[0] == "<" and ".." in wanted.split("/")):
        return True
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), wanted)).startswith("..")
