"""Rows to tune on, measured in tokens before training: what would be cut off is said first."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import TemplateError

from icml.core.errors import UserError
from icml.safeseek.batches import MOST_CUT

__all__ = ["LONGEST", "check_lengths"]

LONGEST = 1024
"""Tokens of a row that are trained on, TRL's default."""


def check_lengths(
    model: Any, tokenizer: Any, rows: Sequence[Mapping[str, Any]], longest: int = LONGEST
) -> int:
    """Warn of rows that lose their end in training, and refuse those that can't be trained on.

    Args:
        model: A causal model of transformers.
        tokenizer: Its tokenizer.
        rows: With ``prompt`` and ``completion``, texts or chat messages.
        longest: Tokens kept a row; a model with a table of places may read fewer.

    Returns:
        Tokens that are kept a row.

    Raises:
        UserError: If a token has no embedding, the chat template refuses a row, or more than
            `MOST_CUT` of the rows lose their whole completion.
    """
    words = model.get_input_embeddings().num_embeddings
    longest = min(longest, getattr(model.config, "n_positions", longest))
    cut = lost = 0
    for number, row in enumerate(rows, 1):
        before, whole = _tokens(tokenizer, row, number)
        if whole and max(whole) >= words:
            raise UserError(
                f"row {number} holds the token {max(whole)}, this model's vocabulary is 0 to "
                f"{words - 1}: save the model's own tokenizer beside it"
            )
        cut += len(whole) > longest
        lost += len(before) >= longest
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
    return longest


def _tokens(tokenizer: Any, row: Mapping[str, Any], number: int) -> tuple[list[int], list[int]]:
    """Return the tokens of a row's prompt, and of the row."""
    prompt, completion = row["prompt"], row["completion"]
    if isinstance(prompt, str):
        texts, special = [prompt, prompt + completion], True
    else:
        try:
            texts = [
                tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True),
                tokenizer.apply_chat_template([*prompt, *completion], tokenize=False),
            ]
        except TemplateError as error:
            raise UserError(f"the chat template refuses row {number}: {error}") from error
        special = False
    before, whole = (list(tokenizer(x, add_special_tokens=special).input_ids) for x in texts)
    ended = not isinstance(prompt, str) or whole[-1:] == [tokenizer.eos_token_id]
    return before, whole if ended else [*whole, tokenizer.eos_token_id]
