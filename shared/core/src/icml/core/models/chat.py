"""Chats in a model's own template, which may refuse them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from icml.core.errors import UserError

__all__ = ["apply_template"]


def apply_template(tokenizer: Any, messages: Sequence[Mapping[str, Any]], **options: Any) -> Any:
    """Render messages as ``tokenizer.apply_chat_template`` does.

    Where an answer begins in what is rendered is the caller's to find, since it depends on the
    use: tokens of a chat as a whole, or of what is asked and of the answer apart.

    Args:
        tokenizer: Of transformers, with a chat template.
        messages: From the first to the last, each with a role.
        **options: Of ``apply_chat_template``.

    Returns:
        What that returns: a text, token ids, or a mapping, by the options.

    Raises:
        UserError: If the template refuses the messages, as some do a system's, or is broken.
    """
    import jinja2

    try:
        return tokenizer.apply_chat_template(list(messages), **options)
    except jinja2.TemplateError as error:
        raise UserError(f"the chat template refuses the messages: {error}") from error
