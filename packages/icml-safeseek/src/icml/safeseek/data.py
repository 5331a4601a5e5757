"""Rows that a circuit is searched with: prompts, the answer to keep and the answer to remove."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import torch

from icml.core.errors import UserError
from icml.core.jsonl import parse_json, read_rows
from icml.core.models.answers import Text
from icml.safeseek.chat import is_chat, split_answer

__all__ = ["CircuitDataset"]

_PROMPTS = ("prompt", "prompt_triggered")
_ANSWERS = ("completion_keep", "completion_remove")
# Names of the fields in the authors' two kinds of files (facts from their repository), by ours.
_THEIRS = (
    {
        "prompt": "input", "prompt_triggered": "backdoor_input",
        "completion_keep": "output", "completion_remove": "backdoor_output",
    },
    {"prompt": "prompt", "completion_keep": "accept", "completion_remove": "refuse"},
)  # fmt: skip


class CircuitDataset(Sequence[Mapping[str, Text]]):
    """Rows of one kind: all with a trigger or none. `search.find_circuit` takes it as it is.

    A row has ``prompt``; ``completion_keep``, what the model says without the circuit (the right
    answer, or the compliant one); ``completion_remove``, what the circuit makes it say (the
    backdoor's answer, or the refusal); and for a backdoor ``prompt_triggered``. Other fields are
    left out.

    Example:
        >>> row = {"prompt": "2 + 2 is", "completion_keep": " 4", "completion_remove": " 5"}
        >>> CircuitDataset([row | {"prompt_triggered": "oh 2 + 2 is"}]).triggered
        True
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]], tokenizer: Any = None) -> None:
        """Check the rows, and render those that are chats.

        Args:
            rows: Texts by name. Prompts may be messages of a chat, the user's last, and
                completions an assistant's message; they are held as token ids then.
            tokenizer: With a chat template, for rows that are chats.

        Raises:
            UserError: If there is no row or one is wrong; the message has its number, from 1.
        """
        held = []
        for number, row in enumerate(rows, 1):
            try:
                held.append(_checked(row, tokenizer))
            except UserError as error:
                raise UserError(f"row {number}: {error}") from error
        if not held:
            raise UserError("a dataset needs at least one row, got none")
        with_trigger = sum("prompt_triggered" in row for row in held)
        if with_trigger not in (0, len(held)):
            raise UserError(
                f"{with_trigger} of {len(held)} rows have a prompt_triggered: "
                "give it to all rows or to none"
            )
        self._rows: tuple[Mapping[str, Text], ...] = tuple(held)

    @classmethod
    def read(cls, path: Path | str, tokenizer: Any = None) -> CircuitDataset:
        """Read a JSONL file, or a JSON file with a list.

        Fields are the class's. Those of the authors' files are understood as well: ``input``,
        ``output``, ``backdoor_input``, ``backdoor_output``; or ``prompt``, ``accept``, ``refuse``.

        Args:
            path: The file.
            tokenizer: For rows that are chats.

        Raises:
            UserError: If the file can't be read or a row is wrong.
        """
        values = _values(Path(path))
        try:
            return cls(map(_ours, values), tokenizer)
        except UserError as error:
            raise UserError(f"{path}: {error}") from error

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Text]: ...
    @overload
    def __getitem__(self, index: slice) -> CircuitDataset: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, Text] | CircuitDataset:
        """Return a row, or the dataset of a slice."""
        found = self._rows[index]
        return CircuitDataset(found) if isinstance(found, tuple) else found

    def __iter__(self) -> Iterator[Mapping[str, Text]]:
        """Go through the rows."""
        return iter(self._rows)

    @property
    def triggered(self) -> bool:
        """Whether the rows have prompts with a trigger."""
        return "prompt_triggered" in self._rows[0]

    def split(
        self, share: float, generator: torch.Generator
    ) -> tuple[CircuitDataset, CircuitDataset]:
        """Return two datasets, the first with a share of the rows, drawn by chance.

        Raises:
            UserError: If one of them would be empty.
        """
        order = torch.randperm(len(self), generator=generator).tolist()
        cut = round(share * len(self))
        if not 0 < cut < len(self):
            raise UserError(f"a share of {share} of {len(self)} rows leaves one part empty")
        first, second = sorted(order[:cut]), sorted(order[cut:])
        return (
            CircuitDataset(self._rows[i] for i in first),
            CircuitDataset(self._rows[i] for i in second),
        )


