"""Options of tasks, solvers and scorers, checked when these are built: before anybody is asked.

They come from a command line that reads YAML, so that a number may arrive as a text, a word as a
number, and a comma makes a list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from icml.core.errors import UserError

__all__ = ["SEEDS", "checked_flag", "checked_text", "checked_whole", "checked_word"]

SEEDS = 2**31
"""Seeds lie below (ours): every provider that takes seeds takes these."""

Word = TypeVar("Word", bound=str)


def checked_whole(name: str, value: object, *, least: int, most: int) -> int:
    """Return a whole number within limits; ``4.0`` is 4.

    Args:
        name: Of the option, for the message.
        value: As it was given.
        least: Smallest that makes sense.
        most: Largest.

    Raises:
        UserError: If it is no such number: a text, a truth value, a fraction, or outside.

    Example:
        >>> checked_whole("votes", 3.0, least=1, most=100)
        3
    """
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(number, bool) or not isinstance(number, int):
        raise UserError(f"{name} must be a whole number from {least} to {most}, got {shown(value)}")
    if not least <= number <= most:
        raise UserError(f"{name} must be at least {least} and at most {most}, got {shown(value)}")
    return number


def checked_text(name: str, value: object, wanted: str) -> str:
    """Return a text that says something.

    Args:
        name: Of the option, for the message.
        value: As it was given.
        wanted: What the text has to be, for the message.

    Raises:
        UserError: If it is no text, or an empty one.
    """
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"{name} must be {wanted}, got {shown(value)}")
    return value


def checked_word(name: str, value: object, words: Sequence[Word]) -> Word:
    """Return the one of some words that was given.

    Raises:
        UserError: If it is none of them.
    """
    for word in words:
        if isinstance(value, str) and value == word:
            return word
    raise UserError(f"{name} must be one of {', '.join(words)}, got {shown(value)}")


def checked_flag(name: str, value: object) -> bool:
    """Return a truth value.

    Raises:
        UserError: If it is none; numbers and texts are not taken for one.
    """
    if not isinstance(value, bool):
        raise UserError(f"{name} must be true or false, got {shown(value)}")
    return value


def shown(value: object) -> str:
    """Return what was given as a message shows it, at most 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
