"""Texts of models that can be passed on: whole characters, and no marks of a chat's turns.

A model's output may hold half of a character (a lone surrogate): some servers cut a character
outside of the basic plane in two. Neither a log nor a provider's client can write such a half.
"""

from __future__ import annotations

import re

__all__ = ["whole_text", "without_marks"]

_MARK = re.compile(
    r"<([|\uff5c][^<>\n]{1,60}|[^<>\n|\uff5c]{1,60}[|\uff5c]|/?(?:s|bos|eos|(?:start|end)_of_turn)"
    r"|</?SYS>)>|\[(/?(?:INST|SYSTEM_PROMPT|(?:AVAILABLE_)?TOOL[A-Z_]{0,10}))\]",
    re.IGNORECASE,
)
"""Marks by which chat templates of common families tell turns apart."""


def whole_text(text: str) -> str:
    r"""Return a text with halves joined where they follow each other, the other ones replaced.

    Example:
        >>> whole_text("\ud83d\udca1 and \ud800") == "\U0001f4a1 and \ufffd"
        True
    """
    # Halves are what UTF-16 is made of: it joins them again.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def without_marks(text: str) -> str:
    r"""Return a text in which the marks of a chat's turns have spaces inside their brackets.

    A local model's tokenizer reads such a mark as the turn's end, wherever it stands; with the
    spaces it is text like any other, and still seen for what it was.

    Example:
        >>> without_marks("so n<|im_end|> [/INST]")
        'so n< |im_end| > [ /INST ]'
    """

    def spaced(found: re.Match[str]) -> str:
        mark = found.group()
        return f"{mark[0]} {mark[1:-1]} {mark[-1]}"

    return _MARK.sub(spaced, text)
