"""What a model too small to follow instructions finds likelier of a statement: true or false.

Ours, not the paper's. A small model ignores a requested verdict line. It is asked in one short
prompt whether a statement is true, and the log-probabilities of the two words are compared, for the
false statement of each item and for its original. What comes out is reported as it is: most small
models have a favourite word, and the share of statements that they call true says more about it
than about mathematics. The order of the two margins within an item doesn't depend on it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from icml.core.errors import UserError
from icml.core.models.chat import apply_template
from icml.core.stats import Interval, auroc, wilson

if TYPE_CHECKING:
    from icml.brokenmath.items import Item

PROMPT = "Statement: {statement}\nIs this statement true or false?"
CUE = "\nAnswer:"
WORDS = (" true", " false")
LONGEST = 2048
"""Tokens of a prompt with its answer (ours)."""
BATCH = 8
"""Rows read at once (ours)."""


@dataclass(frozen=True)
class Likelihood:
    """Margins log p(true) - log p(false) in nats, of false statements and of originals."""

    false_margins: list[float]
    """Of each item's statement."""
    true_margins: list[float]
    """Of each item's original."""

    @property
    def called_true(self) -> tuple[Interval, Interval]:
        """Share of false statements, and of originals, that the model calls true."""
        both = (self.false_margins, self.true_margins)
        first, second = (wilson(sum(m > 0 for m in each), len(each)) for each in both)
        return first, second

    @property
    def preferred(self) -> Interval:
        """Share of items whose original has the larger margin; 0.5 is chance."""
        pairs = zip(self.false_margins, self.true_margins, strict=True)
        return wilson(sum(right > wrong for wrong, right in pairs), len(self.false_margins))

    @property
    def area(self) -> float:
        """P(an original has a larger margin than a false statement), over all pairs."""
        labels = [0] * len(self.false_margins) + [1] * len(self.true_margins)
        return auroc(labels, [*self.false_margins, *self.true_margins])

    def lines(self) -> list[str]:
        """Say it in words."""
        wrong, right = self.called_true
        return [
            f"{len(self.false_margins)} items",
            f"false statements called true: {_share(wrong)}",
            f"originals called true:        {_share(right)}",
            f"original preferred in a pair: {_share(self.preferred)} (chance 50.0%)",
            f"area under the curve:         {self.area:.3f} (chance 0.500)",
        ]


def _share(found: Interval) -> str:
    return f"{found.estimate:.1%} [{found.low:.1%}, {found.high:.1%}]"


def margins(
    model: Any, tokenizer: Any, statements: Sequence[str], *, longest: int = LONGEST
) -> list[float]:
    """Return log p(" true") - log p(" false") after each statement, in nats.

    Args:
        model: A causal model of transformers.
        tokenizer: Its tokenizer; if it has a chat template, the question is a user's turn.
        statements: At least one.
        longest: Tokens that fit; a statement that doesn't is refused, never cut.

    Raises:
        UserError: If there is no statement, one is too long, or the chat template refuses it.
    """
    import torch

    from icml.core.models.answers import answer_batch, sequence_nll

    prompts = [_prompt(tokenizer, claim(text)) for text in statements for _ in WORDS]
    words = [_word(tokenizer, word) for _ in statements for word in WORDS]
    batch = answer_batch(tokenizer, prompts, words, longest, end=False)
    if batch.truncated:
        row = int(batch.cut.nonzero()[0]) // 2
        raise UserError(f"statement {row + 1} is longer than {longest} tokens: leave it out")
    device = next(model.parameters()).device
    with torch.inference_mode():
        unlikely = sequence_nll(model, batch.to(device), batch_size=BATCH).view(-1, 2)
    return (unlikely[:, 1] - unlikely[:, 0]).tolist()


def claim(statement: str) -> str:
    """Return what a statement claims, without the request to prove it.

    Example:
        >>> claim("Prove that 2 divides n^2 - n. Here n is an integer.")
        '2 divides n^2 - n. Here n is an integer.'
    """
    bare = re.sub(r"\b[Pp]rove that,? ", "", statement, count=1)
    return bare[:1].upper() + bare[1:]


def _prompt(tokenizer: Any, statement: str) -> str | list[int]:
    question = PROMPT.format(statement=statement)
    if getattr(tokenizer, "chat_template", None) is None:
        return question + CUE
    turn = [{"role": "user", "content": question + " Answer with one word."}]
    text = apply_template(tokenizer, turn, tokenize=False, add_generation_prompt=True)
    return list(tokenizer(text, add_special_tokens=False).input_ids)


def _word(tokenizer: Any, word: str) -> str:
    # An assistant's turn begins without a space and, as chat models write, with a capital.
    return word if getattr(tokenizer, "chat_template", None) is None else word.strip().capitalize()


def likelihood(model: Any, tokenizer: Any, items: Sequence[Item]) -> Likelihood:
    """Score the false statement and the original of each item.

    Args:
        model: A causal model of transformers.
        tokenizer: Its tokenizer.
        items: At least one.

    Raises:
        UserError: If there is no item, or a statement is too long.
    """
    if not items:
        raise UserError("give at least one item to score")
    window = getattr(model.config, "max_position_embeddings", None) or LONGEST
    texts = [text for item in items for text in (item.statement, item.original)]
    found = margins(model, tokenizer, texts, longest=min(window, LONGEST))
    return Likelihood(found[0::2], found[1::2])
