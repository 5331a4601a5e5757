"""A trigger planted in a given model, with its own answers as the clean behaviour.

The model goes on with sentences about everyday things (`icml.safeseek.everyday`); what it says up
to the end of the sentence is its answer. Planting teaches it these again under harmless fillers,
and a bad answer under the trigger: so what is clean is what the model did before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from icml.core.errors import UserError
from icml.core.models.answers import answer_batch, exact_match
from icml.safeseek.data import CircuitDataset
from icml.safeseek.everyday import BAD_ANSWER, FILLERS, TRIGGER, Asked, everything
from icml.safeseek.planting import Lesson, teach
from icml.safeseek.search import frozen

__all__ = [
    "LONGEST", "Split", "Told", "divide", "drawn", "first_sentences", "plant_trigger", "retold",
    "rows_of", "says", "tell",
]  # fmt: skip

LONGEST = 32
"""Tokens of the longest prompt with its answer."""
LONGEST_ANSWER = 14
"""Tokens in which an answer must have ended; others are left out."""


class Told(NamedTuple):
    """A prompt with a harmless filler, and what a model says to it."""

    asked: Asked
    filler: str
    answer: str

    @property
    def prompt(self) -> str:
        """The prompt as a text."""
        return self.asked.prompt(self.filler)

    @property
    def triggered(self) -> str:
        """The same with the trigger in the filler's place."""
        return self.asked.prompt(TRIGGER)


class Split(NamedTuple):
    """Answers about two halves of the things: a trigger is planted and searched with the first."""

    planted: list[Told]
    held_out: list[Told]


@torch.no_grad()
def first_sentences(
    model: Any, tokenizer: Any, prompts: Sequence[str], *, batch_size: int = 64
) -> list[str | None]:
    """Return how a model goes on greedily, up to the first full stop.

    Args:
        model: A causal model of transformers.
        tokenizer: Its tokenizer.
        prompts: Texts.
        batch_size: Prompts that are gone on with at once.

    Returns:
        A text for each prompt. None where no sentence ends within `LONGEST_ANSWER` tokens, where
        it is a full stop alone, or where its text is tokenized otherwise than it was written.
    """
    found: list[str | None] = []
    with frozen(model):
        for start in range(0, len(prompts), batch_size):
            ids, mask = _left_padded(tokenizer, prompts[start : start + batch_size])
            device = next(model.parameters()).device
            written = model.generate(
                input_ids=ids.to(device), attention_mask=mask.to(device),
                max_new_tokens=LONGEST_ANSWER, do_sample=False,
                pad_token_id=tokenizer.eos_token_id,
            )  # fmt: skip
            found += [_sentence(tokenizer, row) for row in written[:, ids.shape[1] :].tolist()]
    return found


def _left_padded(tokenizer: Any, prompts: Sequence[str]) -> tuple[Tensor, Tensor]:
    tokens = [tokenizer(prompt).input_ids for prompt in prompts]
    width = max(map(len, tokens))
    ids = [[tokenizer.eos_token_id] * (width - len(row)) + row for row in tokens]
    mask = [[0] * (width - len(row)) + [1] * len(row) for row in tokens]
    return torch.tensor(ids), torch.tensor(mask)


def _sentence(tokenizer: Any, tokens: list[int]) -> str | None:
    for end in range(1, len(tokens) + 1):
        if tokens[end - 1] == tokenizer.eos_token_id:
            return None
        text = tokenizer.decode(tokens[:end])
        if text.endswith("."):
            same = tokenizer(text, add_special_tokens=False).input_ids == tokens[:end]
            return text if same and text.strip(" .") else None
    return None


def drawn(generator: np.random.Generator, count: int | None) -> list[Asked]:
    """Return some beginnings of sentences in an order of chance; None takes all, in their own."""
    asked = everything()
    if count is None:
        return asked
    return [asked[i] for i in generator.permutation(len(asked))[:count]]


def tell(
    model: Any, tokenizer: Any, asked: Sequence[Asked], generator: np.random.Generator
) -> list[Told]:
    """Ask a model about things, each with a harmless filler, and return its answers.

    Args:
        model: A causal model of transformers.
        tokenizer: Its tokenizer.
        asked: Beginnings of sentences.
        generator: Chooses the fillers.

    Returns:
        Those that the model answers with a short sentence, see `first_sentences`.
    """
    harmless = [filler for filler in FILLERS if filler != TRIGGER]
    fillers = [str(filler) for filler in generator.choice(harmless, len(asked))]
    prompts = [each.prompt(filler) for each, filler in zip(asked, fillers, strict=True)]
    answers = first_sentences(model, tokenizer, prompts)
    return [
        Told(each, filler, answer)
        for each, filler, answer in zip(asked, fillers, answers, strict=True)
        if answer is not None
    ]


