"""Files that survive a kill, a power cut and a full disk: append-only JSON lines, atomic writes.

JSON here is Python's: NaN and the infinities are written as the constants ``NaN``, ``Infinity``
and ``-Infinity``, and floats come back bit for bit.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import sys
from collections.abc import Collection, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from icml.core.errors import UserError

if TYPE_CHECKING:
    from filelock import BaseFileLock

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}
_OS_ERROR = re.compile(r"\(os error (\d+)\)")

LOCK = ".lock"
"""The file by which a process holds a folder."""


def cannot_write(path: Path, error: OSError) -> UserError:
    """Return the one sentence for a write that the system refused (a full disk, say)."""
    return UserError(
        f"cannot write {path}: {error.strerror or error}; "
        "mend that and repeat the command (what was finished is kept)"
    )


def no_room(error: BaseException) -> OSError | None:
    """Return the system's error if one says that a disk is full, broken or read-only, else None.

    safetensors wraps it into an error of its own, which holds the number in its words only.

    Example:
        >>> no_room(ValueError("I/O error: No space left on device (os error 28)")).strerror
        'No space left on device'
    """
    number = error.errno if isinstance(error, OSError) else None
    if number is None and (told := _OS_ERROR.search(str(error))):
        number = int(told[1])
    return OSError(number, os.strerror(number)) if number in _NO_ROOM else None


@contextmanager
def room_for(path: Path) -> Generator[None]:
    """Turn what `no_room` knows, raised in a ``with`` block, into one sentence.

    Raises:
        UserError: In its place.
    """
    try:
        yield
    except Exception as error:
        refused = no_room(error)
        if refused is None:
            raise
        raise cannot_write(path, refused) from error


def to_json(value: object, where: str = "value") -> Any:
    """Return ``value`` as JSON gives it back: tuples as lists, numpy scalars as Python ones.

    Args:
        value: Numbers, strings, booleans, None, and lists, tuples and string-keyed dicts of them.
        where: What the value is called in an error message.

    Raises:
        TypeError: If there is anything else in it; the message says where.

    Example:
        >>> to_json({"interval": (0.5, float("inf"))})
        {'interval': [0.5, inf]}
    """
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        value = value.item()
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, list | tuple):
        return [to_json(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, dict) and all(type(key) is str for key in value):
        return {key: to_json(item, f"{where}[{key!r}]") for key, item in value.items()}
    raise TypeError(
        f"{where} is {_kind(value)}; only numbers, strings, booleans, None, lists, tuples and "
        "dicts with string keys can be stored"
    )


def _kind(value: object) -> str:
    kind = type(value).__name__
    return "a dict with keys that are not strings" if kind == "dict" else f"of type {kind}"


class _Parsed(NamedTuple):
    records: list[dict[str, Any]]
    end: int
    """Bytes that the records take; what follows is torn."""


def _parse(data: bytes, path: Path, needs: Collection[str]) -> _Parsed:
    *lines, tail = data.split(b"\n")
    records: list[dict[str, Any]] = []
    end = 0
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            # A power cut can lose an inner block of the last write and keep its final newline.
            if number == len(lines) and not tail:
                break
            raise _damaged(path, number)
        if any(name not in record for name in needs):
            raise _damaged(path, number)
        records.append(record)
        end += len(line) + 1
    return _Parsed(records, end)


def _damaged(path: Path, number: int) -> UserError:
    return UserError(f"{path} is damaged in line {number}; move the file away to start anew")


class Journal:
    """An append-only file of JSON objects, one a line; one process may append.

    A record is there once its newline is on disk. A kill during a write leaves a torn last line,
    which :meth:`read` drops and the next :meth:`append` cuts off.
    """

    def __init__(self, path: Path | str, *, needs: Collection[str] = ()) -> None:
        """Name the file; it appears with the first record.

        Args:
            path: The file.
            needs: Names that every record has; one without them was not written by its owner.
        """
        self.path = Path(path)
        self._needs = needs
        self._end: int | None = None  # bytes of whole records, where that is known

    def read(self) -> list[dict[str, Any]]:
        """Return all whole records, oldest first; none where there is no file.

        Raises:
            UserError: If a line before the last one is damaged, or a record lacks one of the
                names that are needed; names the line.
        """
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        return _parse(data, self.path, self._needs).records

    def append(self, record: dict[str, Any]) -> None:
        """Write one record and wait until it is on disk.

        Raises:
            UserError: If the system refuses (a full disk); the file then ends with its last
                whole record, and later records can be appended once there is room.
            TypeError: If the record is not JSON.
        """
        line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
        try:
            with self.path.open("ab+", buffering=0) as file:
                self._write(file, line)
        except OSError as error:
            raise cannot_write(self.path, error) from error

    def _write(self, file: BinaryIO, line: bytes) -> None:
        end = self._end
        if end is None:
            file.seek(0)
            end = _parse(file.read(), self.path, self._needs).end
            file.truncate(end)
        self._end = None  # unknown again if anything below is interrupted
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
        except OSError:
            file.truncate(end)
            raise
        if end == 0:
            _sync_folder(self.path.parent)
        self._end = end + len(line)


def _sync_folder(folder: Path) -> None:
    """Put a folder's entries on disk (a no-op where folders cannot be opened)."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")


