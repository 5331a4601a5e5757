"""A family of statements that a tiny model can learn to prove: weighted rows of Pascal's triangle.

``sum(k,0,n,binomial(n,k)*a^k*b^(n-k)) = (a+b)^n`` for whole numbers a and b. The model reads the
digits of a and b and writes two numbers S and c, which stand for the recurrence ``f(n+1) = S f(n)``
and ``R = c k/(k-n-1)``; S = a+b, c = b is right. Digits come lowest first, in two places, since
carrying is easier that way::

    <bos> 3 0 , 4 1 =      ->      7 1 ; 4 1 <eos>          a = 3, b = 14: S = 17, c = 14
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from icml.wzllm.statement import Identity
from icml.wzllm.training.answers import judged

__all__ = ["LONGEST", "VOCABULARY", "Row", "Split", "answer_ids", "answer_text", "proves", "split"]

# The special tokens of icml.core.models.tiny, which imports torch: pad, bos, eos, unk.
VOCABULARY = ("<pad>", "<bos>", "<eos>", "<unk>", *"0123456789", ";", ",", "=")
LONGEST = 6
"""Tokens of a right answer, its end among them."""

_ID = {word: index for index, word in enumerate(VOCABULARY)}


@dataclass(frozen=True, order=True)
class Row:
    """One statement of the family; a task of `icml.core.rl.loop`."""

    a: int
    """1 to 49."""
    b: int
    """1 to 49."""

    @property
    def prompt_ids(self) -> list[int]:
        """The statement for the model: seven tokens."""
        return _ids(["<bos>", *_digits(self.a), ",", *_digits(self.b), "="])

    @cached_property
    def identity(self) -> Identity:
        """The statement for the judge."""
        a, b = self.a, self.b
        return Identity.parse(f"sum(k,0,n,binomial(n,k)*{a}^k*{b}^(n-k)) = ({a}+{b})^n")

    @property
    def truth(self) -> str:
        """The right answer, as `answer_text` gives it."""
        return f"{self.a + self.b};{self.b}"


@dataclass(frozen=True)
class Split:
    """The statements, each with its mirror image (a and b exchanged) on the same side."""

    seed_rows: tuple[Row, ...]
    """Those that come with a certificate of the symbolic search."""
    pool: tuple[Row, ...]
    """Those that may be trained on, the former among them."""
    held_out: tuple[Row, ...]


def split(largest: int, *, held_out: int, given: int, seed: int) -> Split:
    """Divide the statements with a and b from 1 to ``largest``.

    Args:
        largest: At most 49, so that S has two digits.
        held_out: Least number of held-out statements.
        given: Statements of the pool that come with a certificate.
        seed: Decides which.

    Raises:
        ValueError: If there are not enough statements.
    """
    if not 1 <= largest <= 49 or held_out + given > largest**2:
        raise ValueError(f"{held_out} + {given} statements asked of {largest}^2, at most 49^2")
    draw = random.Random(seed)
    pairs = [(a, b) for a in range(1, largest + 1) for b in range(a, largest + 1)]
    draw.shuffle(pairs)
    kept: list[Row] = []
    while len(kept) < held_out:
        a, b = pairs.pop()
        kept += {Row(a, b), Row(b, a)}
    pool = sorted({row for a, b in pairs for row in (Row(a, b), Row(b, a))})
    draw.shuffle(pool)
    if given > len(pool):
        raise ValueError(f"{given} statements with a certificate asked of a pool of {len(pool)}")
    return Split(tuple(pool[:given]), tuple(pool), tuple(sorted(kept)))


def answer_ids(text: str) -> list[int]:
    """Return the tokens of an answer, its end among them."""
    first, second = (int(number) for number in text.split(";"))
    return _ids([*_digits(first), ";", *_digits(second), "<eos>"])


def answer_text(ids: Sequence[int]) -> str | None:
    """Read tokens as an answer ``S;c``; None where they are none."""
    words = [VOCABULARY[i] for i in ids]
    if len(words) != LONGEST or words[2] != ";" or words[5] != "<eos>":
        return None
    digits = [*words[:2], *words[3:5]]
    if not all(word.isdecimal() for word in digits):
        return None
    return f"{int(digits[1] + digits[0])};{int(digits[3] + digits[2])}"


@lru_cache(maxsize=100_000)
def proves(row: Row, text: str) -> bool:
    """Say whether the judge accepts an answer as a proof of the row's statement.

    Example:
        >>> proves(Row(3, 14), "17;14"), proves(Row(3, 14), "17;3")
        (True, False)
    """
    first, second = text.split(";")
    return judged(row.identity, f"-{first}, 1 | {second}*k | k-n-1").accepted


def _digits(number: int) -> list[str]:
    if not 0 <= number <= 99:
        raise ValueError(f"the model writes numbers of two digits, got {number}")
    return [str(number % 10), str(number // 10)]


def _ids(words: Sequence[str]) -> list[int]:
    return [_ID[word] for word in words]
