"""Reads the logs of inspect-ai, ``.eval`` and ``.json``, by its own reader.

Needs ``pip install 'icml-agent-omit[inspect]'``.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icml.core.errors import UserError, require

if TYPE_CHECKING:
    from icml.agent_omit.logs import Found

__all__ = ["read_inspect"]

MOST_UNPACKED = 512 * 2**20  # ours: bytes of one sample


def read_inspect(path: Path) -> Iterator[Found]:
    """Yield the samples of a log, one in memory at a time for ``.eval``.

    Raises:
        UserError: If it is no such log, or a part of it would unpack to more than 512 MiB.
        MissingExtra: If inspect-ai is not installed.
    """
    from icml.agent_omit.logs import Found

    if path.suffix == ".eval":
        _check_archive(path)
    log = require("inspect_ai.log", extra="icml-agent-omit[inspect]")
    samples = _samples(log, path)
    number = 0
    while True:
        number += 1
        try:
            sample = next(samples)
        except StopIteration:
            return
        except OSError:
            raise
        # Its reader lets through whatever a damaged archive makes of zipfile, json and pydantic.
        except Exception as error:
            kind = type(error).__name__
            raise UserError(f"{path} is no log that inspect-ai can read: {kind}") from error
        messages = [_message(message) for message in sample.messages]
        yield Found(messages, place=f"sample {number}")


def _samples(log: Any, path: Path) -> Iterator[Any]:
    header = log.read_eval_log(path, header_only=True)
    if header.eval.dataset.sample_ids is None:  # an older log: only read as a whole
        yield from log.read_eval_log(path, resolve_attachments="core").samples or ()
    else:
        yield from log.read_eval_log_samples(
            path, all_samples_required=False, resolve_attachments="core"
        )


def _check_archive(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            largest = max((entry.file_size for entry in archive.infolist()), default=0)
    except zipfile.BadZipFile:
        raise UserError(f"{path} is cut off or no .eval log: it is no zip archive") from None
    if largest > MOST_UNPACKED:
        raise UserError(
            f"{path} holds a part of {largest} bytes unpacked, more than {MOST_UNPACKED}"
        )


def _message(message: Any) -> dict[str, Any]:
    """Return a message as OpenAI's interface has it."""
    said = message.model_dump(exclude_none=True)
    calls = [
        {"name": call.get("function", ""), "arguments": call.get("arguments", "")}
        for call in said.get("tool_calls", ())
    ]
    return {"role": said["role"], "content": said.get("content"), "tool_calls": calls}
