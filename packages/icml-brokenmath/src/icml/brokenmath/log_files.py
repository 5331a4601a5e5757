"""Which logs are meant: files, or what a folder holds of our tasks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from icml.brokenmath.answers import Answers, NotOurs, read_answers
from icml.core.errors import UserError

__all__ = ["Logs", "find_logs"]


class Logs(NamedTuple):
    """What some files and folders hold."""

    logs: list[Answers]
    """As they were given, and of a folder by name."""
    left_out: list[str]
    """Of a folder's other logs, why each was left out."""


def find_logs(paths: Sequence[Path]) -> Logs:
    """Read logs; of a folder those ``.eval`` files that hold answers to our tasks.

    A folder is often that of all evals, so that logs of other tasks, and of evals that failed
    before the first answer, are left out of it and named. A file that can't be read may be one of
    ours: it is refused.

    Raises:
        NotOurs: If a file that is named itself is no log of ours.
        UserError: If a file can't be read, a log is given twice, or a folder holds none.
        MissingExtra: If inspect-ai is not installed.
    """
    found: list[Answers] = []
    left_out: list[str] = []
    for path in paths:
        if not path.is_dir():
            found.append(read_answers(path))
            continue
        before = len(found)
        others: list[str] = []
        for file in sorted(path.glob("*.eval")):
            try:
                found.append(read_answers(file))
            except NotOurs as error:
                others.append(str(error))
        if len(found) == before:
            raise UserError(_nothing_in(path, others))
        left_out += others
    by_digest: dict[str, Path] = {}
    for log in found:
        if log.digest in by_digest:
            raise UserError(f"a log is given twice: as {by_digest[log.digest]} and {log.path}")
        by_digest[log.digest] = log.path
    return Logs(found, left_out)


def _nothing_in(folder: Path, others: Sequence[str]) -> str:
    if others:
        more = f", and {len(others) - 1} more like it" if len(others) > 1 else ""
        return f"the folder {folder} holds no log of icml/brokenmath ({others[0]}{more})"
    hint = ": name its .json logs one by one" if any(folder.glob("*.json")) else ""
    return f"the folder {folder} holds no .eval log{hint}"
