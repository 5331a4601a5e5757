"""What a model and its rows must be before anything is computed: finite, of one vocabulary.

A weight that is no number makes every rate a number all the same (the likeliest token of NaN
logits is the first), and a token without an embedding is an error from deep inside of torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from icml.core.errors import UserError
from icml.core.models.answers import AnswerBatch

__all__ = ["check_batches", "check_weights"]


def check_weights(model: Any) -> None:
    """Refuse weights that are no numbers; reads each once, about a second for 500 MB.

    Raises:
        UserError: If one is NaN or infinite; names the first parameter that has such.
    """
    wrong: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        bad = parameter.numel() - int(torch.isfinite(parameter.detach()).sum())
        wrong |= {name: bad} if bad else {}
    if wrong:
        name, bad = next(iter(wrong.items()))
        others = f", and some of {len(wrong) - 1} other parameters" if len(wrong) > 1 else ""
        raise UserError(
            f"{bad} weights of {name} are NaN or infinite{others}: the model is damaged or its "
            "training went wrong; take another checkpoint"
        )


def check_batches(model: Any, batches: Mapping[Any, AnswerBatch]) -> None:
    """Refuse tokens that a model has no embedding for, and rows longer than it can read.

    Args:
        model: A causal model of transformers.
        batches: By any name; row i of each is counted as row i.

    Raises:
        UserError: If a token id is outside of the vocabulary; or if places are embedded, as in
            GPT-2, and there are fewer than tokens.
    """
    words = model.get_input_embeddings().num_embeddings
    places = getattr(model.config, "n_positions", None)  # rotary places have no table that ends
    for batch in batches.values():
        outside = (batch.ids < 0) | (batch.ids >= words)
        if bool((outside & batch.mask).any()):
            row, column = (outside & batch.mask).nonzero()[0].tolist()
            raise UserError(
                f"row {row} holds the token {int(batch.ids[row, column])}, this model's "
                f"vocabulary is 0 to {words - 1}: give the model's own tokenizer, or its ids"
            )
        if bool(outside.any()):
            raise UserError(
                f"the tokenizer fills rows up with the token {int(batch.ids[outside][0])}, this "
                f"model's vocabulary is 0 to {words - 1}: set tokenizer.pad_token = "
                "tokenizer.eos_token"
            )
        if places is not None and batch.ids.shape[1] > places:
            raise UserError(
                f"a row has {batch.ids.shape[1]} tokens, this model reads {places}: lower "
                "max_len or shorten the row"
            )
