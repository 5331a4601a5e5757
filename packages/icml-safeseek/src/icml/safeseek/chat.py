"""Where an assistant's answer begins in a rendered chat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from icml.core.errors import UserError
from icml.core.models.chat import apply_template

__all__ = ["Messages", "is_chat", "split_answer"]

Messages = Sequence[Mapping[str, str]]
"""Messages of a chat, ``{"role": ..., "content": ...}``."""


def is_chat(value: object) -> bool:
    """Whether it is messages of a chat, at least one, each with a role and a content of text."""
    return bool(value) and isinstance(value, list | tuple) and all(
        isinstance(message, Mapping)
        and all(isinstance(message.get(name), str) for name in ("role", "content"))
        for message in value
    )  # fmt: skip


def split_answer(tokenizer: Any, messages: Messages, answer: str) -> tuple[list[int], list[int]]:
    """Return the tokens of a chat up to the assistant's answer, and those of the answer.

    The chat is rendered with the answer. In an ordinary template its tokens begin with those of
    the prompt rendered alone; where they don't, because the template adds or drops text between,
    the template's own mark of the assistant's tokens decides, ``{% generation %}``. Counting the
    tokens of the prompt alone, as the authors do, would put the border at a wrong place.

    Args:
        tokenizer: With a chat template.
        messages: The user's last.
        answer: The assistant's.

    Returns:
        Token ids of the prompt, and of the answer without the end token and what follows it.

    Raises:
        UserError: If there is no chat template, it refuses the messages, or neither way shows the
            border.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise UserError("the tokenizer has no chat template: give prompts as texts, not messages")
    chat = [*messages, {"role": "assistant", "content": answer}]
    prompt = _render(tokenizer, list(messages), add_generation_prompt=True)["input_ids"]
    whole = _render(tokenizer, chat)["input_ids"]
    start = len(prompt) if whole[: len(prompt)] == prompt else _marked(tokenizer, chat)
    if start is None or start >= len(whole):
        raise UserError(
            "the chat template does not show where the answer begins: the chat with the answer "
            "doesn't start with the prompt's tokens, and no {% generation %} marks it; render the "
            "prompts to texts yourself"
        )
    before, after = whole[:start], whole[start:]
    end = tokenizer.eos_token_id
    if end in after:
        after = after[: len(after) - 1 - after[::-1].index(end)]
    return before, after


def _render(tokenizer: Any, chat: list[Mapping[str, str]], **options: Any) -> Mapping[str, Any]:
    return apply_template(tokenizer, chat, tokenize=True, return_dict=True, **options)


def _marked(tokenizer: Any, chat: list[Mapping[str, str]]) -> int | None:
    """Return where the last run of the template's assistant tokens begins, None without one."""
    if "generation" not in tokenizer.chat_template:
        return None
    mask = _render(tokenizer, chat, return_assistant_tokens_mask=True)["assistant_masks"]
    if not any(mask):
        return None
    last = len(mask) - 1 - mask[::-1].index(1)  # runs before it are earlier answers
    return last - next((i for i, on in enumerate(mask[last::-1]) if not on), last + 1) + 1
