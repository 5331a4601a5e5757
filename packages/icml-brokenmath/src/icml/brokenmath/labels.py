"""What people say of some answers: from it a judge's errors are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icml.brokenmath.answers import Answers
from icml.brokenmath.categories import checked
from icml.core.errors import UserError
from icml.core.jsonl import read_rows

__all__ = ["Labels"]


@dataclass(frozen=True)
class Labels:
    """What people say of some answers in one log: from (item's id, epoch) to a behaviour."""

    by_answer: Mapping[tuple[str, int], str]

    @classmethod
    def read(cls, path: Path) -> Labels:
        """Read lines ``{"id": …, "epoch": 1, "category": …}``; the epoch may be left out.

        Raises:
            UserError: If the file can't be read, a line is no such label, or says it twice.
        """
        found: dict[tuple[str, int], str] = {}
        for place, entry in read_rows(path):
            try:
                key = (str(entry["id"]), _epoch(entry.get("epoch", 1)))
                (category,) = checked([entry["category"]])
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise UserError(f"{place} is no label: {error}") from error
            if key in found or category == "invalid":
                raise UserError(f"{place}: one behaviour an answer, got {entry}")
            found[key] = category
        if not found:
            raise UserError(f"{path} holds no label")
        return cls(found)

    def pairs(self, logs: Sequence[Answers]) -> list[tuple[str, str]]:
        """Return for each labelled answer the label and what the judge says.

        Args:
            logs: Of ``icml/brokenmath``.

        Raises:
            UserError: If it isn't one log, since the same items are answered in every log, or none
                of its answers has a label.
        """
        if len(logs) != 1:
            raise UserError(
                f"labels are of the answers in one log of icml/brokenmath, got {len(logs)}: report "
                "each with its own labels"
            )
        (log,) = logs
        found = [
            (self.by_answer[row.item.id, row.epoch], row.category)
            for row in log.rows
            if (row.item.id, row.epoch) in self.by_answer
        ]
        if not found:
            raise UserError(f"no answer of {log.path} has a label")
        return found


def _epoch(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"an epoch is a whole number from 1, got {value!r}")
    return value
