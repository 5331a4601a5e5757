"""How a language model with a tokenizer reads statements and writes answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from icml.wzllm.training.learner import Writing
from icml.wzllm.training.statements import Statement

__all__ = ["plain", "question", "writing"]


def question(tokenizer: Any, prompt: str, statement: str) -> Any:
    """Return a statement as TRL takes prompts: messages where there is a chat template, or text."""
    text = prompt.replace("{statement}", statement)
    return text if tokenizer.chat_template is None else [{"role": "user", "content": text}]


def plain(completion: Any) -> str:
    """Return the text of a completion, which is a string or a list of messages."""
    if isinstance(completion, str):
        return completion.strip()
    return "".join(str(message.get("content") or "") for message in completion).strip()


def writing(tokenizer: Any, prompt: str, longest: int) -> Writing[Statement]:
    """Return how a model's tokenizer writes statements and answers, as TRL does.

    Args:
        tokenizer: Of transformers, with an end token.
        prompt: A recipe's, with ``{statement}`` in it.
        longest: Longest answer, in tokens.
    """
    eos_id = tokenizer.eos_token_id

    def prompt_ids(statement: Statement) -> list[int]:
        asked = question(tokenizer, prompt, str(statement.identity))
        if isinstance(asked, str):
            return list(tokenizer(asked)["input_ids"])
        text = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    def answer_ids(text: str) -> list[int]:
        return [*tokenizer(text, add_special_tokens=False)["input_ids"], eos_id]

    def answer_text(ids: Sequence[int]) -> str | None:
        if not len(ids) or ids[-1] != eos_id:
            return None  # cut off
        return tokenizer.decode(ids, skip_special_tokens=True).strip() or None

    return Writing(prompt_ids, answer_ids, answer_text, longest, eos_id)
