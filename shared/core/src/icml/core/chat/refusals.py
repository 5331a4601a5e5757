"""Refusals that inspect's command line prints as one sentence, without the calls that led there."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from click import ClickException  # inspect's command line is made with it

from icml.core.errors import MissingExtra, UserError

__all__ = ["Refused", "in_a_sentence"]


class Refused(UserError, ClickException):
    """A `UserError` to who calls a task in Python, a sentence to who names it in a shell."""

    def __init__(self, message: str) -> None:
        """Keep the sentence where both kinds look for it."""
        ClickException.__init__(self, message)


@contextmanager
def in_a_sentence() -> Generator[None]:
    """Turn what a user can mend into `Refused`.

    Raises:
        Refused: For a `UserError` or a `MissingExtra` inside.
    """
    try:
        yield
    except (UserError, MissingExtra) as error:
        raise Refused(str(error)) from error
