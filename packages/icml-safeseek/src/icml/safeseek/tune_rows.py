"""Rows to tune on as tokens, checked before training: what would be cut off is said first."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from icml.core.errors import UserError
from icml.core.models.chat import split_turns
from icml.safeseek.batches import MOST_CUT

__all__ = ["LONGEST", "TuneRow", "tune_rows"]

LONGEST = 1024
"""Tokens of a row that are trained on, TRL's default."""

TuneRow = dict[str, list[int]]
"""``input_ids``, and ``completion_mask``: 1 for the tokens of the completion, which are learnt."""


def tune_rows(
    model: Any, tokenizer: Any, rows: Sequence[Mapping[str, Any]], longest: int = LONGEST
) -> list[TuneRow]:
    """Return rows as TRL's ``SFTTrainer`` takes them when it is to cut no text itself.

    Prompt and completion are cut into tokens apart, as in the search for circuits and as in use: a
    completion's beginning isn't merged with the prompt's end. A completion of text gets the
    end-of-text token, one of messages what the chat template writes.

    Args:
        model: A causal model of transformers.
        tokenizer: Its tokenizer.
        rows: With ``prompt`` and ``completion``, texts or chat messages.
        longest: Tokens kept a row; a model with a table of places may read fewer.

    Returns:
        The rows that have a completion left within these tokens; with a warning if any loses its
        end.

    Raises:
        UserError: If a token has no embedding, the chat template refuses a row, the tokenizer has
            no end-of-text token for texts, or more than `MOST_CUT` of the rows lose their whole
            completion.
    """
    words = model.get_input_embeddings().num_embeddings
    longest = min(longest, getattr(model.config, "n_positions", longest))
    found, cut = [], 0
    for number, row in enumerate(rows, 1):
        before, after = _tokens(tokenizer, row, number)
        if max([*before, *after], default=0) >= words:
            raise UserError(
                f"row {number} holds the token {max([*before, *after])}, this model's vocabulary "
                f"is 0 to {words - 1}: save the model's own tokenizer beside it"
            )
        cut += len(before) + len(after) > longest
        if len(before) < longest:
            mask = [0] * len(before) + [1] * len(after)
            found.append(
                {"input_ids": [*before, *after][:longest], "completion_mask": mask[:longest]}
            )
    lost = len(rows) - len(found)
    if lost > MOST_CUT * len(rows):
        raise UserError(
            f"{lost} of {len(rows)} rows have no completion left within {longest} tokens: shorten "
            "the prompts"
        )
    if cut:
        warnings.warn(
            f"{cut} of {len(rows)} rows are longer than {longest} tokens and lose their end"
            + (f"; {lost} of them lose the whole completion and are left out" if lost else ""),
            stacklevel=2,
        )
    return found


def _tokens(tokenizer: Any, row: Mapping[str, Any], number: int) -> tuple[list[int], list[int]]:
    """Return the tokens of a row's prompt, and of its completion."""
    prompt, completion = row["prompt"], row["completion"]
    if not isinstance(prompt, str):
        try:
            return split_turns(tokenizer, prompt, completion)
        except UserError as error:
            raise UserError(f"row {number}: {error}") from error
    if tokenizer.eos_token_id is None:
        raise UserError("the tokenizer has no end-of-text token: give it one, or rows of messages")
    after = tokenizer(completion, add_special_tokens=False).input_ids
    return list(tokenizer(prompt).input_ids), [*after, tokenizer.eos_token_id]
