"""JSON Lines that somebody else wrote: a value a line, or one sentence that names the line.

Our own files are `icml.core.journal`'s. This reader is stricter, since nobody vouches for what
comes in: JSON as RFC 8259 has it, without Python's ``NaN`` and ``Infinity``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from icml.core.errors import UserError

__all__ = ["LONGEST", "parse_json", "read_rows"]

LONGEST = 64 * 2**20
"""Bytes of a line (ours): all of it is in memory at once."""
_MARK = b"\xef\xbb\xbf"


def read_rows(path: Path | str, *, longest: int = LONGEST) -> Iterator[tuple[str, Any]]:
    r"""Yield the values of a file, one line in memory at a time; lines without any are left out.

    Lines end at ``\n`` alone, with or without ``\r``: texts may hold other line ends, such as
    U+2028, which JSON leaves as they are. A byte order mark at the file's start is no part of it.

    Args:
        path: The file.
        longest: Bytes of a line, its end included, above which it is refused.

    Yields:
        Where it stands, ``line 3 of rows.jsonl``, for a message of the caller's; and the value.

    Raises:
        UserError: If the file can't be read, or a line is not UTF-8, too long, or not JSON as
            `parse_json` reads it. Values of lines before it have been yielded by then.
    """
    try:
        with Path(path).open("rb") as file:
            number = 0
            while line := file.readline(longest + 1):
                number += 1
                place = f"line {number} of {path}"
                if len(line) > longest:
                    raise UserError(f"{place} has more than {longest} bytes")
                text = _decoded(line.removeprefix(_MARK) if number == 1 else line, place)
                if text.strip():
                    yield place, parse_json(text, place)
    # An open() also refuses a name with a null character, by a bare ValueError.
    except (OSError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path} can't be read: {error}") from error


def parse_json(text: str, place: str) -> Any:
    """Return the value of a JSON text; ``place`` is what a message calls it.

    Raises:
        UserError: If it is no JSON, has one of the words NaN, Infinity and -Infinity, a whole
            number of more digits than Python converts, or is nested too deeply.

    Example:
        >>> parse_json('{"prompt": "2 + 2 is"}', "line 1")
        {'prompt': '2 + 2 is'}
    """
    try:
        return json.loads(text, parse_constant=_no_number)
    except RecursionError as error:
        raise UserError(f"{place} is no JSON that can be read: it is nested too deeply") from error
    except ValueError as error:
        raise UserError(f"{place} is no JSON: {error}") from error


def _decoded(line: bytes, place: str) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{place} can't be read: it is no UTF-8 text (byte {error.start + 1})"
        ) from error


def _no_number(word: str) -> None:
    raise ValueError(f"it knows no {word}")
