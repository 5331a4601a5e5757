"""Supervised fine-tuning on edited histories through TRL's ``SFTTrainer``.

Each segment of an episode is a row; the loss is on the outputs in it and on nothing else, so every
output token is learnt once, under the context in which it was written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icml.agent_omit.segments import Segment, to_segments
from icml.core.errors import UserError
from icml.core.journal import write_atomic
from icml.core.rl.episodes import Trajectory

if TYPE_CHECKING:
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

__all__ = ["as_dataset", "read_rows", "segment_row", "segment_rows", "sft_trainer", "write_rows"]

_NAMES = ("input_ids", "completion_mask")

Row = dict[str, Any]
"""``input_ids`` and ``completion_mask``, lists of one length, and whatever tells rows apart."""


def segment_row(segment: Segment) -> Row:
    """Return a segment as TRL takes it: its ids, and 1 for each token to be learnt."""
    read = [0] * len(segment.prompt_ids)
    return {
        "input_ids": segment.prompt_ids + segment.ids,
        "completion_mask": read + segment.loss_mask,
    }


def segment_rows(episodes: Iterable[Trajectory]) -> list[Row]:
    """Return the rows of episodes."""
    return [segment_row(segment) for episode in episodes for segment in to_segments(episode)]


def as_dataset(rows: Sequence[Mapping[str, Any]]) -> Dataset:
    """Return rows as a data set for ``SFTTrainer``."""
    from datasets import Dataset

    return Dataset.from_dict({name: [list(row[name]) for row in rows] for name in _NAMES})


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as JSON Lines."""
    write_atomic(path, "".join(json.dumps(row) + "\n" for row in rows))


def read_rows(path: Path) -> list[Row]:
    """Read what `write_rows` wrote.

    Raises:
        UserError: If the file can't be read or a line is no row; the message has its number.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"can't read {path}: {error}") from error
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise UserError(f"{path}, line {number} is not JSON") from None
        rows.append(_checked(row, f"{path}, line {number}"))
    if not rows:
        raise UserError(f"there are no rows in {path}")
    return rows


def _checked(row: Any, where: str) -> Row:
    ids, mask = (row.get(n) if isinstance(row, dict) else None for n in _NAMES)
    if not isinstance(ids, list) or not isinstance(mask, list) or len(ids) != len(mask):
        raise UserError(f"{where}: input_ids and completion_mask must be lists of one length")
    if not all(type(token) is int and token >= 0 for token in ids):
        raise UserError(f"{where}: input_ids must be token ids")
    if set(mask) - {0, 1} or 1 not in mask:
        raise UserError(f"{where}: completion_mask must be 0 and 1, with a 1 for what is learnt")
    return row


def sft_trainer(
    model: Any, tokenizer: Any, rows: Sequence[Mapping[str, Any]], config: SFTConfig
) -> SFTTrainer:
    """Return a ``trl.SFTTrainer`` for rows.

    Args:
        model: Of transformers.
        tokenizer: Its tokenizer.
        rows: See `segment_rows`.
        config: TRL's; ``completion_only_loss`` is set.

    Raises:
        UserError: If a row is longer than ``max_length``, which would cut it without a word, has
            an id that the model doesn't know, or ``packing`` is asked for.
    """
    from trl import SFTTrainer

    longest = max(len(row["input_ids"]) for row in rows)
    if config.max_length is not None and longest > config.max_length:
        raise UserError(
            f"the longest row has {longest} tokens and max_length is {config.max_length}: it would "
            "be cut; set max_length"
        )
    known = model.get_input_embeddings().num_embeddings
    largest = max(max(row["input_ids"]) for row in rows)
    if largest >= known:
        raise UserError(
            f"a row has the token id {largest}, the model knows {known}: the rows were made with "
            "another tokenizer"
        )
    if config.packing:
        raise UserError("packing joins rows whose contexts differ: set packing to false")
    config.completion_only_loss = True
    return SFTTrainer(
        model=model, args=config, train_dataset=as_dataset(rows), processing_class=tokenizer
    )
