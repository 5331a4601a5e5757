"""Reads agents' logs from files that nobody vouches for, an episode at a time.

JSON Lines, where a line is

- an episode: an object with ``messages`` (or ``history``), or a list of messages;
- one call of a model: ``messages`` or ``request.messages`` with the ``response``; calls whose
  history grows are one episode, the last of them counts;
- one message: the file is then one episode.

A ``.json`` file holds one episode or a list of them. The logs of inspect-ai, ``.eval`` and
``.json``, are read by its own reader (`inspect_logs`).

What can't be read is skipped and counted. No text of a log is ever quoted.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from icml.agent_omit.messages import BadEpisode, message_text
from icml.core.errors import UserError

__all__ = ["MOST_BYTES", "Found", "read_log"]

MOST_BYTES = 64 * 2**20  # ours: of what must be in memory at once, a line or a JSON file
_HEAD = 65536
_NAMES = ("messages", "history")


class Found(NamedTuple):
    """An episode of a log, or the reason why there is none."""

    messages: Sequence[Any] = ()
    skipped: str = ""
    """Why; empty for an episode."""
    place: str = ""
    """Where in the file, such as ``line 7``."""


def read_log(path: Path) -> Iterator[Found]:
    """Yield the episodes of a log, of which one is in memory at a time.

    Raises:
        UserError: If there is no such file, or it is no log at all.
        MissingExtra: If it is inspect-ai's and that is not installed.
    """
    try:
        if not path.is_file():
            what = "is a folder" if path.is_dir() else "is no file"
            raise UserError(f"{path} {what}: give a log, as .jsonl, .json or .eval")
        if path.suffix == ".eval":
            yield from _inspect(path)
        elif path.suffix == ".json":
            yield from _json(path)
        else:
            with path.open("rb") as file:
                _check_text(path, file)
                yield from _merged(_lines(file))
    except OSError as error:
        raise UserError(f"can't read {path}: {error.strerror or error}") from error


def _inspect(path: Path) -> Iterator[Found]:
    from icml.agent_omit.inspect_logs import read_inspect

    return read_inspect(path)


def _check_text(path: Path, file: io.BufferedReader) -> None:
    if b"\0" in file.peek(_HEAD)[:_HEAD]:
        raise UserError(f"{path} is no text: a log is JSON Lines, JSON or inspect-ai's .eval")


def _json(path: Path) -> Iterator[Found]:
    if path.stat().st_size > MOST_BYTES:
        most = MOST_BYTES // 2**20
        raise UserError(
            f"{path} is larger than {most} MiB, all of which would be in memory: write it as JSON "
            "Lines, an episode a line"
        )
    with path.open("rb") as file:
        _check_text(path, file)
        value, reason = _parse(file.read())
    if isinstance(value, Mapping) and "eval" in value and "status" in value:
        yield from _inspect(path)
    elif reason:
        raise UserError(f"{path}: {reason}")
    elif isinstance(value, list) and value and not _is_message(value[0]):
        records = ((f"entry {number}", record, "") for number, record in enumerate(value, 1))
        yield from _merged(records)
    else:
        yield from _merged([("the file", value, "")])


def _lines(file: io.BufferedReader) -> Iterator[tuple[str, Any, str]]:
    """Yield place, value and what is wrong of each line that isn't empty."""
    number = 0
    while line := file.readline(MOST_BYTES):
        number += 1
        place = f"line {number}"
        if len(line) == MOST_BYTES and not line.endswith(b"\n"):
            while (rest := file.readline(MOST_BYTES)) and not rest.endswith(b"\n"):
                pass
            yield place, None, f"a line is longer than {MOST_BYTES // 2**20} MiB"
        elif line.strip():
            value, reason = _parse(line)
            cut = reason and not line.endswith(b"\n")
            yield place, value, "the last line is cut off" if cut else reason


def _parse(data: bytes) -> tuple[Any, str]:
    """Return the value, and what is wrong, without a word of the data."""
    try:
        return json.loads(data.decode("utf-8-sig")), ""
    except UnicodeDecodeError:
        return None, "a line is not UTF-8"
    except RecursionError:
        return None, "values are nested too deeply"
    except ValueError:  # besides bad syntax: numbers of thousands of digits
        return None, "a line is not JSON"


def _merged(records: Iterable[tuple[str, Any, str]]) -> Iterator[Found]:
    """Yield episodes: calls whose history grows are one, and so are lines of one message each."""
    waiting: Found | None = None
    said: list[str] = []
    lines: list[Any] = []
    size = 0
    for place, record, reason in records:
        if reason:
            yield Found(skipped=reason, place=place)
        elif _is_message(record):
            size += len(_text_of(record))
            if size > MOST_BYTES:
                raise UserError(
                    f"the messages of one episode have more than {MOST_BYTES} characters"
                )
            lines.append(record)
        else:
            try:
                messages = _messages(record)
            except BadEpisode as error:
                yield Found(skipped=str(error), place=place)
                continue
            says = [_text_of(message) for message in messages]
            grown = len(says) > len(said) and says[: len(said)] == said
            if waiting is not None and not grown:
                yield waiting
            waiting, said = Found(messages, place=place), says
    if waiting is not None:
        yield waiting
    if lines:
        yield Found(lines, place="the file")


def _text_of(message: Any) -> str:
    """Return a message's text, or none where it has none that can be read."""
    try:
        return message_text(message) if isinstance(message, Mapping) else ""
    except (BadEpisode, RecursionError):
        return ""


def _is_message(record: Any) -> bool:
    return isinstance(record, Mapping) and "role" in record


def _messages(record: Any) -> list[Any]:
    """Return the messages of a record, the response of a call at their end."""
    if isinstance(record, list):
        return record
    if not isinstance(record, Mapping):
        raise BadEpisode("a line is neither an object nor a list")
    request = record.get("request")
    holder = request if isinstance(request, Mapping) else record
    found = next((holder[name] for name in _NAMES if name in holder), None)
    if not isinstance(found, list):
        raise BadEpisode("a line has no list of messages")
    return [*found, *_response(record.get("response", record))]


def _response(response: Any) -> list[Any]:
    """Return the first choice's message of a logged response."""
    choices = response.get("choices") if isinstance(response, Mapping) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        return []
    message = choices[0].get("message")
    return [{"role": "assistant", **message}] if isinstance(message, Mapping) else []
