"""Examples as token ids: what a model reads, and the answer, which alone is learnt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from icml.core.errors import UserError
from icml.core.models.chat import apply_template, split_turns

__all__ = ["Row", "encode", "thoughtless", "writes_thoughts"]

Row = dict[str, list[int]]
"""``input_ids``, and ``completion_mask``: 1 for the tokens of the answer."""


def encode(rows: Iterable[Mapping[str, Any]], tokenizer: Any, max_length: int | None) -> list[Row]:
    """Write examples in a model's chat template.

    The request is cut into tokens as it is when the model is asked, and the answer by itself: no
    token reaches over the seam.

    Args:
        rows: Of `icml.brokenmath.sft.build_sft`.
        tokenizer: With a chat template.
        max_length: The longest example, in tokens; None for any length.

    Raises:
        UserError: If there is no chat template, it refuses the messages, it writes a request
            otherwise once it is answered, or an example is too long, which would cut its end off.
    """
    if not tokenizer.chat_template:
        raise UserError("the tokenizer has no chat template: name a model that chats")
    found = [_encode(row["messages"], tokenizer) for row in rows]
    lengths = [len(row["input_ids"]) for row in found]
    if max_length is not None and max(lengths) > max_length:
        longer = sum(length > max_length for length in lengths)
        raise UserError(
            f"{longer} of {len(found)} examples are longer than max_length={max_length}, the "
            f"longest has {max(lengths)} tokens: they would be cut; raise max_length"
        )
    return found


def writes_thoughts(tokenizer: Any) -> Literal["never", "if any", "always"]:
    """Say whether a chat template writes an answer's ``reasoning_content``, found by trying it.

    ``always`` is a template that writes the marks of a thought even around none.
    """
    thought = "5c9e1f"  # anything that no template holds

    def written(**more: str) -> str:
        said = {"role": "assistant", "content": "a", **more}
        messages = [{"role": "user", "content": "q"}, said]
        return "".join(apply_template(tokenizer, messages, tokenize=False).split())

    with_it = written(reasoning_content=thought)
    if thought not in with_it:
        return "never"
    return "always" if with_it.replace(thought, "") == written() else "if any"


def thoughtless(rows: Iterable[Mapping[str, Any]]) -> int:
    """Count the examples whose answer has no thoughts, neither apart nor in its text."""
    said = [row["messages"][-1] for row in rows]
    # Templates that write thoughts take what stands before this mark of a text for them.
    return sum(not m.get("reasoning_content") and "</think>" not in m["content"] for m in said)


def _encode(given: list[dict[str, Any]], tokenizer: Any) -> Row:
    # A data set has all keys in all messages: None where one wasn't given.
    messages = [{name: v for name, v in each.items() if v is not None} for each in given]
    read, learnt = split_turns(tokenizer, messages[:-1], messages[-1:])
    return {"input_ids": read + learnt, "completion_mask": [0] * len(read) + [1] * len(learnt)}
