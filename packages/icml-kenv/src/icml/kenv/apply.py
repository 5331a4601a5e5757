"""Put a patch into a source tree: exactly, all of it or nothing, and nowhere else."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from icml.kenv.patch import FileChange, Hunk, PatchRejected


class Patched(NamedTuple):
    """One file before and after a patch, and the lines that differ."""

    old: str | None
    """None where the file is new."""
    new: str | None
    """None where the file goes."""
    removed: list[int]
    """Line numbers in ``old`` of the removed lines, counted from 1."""
    added: list[int]
    """Line numbers in ``new`` of the added lines, counted from 1."""


def apply_hunks(old: str, hunks: Sequence[Hunk], *, path: str = "") -> Patched:
    """Apply hunks to a text: context must match exactly, line numbers may be off.

    A hunk whose lines aren't where it says goes to the nearest place below the previous hunk at
    which they are (of two equally near ones, the lower): git does that as well.

    Raises:
        PatchRejected: ``apply_failed`` where a hunk fits nowhere.
    """
    source = _split(old)
    where: dict[str, list[int]] = {}
    for index, line in enumerate(source):
        where.setdefault(line, []).append(index)
    result: list[str] = []
    removed: list[int] = []
    added: list[int] = []
    done = shift = 0
    for hunk in hunks:
        guess = _index(hunk) + shift
        place = _place(source, where, hunk.old, done, guess)
        if place is None:
            reason = f"the hunk at old line {hunk.old_start} does not fit"
            raise PatchRejected("apply_failed", reason, path=path)
        shift = place - _index(hunk)
        result += source[done:place]
        done = place
        for mark, text in hunk.lines:
            if mark == "+":
                result.append(text)
                added.append(len(result))
                continue
            if mark == "-":
                removed.append(done + 1)
            else:
                result.append(text)
            done += 1
    result += source[done:]
    if any(not line.endswith("\n") for line in result[:-1]):
        raise PatchRejected("apply_failed", "a line without newline inside of the file", path=path)
    return Patched(old, "".join(result), removed, added)


def _split(text: str) -> list[str]:
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _index(hunk: Hunk) -> int:
    return hunk.old_start - 1 if hunk.old else hunk.old_start


def _place(
    source: Sequence[str],
    where: Mapping[str, Sequence[int]],
    wanted: Sequence[str],
    lowest: int,
    guess: int,
) -> int | None:
    if not wanted:  # nothing to look for: only the place that the hunk says
        return guess if lowest <= guess <= len(source) else None
    for place in sorted(where.get(wanted[0], ()), key=lambda i: (abs(i - guess), -i)):
        if place >= lowest and source[place : place + len(wanted)] == wanted:
            return place
    return None


def reverse(changes: Iterable[FileChange]) -> tuple[FileChange, ...]:
    """Return the patch that undoes a patch."""
    flipped = {" ": " ", "+": "-", "-": "+"}
    return tuple(
        FileChange(
            old_path=change.new_path,
            new_path=change.old_path,
            hunks=tuple(
                Hunk(h.new_start, h.old_start, tuple((flipped[mark], t) for mark, t in h.lines))
                for h in change.hunks
            ),
            line=change.line,
        )
        for change in changes
    )


def patched_files(tree: Path, changes: Iterable[FileChange]) -> dict[str, Patched]:
    """Return every touched file before and after a patch, writing nothing.

    A renamed file appears under both of its names.

    Raises:
        PatchRejected: ``apply_failed`` where a file is missing, in the way, no regular file,
            outside of the tree, behind a symbolic link, or unlike what the patch expects.
    """
    found: dict[str, Patched] = {}
    for change in changes:
        old = "" if change.old_path is None else _read(tree, change.old_path)
        if change.new_path is not None and change.new_path != change.old_path:
            _check_absent(tree, change.new_path)
        after = apply_hunks(old, change.hunks, path=change.paths[0])
        if change.new_path is None and after.new:
            raise PatchRejected(
                "apply_failed", "the deleted file has more lines", path=change.old_path
            )
        if change.old_path == change.new_path:
            found[change.paths[0]] = after
            continue
        if change.old_path is not None:
            lines = list(range(1, len(_split(old)) + 1))
            found[change.old_path] = Patched(old, None, lines, [])
        if change.new_path is not None:
            lines = list(range(1, len(_split(after.new or "")) + 1))
            found[change.new_path] = Patched(None, after.new, [], lines)
    return found


def apply_changes(tree: Path, changes: Iterable[FileChange]) -> dict[str, Patched]:
    """Apply a patch that has passed the policy to a tree: all of it or nothing.

    Returns:
        The touched files, as `patched_files` does.

    Raises:
        PatchRejected: ``apply_failed``; the tree is as it was.
        OSError: If a file cannot be written; the tree is as it was.
    """
    files = patched_files(tree, changes)
    written: dict[Path, Path] = {}
    try:
        for path, file in files.items():
            if file.new is not None:
                written[tree / path] = _write_beside(tree / path, file.new)
    except BaseException:
        _forget(written)
        raise
    for target, temporary in written.items():
        temporary.replace(target)
    for path, file in files.items():
        if file.new is None:
            (tree / path).unlink()
    return files


def _forget(written: Mapping[Path, Path]) -> None:
    for temporary in written.values():
        with suppress(OSError):
            temporary.unlink()


def _write_beside(target: Path, text: str) -> Path:
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o644
    temporary = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        with temporary.open("xb") as file:
            file.write(text.encode(errors="surrogateescape"))
            file.flush()
            os.fchmod(file.fileno(), mode)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    return temporary


def _check_parents(tree: Path, path: str) -> None:
    parts = Path(path).parts
    if Path(path).is_absolute() or ".." in parts:
        raise PatchRejected("apply_failed", "the path leads out of the tree", path=path)
    here = tree
    for part in parts[:-1]:
        here /= part
        if here.is_symlink():
            raise PatchRejected("apply_failed", "the path leads through a symbolic link", path=path)
        if here.exists() and not here.is_dir():
            raise PatchRejected("apply_failed", "a part of the path is no folder", path=path)


def _read(tree: Path, path: str) -> str:
    _check_parents(tree, path)
    target = tree / path
    try:
        status = target.lstat()
    except OSError:
        raise PatchRejected(
            "apply_failed", "there is no such file in the tree", path=path
        ) from None
    if not stat.S_ISREG(status.st_mode):
        raise PatchRejected("apply_failed", "it is no regular file", path=path)
    return target.read_bytes().decode(errors="surrogateescape")


def _check_absent(tree: Path, path: str) -> None:
    _check_parents(tree, path)
    if not (tree / path).parent.is_dir():
        raise PatchRejected("apply_failed", "the new file's folder is not there", path=path)
    if os.path.lexists(tree / path):
        raise PatchRejected("apply_failed", "the new file is there already", path=path)
