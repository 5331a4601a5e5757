"""A chat model by its name, refused in one sentence where it can't be had."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from icml.core.errors import UserError, require

if TYPE_CHECKING:
    from inspect_ai.model import Model

__all__ = ["error_text", "model_named"]


def error_text(error: Exception) -> str:
    """Return what an error of inspect-ai or of a model's client says, in one plain line.

    inspect's own errors are written in rich's markup, for a terminal.
    """
    text = str(error)
    if type(error).__module__.startswith("inspect_ai."):
        from rich.errors import MarkupError
        from rich.text import Text

        with suppress(MarkupError):
            text = Text.from_markup(text).plain
    return " ".join(text.split())


def model_named(name: str, *, role: str, extra: str) -> Model:
    """Return a model of inspect-ai, for example ``openai/gpt-5-mini``.

    Args:
        name: As on inspect's command line.
        role: What it is wanted for, for the message: ``judge``.
        extra: What installs inspect-ai for the caller, for the message.

    Raises:
        MissingExtra: If inspect-ai is not installed.
        UserError: If there is no such model or its client is missing.
    """
    models: Any = require("inspect_ai.model", extra=extra)
    try:
        return models.get_model(name)
    except UserError:
        raise
    except Exception as error:  # each provider has its own
        raise UserError(f"the {role} {name!r} can't be asked: {error_text(error)}") from error
