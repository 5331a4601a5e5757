"""What an agent without a shell does in its worktree: look for text, read and edit sources."""

from __future__ import annotations

from pathlib import Path

from icml.core.errors import UserError
from icml.kenv.policy import Policy
from icml.kenv.session import Session, source_texts

MOST_LINES = 400
"""Read at once."""
MOST_HITS = 60


def inside(session: Session, path: str) -> Path:
    """Return the place of a source in the worktree.

    Raises:
        UserError: If it is outside, behind a link, or no source that a patch may touch.
    """
    root = session.worktree.resolve()
    place = root / path
    if "\0" in path or not place.resolve().is_relative_to(root) or place.is_symlink():
        raise UserError(f"{path!r} is not in the worktree: paths are like {_example(session)}")
    if not path.endswith(Policy().suffixes):
        raise UserError(f"only {', '.join(Policy().suffixes)} files can be read and edited")
    return place


def _example(session: Session) -> str:
    return next(iter(source_texts(session.worktree)), f"{session.bug.directory}/file.c")


def read_lines(session: Session, path: str, start: int = 1, count: int = MOST_LINES) -> str:
    """Return numbered lines of a source.

    Args:
        session: Whose worktree is read.
        path: Relative to the worktree.
        start: First line, counted from 1.
        count: At most so many lines, and never more than `MOST_LINES`.

    Raises:
        UserError: If there is no such file or line.
    """
    place = inside(session, path)
    if not place.is_file():
        names = ", ".join(source_texts(session.worktree))
        raise UserError(f"there is no {path}; the sources are {names}")
    lines = place.read_bytes().decode(errors="replace").split("\n")
    if not 1 <= start <= len(lines):
        raise UserError(f"{path} has lines 1 to {len(lines)}, got start {start}")
    shown = lines[start - 1 : start - 1 + min(max(count, 1), MOST_LINES)]
    end = start - 1 + len(shown)
    head = f"{path}, lines {start}-{end} of {len(lines)}"
    return "\n".join([head, *(f"{n:5} {line}" for n, line in enumerate(shown, start))])


def find(session: Session, text: str) -> str:
    """Return the lines of all sources in which a text stands, with file and line number.

    Raises:
        UserError: If the text is empty.
    """
    if not text.strip():
        raise UserError("look for a text that is not empty")
    hits = [
        f"{path}:{number}: {line.strip()[:200]}"
        for path, source in source_texts(session.worktree).items()
        for number, line in enumerate(source.split("\n"), 1)
        if text in line
    ]
    more = [f"and {len(hits) - MOST_HITS} more"] if len(hits) > MOST_HITS else []
    return "\n".join([*hits[:MOST_HITS], *more]) or f"{text!r} is in no source"


def edit(session: Session, path: str, old: str, new: str) -> str:
    """Replace a text that occurs once in a source; an empty ``old`` creates a new file.

    Raises:
        UserError: If the old text doesn't occur exactly once, or the new file is there.
    """
    place = inside(session, path)
    if not old:
        if place.exists():
            raise UserError(f"{path} is there: give the text to replace")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(new.encode())
        return f"created {path}"
    if not place.is_file():
        raise UserError(f"there is no {path}: an empty old text creates it")
    # Bytes that are no UTF-8 (old comments) go through unchanged.
    source = place.read_bytes().decode(errors="surrogateescape")
    count = source.count(old)
    if count != 1:
        raise UserError(f"the old text occurs {count} times in {path}: give one that occurs once")
    place.write_bytes(source.replace(old, new).encode(errors="surrogateescape"))
    return f"edited {path}"