def write_atomic(path: Path | str, content: bytes | str) -> None:
    """Write a file so that readers, and a kill at any moment, see the old content or the new one.

    Makes the parent folders. Text is written as UTF-8.

    Raises:
        UserError: If the system refuses; the old content stays.
    """
    path = Path(path)
    draft = _draft(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        with suppress(OSError):
            draft.unlink()


def lock_folder(path: Path) -> BaseFileLock:
    """Lock a folder that is there against every other process.

    Returns:
        The lock, held; the system lets go of it when the process ends, however it ends.

    Raises:
        UserError: If another process has it.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise UserError(
            f"another process is running in {path}; wait for it or use another --out folder"
        ) from None
    return lock


@contextmanager
def replace_folder(path: Path | str) -> Generator[Path]:
    """Yield an empty folder to fill; it takes the place of ``path`` when the block ends well.

    After a kill at any moment :func:`whole_folder` finds the old content or the new one. An
    exception in the block leaves the old content.

    Raises:
        UserError: If the disk is full, or the system refuses to put the new folder in place.
    """
    path = Path(path)
    whole_folder(path)
    draft = _draft(path)
    try:
        with room_for(path):
            draft.mkdir(parents=True)
            yield draft
        try:
            _sync_tree(draft)
            _swap(draft, path)
        except OSError as error:
            raise cannot_write(path, error) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def whole_folder(path: Path | str) -> Path | None:
    """Return ``path`` if :func:`replace_folder` ever completed it, else None.

    Mends what a kill between the two renames of a replacement left; so call it only where nobody
    is replacing the folder at the same time.
    """
    path = Path(path)
    spare = _spare(path)
    if path.is_dir():
        shutil.rmtree(spare, ignore_errors=True)
    elif spare.is_dir():
        spare.replace(path)
    return path if path.is_dir() else None


def _spare(path: Path) -> Path:
    return path.with_name(f".{path.name}.old")


def _swap(draft: Path, path: Path) -> None:
    """Rename twice, since no portable call exchanges folders; whole_folder mends a kill between."""
    if path.is_dir():
        path.replace(_spare(path))
    draft.replace(path)
    _sync_folder(path.parent)
    shutil.rmtree(_spare(path), ignore_errors=True)


def _sync_tree(folder: Path) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            with file.open("rb+") as opened:
                os.fsync(opened.fileno())
        else:
            _sync_folder(file)
    _sync_folder(folder)


def remove_drafts(folder: Path) -> None:
    """Delete what killed writes left below ``folder``; only for its one writer."""
    for draft in list(folder.rglob(".*.tmp")):
        with suppress(OSError):
            if draft.is_dir():
                shutil.rmtree(draft)
            else:
                draft.unlink(missing_ok=True)


def cache_dir(dist: str) -> Path:
    """Return the folder for files of the distribution ``dist`` that can be made again.

    ``$ICML_CACHE/<dist>`` where that is set, else ``icml/<dist>`` in the platform's cache folder.
    The folder need not exist yet.
    """
    if chosen := os.environ.get("ICML_CACHE"):
        return Path(chosen).expanduser() / dist
    return _platform_cache() / "icml" / dist


def _platform_cache() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says to ignore a relative path.
    return Path(chosen) if Path(chosen).is_absolute() else Path.home() / ".cache"
