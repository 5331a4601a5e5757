"""Folders that commands write: nothing that isn't theirs is deleted, no other run is continued."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from icml.core.differences import first_difference
from icml.core.errors import UserError
from icml.core.journal import (
    LOCK,
    cannot_write,
    lock_folder,
    remove_drafts,
    whole_folder,
    write_atomic,
)

__all__ = ["check_replaceable", "file_names", "held", "recorded_names", "run_folder", "sha256_of"]


def check_replaceable(out: Path | str, names: Collection[str]) -> None:
    """Refuse a folder that can't be written or holds something else than what is replaced.

    Args:
        out: Folder that is to be written, there or not.
        names: Files and folders that the writing command makes.

    Raises:
        UserError: If it is a file or below one, can't be written, or holds another name.
    """
    out = Path(out)
    place = out.absolute()
    above = next(path for path in (place, *place.parents) if path.exists() or path.is_symlink())
    if not above.is_dir():
        raise UserError(f"{out} can't be a folder: {above} is a file; use another one")
    if not os.access(above if above != place else place.parent, os.W_OK | os.X_OK):
        raise UserError(f"{out} can't be written: the system allows no change in {above}")
    if whole_folder(out) is None:
        return
    foreign = sorted({entry.name for entry in out.iterdir()} - set(names))
    if foreign:
        raise UserError(
            f"{out} holds {foreign[0]}, which this doesn't write and would delete: use another "
            "folder, or move that away"
        )


@contextmanager
def held(out: Path | str) -> Generator[Path]:
    """Hold the place of a folder that is replaced, during a ``with`` block.

    What killed writes left beside it is deleted. The lock lies beside it too, for the time of the
    block, because a lock inside would be replaced with the folder.

    Args:
        out: Folder that is written by `icml.core.journal.replace_folder`, there or not.

    Yields:
        The folder, by a path with a name.

    Raises:
        UserError: If another process has it or the system refuses.
    """
    out = Path(out)
    if out.name in ("", ".."):  # as `.` has none
        out = Path(os.path.abspath(out))
    lock = FileLock(out.with_name(f".{out.name}.lock"))
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise UserError(
            f"another process is writing {out}; wait for it or use another --out folder"
        ) from None
    except OSError as error:
        raise cannot_write(out, error) from error
    try:
        draft = re.compile(rf"\.{re.escape(out.name)}\.[0-9a-f]{{8}}\.tmp")
        for entry in out.parent.iterdir():
            if draft.fullmatch(entry.name):
                shutil.rmtree(entry, ignore_errors=True)
        yield out
    finally:
        with suppress(OSError):  # while it is held: nobody waits for it
            os.unlink(lock.lock_file)
        lock.release()


def file_names(folder: Path) -> list[str]:
    """Return the names of what lies in a folder, in order."""
    return sorted(entry.name for entry in folder.iterdir())


def recorded_names(folder: Path | str, record: str) -> list[str]:
    """Return the names that a file of ``folder`` lists under ``files``, and its own; else none."""
    try:
        files = json.loads((Path(folder) / record).read_text("utf-8"))["files"]
        return [record, *map(str, files)]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def sha256_of(value: Any) -> str:
    """Return the SHA-256 of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


@contextmanager
def run_folder(out: Path | str, record: str, settings: Mapping[str, Any]) -> Generator[None]:
    """Hold a folder for a run that goes on where it was stopped, during a ``with`` block.

    Args:
        out: The run's folder.
        record: Name of the file that says which run it is.
        settings: JSON values that the run's outcome hangs on.

    Raises:
        UserError: If the folder holds another run, something that is no run, or the system
            refuses it, or another process has it.
    """
    out = Path(out)
    file = out / record
    check_replaceable(out, file_names(out) if file.is_file() else [LOCK])
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = lock_folder(out)
    except OSError as error:
        raise cannot_write(out, error) from error
    with lock:
        remove_drafts(out)
        if file.is_file():
            try:
                stored = json.loads(file.read_text("utf-8"))
            except (OSError, ValueError) as error:
                raise UserError(f"{file} is damaged: {error}; use another folder") from error
            difference = first_difference(stored, dict(settings))
            if difference is not None:
                raise UserError(
                    f"{out} holds a run with other settings ({difference}): use another folder, "
                    "or delete it"
                )
        else:
            write_atomic(file, json.dumps(dict(settings), indent=2) + "\n")
        yield
