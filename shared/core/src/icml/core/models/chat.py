"""Chats in a model's own template, which may refuse them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from icml.core.errors import UserError

__all__ = ["apply_template", "split_turns"]


def apply_template(tokenizer: Any, messages: Sequence[Mapping[str, Any]], **options: Any) -> Any:
    """Render messages as ``tokenizer.apply_chat_template`` does.

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


def split_turns(
    tokenizer: Any, asked: Sequence[Mapping[str, Any]], answered: Sequence[Mapping[str, Any]]
) -> tuple[list[int], list[int]]:
    """Return the tokens of what is asked and of the answer, each text cut into tokens by itself.

    So no token reaches over the seam, and what is asked has the tokens that a model reads when it
    is asked.

    Args:
        tokenizer: Of transformers, with a chat template.
        asked: Messages from the first on.
        answered: Those that follow.

    Returns:
        Token ids up to the answer, the template's beginning of it included, and of the rest.

    Raises:
        UserError: If the template refuses the messages, or writes what is asked otherwise once it
            is answered: a model would learn under a text that it is never asked with.
    """
    before = apply_template(tokenizer, asked, tokenize=False, add_generation_prompt=True)
    whole = apply_template(tokenizer, [*asked, *answered], tokenize=False)
    if not whole.startswith(before):
        raise UserError(
            "the chat template writes a request otherwise once it is answered, so that the model "
            "would learn under a text that it is never asked with: name another model"
        )
    first, rest = (
        list(tokenizer(text, add_special_tokens=False)["input_ids"])
        for text in (before, whole[len(before) :])
    )
    return first, rest
