"""Text that UTF-8 can carry: a model's output may hold half of a character (a lone surrogate).

Some servers cut a character outside of the basic plane in two. Neither a log nor a provider's
client can write such a half.
"""

from __future__ import annotations

__all__ = ["whole_text"]


def whole_text(text: str) -> str:
    r"""Return a text with halves joined where they follow each other, the other ones replaced.

    Example:
        >>> whole_text("\ud83d\udca1 and \ud800") == "\U0001f4a1 and \ufffd"
        True
    """
    # Halves are what UTF-16 is made of: it joins them again.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
