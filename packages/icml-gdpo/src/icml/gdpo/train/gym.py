"""Questions of reasoning-gym, made by a seed, with their verifiers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import yaml

from icml.core.errors import UserError, require


def questions(source: str) -> list[dict[str, Any]]:
    """Return reasoning-gym's entries for ``chain_sum?size=64&seed=0``.

    Args:
        source: A dataset of reasoning-gym, with its options behind a question mark.

    Raises:
        UserError: If reasoning-gym doesn't know the dataset or an option.
        MissingExtra: If it is not installed.
    """
    name, _, query = source.partition("?")
    options = {key: yaml.safe_load(value) for key, value in parse_qsl(query)}
    try:
        return list(_library().create_dataset(name, **options))
    except (AssertionError, TypeError, ValueError) as error:
        raise UserError(f"reasoning_gym:{source} can't be made: {error}") from error


def verify(answer: str | None, entry: Mapping[str, Any]) -> float:
    """Return the mark, from 0 to 1, that the question's own verifier gives an answer.

    Args:
        answer: What was answered; None, no answer, is worth 0.
        entry: Of :func:`questions`.
    """
    if answer is None:
        return 0.0
    score = _library().get_score_answer_fn(entry["metadata"]["source_dataset"])
    return float(score(answer, entry))


def _library() -> Any:
    with warnings.catch_warnings():
        # A library below it compares with `is`; Python says so at the first import.
        warnings.simplefilter("ignore", SyntaxWarning)
        return require("reasoning_gym", extra="icml-gdpo[demo]")