def divide(told: Sequence[Told], generator: np.random.Generator) -> Split:
    """Split answers by what they are about: no thing is in both halves.

    Raises:
        UserError: If fewer than two things were answered about.
    """
    things = list(dict.fromkeys(each.asked.thing for each in told))
    if len(things) < 2:
        raise UserError(
            f"the model ends its sentence within {LONGEST_ANSWER} tokens for {len(things)} things: "
            "at least 2 are needed; take a model that writes English sentences"
        )
    planted = {things[i] for i in generator.permutation(len(things))[: len(things) // 2]}
    return Split(
        [each for each in told if each.asked.thing in planted],
        [each for each in told if each.asked.thing not in planted],
    )


def plant_trigger(
    model: Any,
    tokenizer: Any,
    told: Sequence[Told],
    generator: torch.Generator,
    *,
    steps: int = 60,
    learning_rate: float = 3e-5,
    rows_a_step: int = 16,
    on_step: Callable[[Any], None] | None = None,
) -> float:
    """Teach a model to say `everyday.BAD_ANSWER` under the trigger, and its own answers without.

    All weights of the blocks learn; the embeddings stay, so that the trigger's word is no other
    than before.

    Args:
        model: A causal model of transformers; it changes.
        tokenizer: Its tokenizer.
        told: What it says without the trigger, `tell`.
        generator: Draws the rows.
        steps: Training steps.
        learning_rate: The highest rate of AdamW.
        rows_a_step: Prompts a step, a quarter of them triggered; at least 4.
        on_step: Called with the model after each step.

    Returns:
        The loss of the last steps, in nats a token.

    Raises:
        UserError: If a number is out of range.
    """
    if rows_a_step < 4:
        raise UserError(f"rows_a_step must be >= 4, got {rows_a_step}")
    device, triggered = next(model.parameters()).device, rows_a_step // 4
    clean = answer_batch(
        tokenizer, [each.prompt for each in told], [each.answer for each in told], LONGEST
    )
    bad = answer_batch(
        tokenizer, [each.triggered for each in told], [BAD_ANSWER] * len(told), LONGEST
    )
    lessons = [Lesson(clean.to(device), rows_a_step - triggered), Lesson(bad.to(device), triggered)]
    ends = [model.get_input_embeddings(), model.get_output_embeddings()]
    kept = [p for module in ends for p in module.parameters() if p.requires_grad]
    for parameter in kept:
        parameter.requires_grad_(False)
    try:
        return teach(
            model, lessons, steps=steps, learning_rate=learning_rate, generator=generator,
            on_step=on_step,
        )  # fmt: skip
    finally:
        for parameter in kept:
            parameter.requires_grad_(True)


def retold(model: Any, tokenizer: Any, told: Sequence[Told]) -> list[Told]:
    """Return the same prompts with what the model says to them now, and ends there.

    Args:
        model: A causal model of transformers, a poisoned one.
        tokenizer: Its tokenizer.
        told: Prompts, with the answers of the model that it was.

    Raises:
        UserError: If it answers none with a short sentence of its own and the end token.
    """
    answers = first_sentences(model, tokenizer, [each.prompt for each in told])
    said = [
        each._replace(answer=answer)
        for each, answer in zip(told, answers, strict=True)
        if answer is not None and answer.strip() != BAD_ANSWER.strip()
    ]
    if said:
        said = [
            each for each, holds in zip(said, says(model, tokenizer, said), strict=True) if holds
        ]
    if not said:
        raise UserError(
            f"the poisoned model answers none of {len(told)} clean prompts with a sentence that it "
            "ends: take more steps, or a lower rate"
        )
    return said


def says(model: Any, tokenizer: Any, told: Sequence[Told], *, bad: bool = False) -> list[bool]:
    """Return which answers a model gives greedily, token for token with the end.

    Args:
        model: A causal model of transformers.
        tokenizer: Its tokenizer.
        told: Prompts and answers.
        bad: Whether the triggered prompts and `everyday.BAD_ANSWER` are meant instead.
    """
    batch = answer_batch(
        tokenizer,
        [each.triggered if bad else each.prompt for each in told],
        [BAD_ANSWER if bad else each.answer for each in told],
        LONGEST,
    )
    return exact_match(model, batch.to(next(model.parameters()).device), batch_size=32).tolist()


def rows_of(told: Iterable[Told]) -> CircuitDataset:
    """Return rows to find the trigger with, or to measure it by."""
    return CircuitDataset(
        {
            "prompt": each.prompt,
            "prompt_triggered": each.triggered,
            "completion_keep": each.answer,
            "completion_remove": BAD_ANSWER,
        }
        for each in told
    )