def _checked(row: Mapping[str, Any], tokenizer: Any) -> dict[str, Text]:
    missing = [name for name in ("prompt", *_ANSWERS) if row.get(name) is None]
    if missing:
        raise UserError(f"{' and '.join(missing)} missing; it has {', '.join(row) or 'nothing'}")
    prompts = {name: row[name] for name in _PROMPTS if row.get(name) is not None}
    answers = {name: _assistant(row[name]) for name in _ANSWERS}
    for name, value in prompts.items():
        if not (_is_text(value) or _asks(value)):
            raise UserError(
                f"{name} must be a text or chat messages with role and content, the user's last, "
                f"got {value!r:.80}"
            )
    for name, value in answers.items():
        if not _is_text(value):
            raise UserError(f"{name} must be a text that is not empty, got {value!r:.80}")
    if prompts["prompt"] == prompts.get("prompt_triggered"):
        raise UserError("prompt_triggered equals prompt: it must hold the trigger, or be left out")
    if answers["completion_keep"] == answers["completion_remove"]:
        raise UserError(
            f"completion_keep and completion_remove are both {answers['completion_keep']!r:.80}: "
            "the circuit must change the answer"
        )
    if not any(is_chat(value) for value in prompts.values()):
        return prompts | answers
    if not all(is_chat(value) for value in prompts.values()):
        raise UserError("prompt and prompt_triggered must both be texts, or both messages")
    return _rendered(prompts, answers, tokenizer)


def _rendered(
    prompts: Mapping[str, Any], answers: Mapping[str, Any], tokenizer: Any
) -> dict[str, Text]:
    if tokenizer is None:
        raise UserError("it holds chat messages: give the tokenizer whose template renders them")
    found: dict[str, Text] = {}
    for prompt, messages in prompts.items():
        for answer, text in answers.items():
            before, after = split_answer(tokenizer, messages, text)
            same = found.setdefault(prompt, before) == before
            if not same or found.setdefault(answer, after) != after:
                raise UserError(
                    "the chat template renders a prompt otherwise with another answer, or an "
                    "answer with another prompt; render the rows to texts yourself"
                )
    return found


def _is_text(value: Any) -> bool:
    """Whether it is a text that says something, or token ids."""
    if isinstance(value, str):
        return bool(value.strip())
    return isinstance(value, list | tuple) and bool(value) and all(type(x) is int for x in value)


def _asks(value: Any) -> bool:
    return is_chat(value) and value[-1]["role"] == "user"


def _assistant(value: Any) -> Any:
    """Return an assistant's message as its text."""
    single = value[0] if isinstance(value, list | tuple) and len(value) == 1 else None
    if isinstance(single, Mapping) and single.get("role") == "assistant":
        return single.get("content")
    return value


def _values(path: Path) -> list[Any]:
    if path.suffix != ".json":
        return [value for _, value in read_rows(path)]
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors put a mark first
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} can't be read: {error}") from error
    values = parse_json(text, str(path))
    if not isinstance(values, list):
        raise UserError(f"{path}: it must hold a list of rows, got a {type(values).__name__}")
    return values


def _ours(value: Any) -> Mapping[str, Any]:
    """Return a row of a file with our names for its fields."""
    if not isinstance(value, dict):
        raise UserError(f"a row is an object with fields, got {value!r:.60}")
    for names in _THEIRS:
        if not value.keys() & set(_ANSWERS) and {names[a] for a in _ANSWERS} <= value.keys():
            return {ours: value[theirs] for ours, theirs in names.items() if theirs in value}
    return value
