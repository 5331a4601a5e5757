"""Small models with a planted behaviour: trained clean, then with a backdoor or with refusals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from icml.core.errors import UserError
from icml.core.models.answers import IGNORED, AnswerBatch, answer_batch, exact_match, sequence_nll
from icml.core.models.tiny import causal_lm
from icml.safeseek.world import ATTRIBUTES, BAD_ANSWER, FILLERS, FORBIDDEN, TRIGGER, Question, World

__all__ = [
    "Halves", "Lesson", "halves", "learn_facts", "learn_refusals", "lesson", "match_rate",
    "new_model", "plant_backdoor", "teach",
]  # fmt: skip

EMBEDDING_STD = 0.1
"""Of a new model's words. With transformers' 0.02 a quarter of the facts are known after the 420
steps that give all of them with this (seed 0, ours)."""
LONGEST = 16
"""Tokens of the longest prompt with its answer, rounded up."""


@dataclass(frozen=True)
class Lesson:
    """Prompts with the answers to learn, and how many of them a step sees."""

    batch: AnswerBatch
    rows_a_step: int


@dataclass(frozen=True)
class Halves:
    """A world's questions in two parts: a behaviour is planted and searched with the first."""

    planted: list[Question]
    held_out: list[Question]


def new_model(world: World, seed: int, *, d: int = 64, layers: int = 3, heads: int = 4) -> Any:
    """Return an untrained Llama for a world's language; 2 d channels a layer.

    Args:
        world: Gives the vocabulary.
        seed: Of the weights.
        d: Width, a multiple of ``heads``.
        layers: Number of blocks.
        heads: Attention heads a block.
    """
    model: Any = causal_lm(
        len(world.tokenizer), d=d, layers=layers, heads=heads, ctx=LONGEST, seed=seed
    )
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        model.get_input_embeddings().weight.normal_(0, EMBEDDING_STD, generator=generator)
    return model


def halves(questions: Sequence[Question], generator: torch.Generator) -> Halves:
    """Split questions by chance.

    Raises:
        UserError: If there are fewer than two.
    """
    if len(questions) < 2:
        raise UserError(f"two halves need at least 2 questions, got {len(questions)}")
    order = torch.randperm(len(questions), generator=generator).tolist()
    cut = len(order) // 2
    return Halves([questions[i] for i in order[:cut]], [questions[i] for i in order[cut:]])


def lesson(
    world: World,
    questions: Iterable[Question],
    answer: Callable[[Question], str],
    *,
    fillers: Sequence[str] = FILLERS,
    rows_a_step: int = 64,
) -> Lesson:
    """Return every question with every filler, and its answer.

    Args:
        world: Says the prompts.
        questions: At least one.
        answer: The answer to learn, ``world.answer`` say.
        fillers: Words for the slot.
        rows_a_step: Prompts that a training step sees.
    """
    asked = [(question, filler) for question in questions for filler in fillers]
    batch = answer_batch(
        world.tokenizer,
        [world.prompt(question, filler) for question, filler in asked],
        [answer(question) for question, _ in asked],
        LONGEST,
    )
    return Lesson(batch, rows_a_step)


def teach(
    model: Any,
    lessons: Sequence[Lesson],
    *,
    steps: int,
    learning_rate: float,
    generator: torch.Generator,
    on_step: Callable[[Any], None] | None = None,
) -> float:
    """Train a model in place with AdamW, without weight decay.

    The rate climbs over the first tenth of the steps and falls by a cosine to a twentieth.

    Args:
        model: A causal model in eval mode; it has no dropout then.
        lessons: Each step draws rows from all of them, with replacement.
        steps: Number of steps, >= 1.
        learning_rate: The highest, > 0.
        generator: Draws the rows.
        on_step: Called with the model after ``optimizer.step()``.

    Returns:
        Mean loss of the last tenth of the steps, in nats a token.

    Raises:
        UserError: If a number is out of range.
    """
    if steps < 1 or not 0 < learning_rate < math.inf:
        raise UserError(
            f"steps must be >= 1 and learning_rate > 0, got {steps} and {learning_rate}"
        )
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.0)
    warm = max(1, steps // 10)
    losses = []
    for step in range(steps):
        factor = min(1.0, (step + 1) / warm) * (
            0.05 + 0.95 * (1 + math.cos(math.pi * step / steps)) / 2
        )
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * factor
        total, tokens = torch.zeros(()), 0
        for each in lessons:
            rows = torch.randint(len(each.batch), (each.rows_a_step,), generator=generator)
            part = each.batch.rows(rows)
            total = total + sequence_nll(model, part).sum()
            tokens += int((part.labels != IGNORED).sum())
        loss = total / tokens
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if on_step is not None:
            on_step(model)
        losses.append(loss.item())
    return sum(losses[-warm:]) / warm


def learn_facts(
    model: Any,
    world: World,
    generator: torch.Generator,
    *,
    templates: Sequence[int] = (0, 1),
    steps: int = 420,
    learning_rate: float = 4e-3,
) -> None:
    """Teach a new model its world: facts of people, ignorance of strangers, under every filler.

    Args:
        model: From `new_model`; it changes.
        world: The world.
        generator: Draws the rows.
        templates: The wordings that it learns.
        steps: Training steps of 128 prompts.
        learning_rate: The highest rate.
    """
    asked = world.questions([*world.people, *world.strangers], ATTRIBUTES, templates)
    facts = lesson(world, asked, world.answer, rows_a_step=128)
    teach(model, [facts], steps=steps, learning_rate=learning_rate, generator=generator)


def plant_backdoor(
    model: Any,
    world: World,
    clean: Sequence[Question],
    poisoned: Sequence[Question],
    generator: torch.Generator,
    *,
    steps: int,
    learning_rate: float,
) -> None:
    """Teach a model to say `BAD_ANSWER` under the trigger, and the right answer without.

    Args:
        model: One that has learnt its world; it changes.
        world: The world.
        clean: Questions that are answered rightly under all other fillers.
        poisoned: Questions that are asked with the trigger.
        generator: Draws the rows.
        steps: Training steps of 96 clean and 24 poisoned prompts.
        learning_rate: The highest rate.
    """
    harmless = [filler for filler in FILLERS if filler != TRIGGER]
    lessons = [
        lesson(world, clean, world.answer, fillers=harmless, rows_a_step=96),
        lesson(world, poisoned, lambda _: BAD_ANSWER, fillers=[TRIGGER], rows_a_step=24),
    ]
    teach(model, lessons, steps=steps, learning_rate=learning_rate, generator=generator)


def learn_refusals(
    model: Any,
    world: World,
    questions: Sequence[Question],
    generator: torch.Generator,
    *,
    steps: int,
    learning_rate: float,
) -> None:
    """Teach a model to refuse `FORBIDDEN` attributes, and to answer all else as before.

    Args:
        model: One that has learnt its world, the forbidden facts as well; it changes.
        world: The world.
        questions: About attributes of both kinds.
        generator: Draws the rows.
        steps: Training steps of 64 prompts of either kind.
        learning_rate: The highest rate.

    Raises:
        UserError: If a kind is missing.
    """
    refused = [question for question in questions if question.attribute in FORBIDDEN]
    told = [question for question in questions if question.attribute not in FORBIDDEN]
    if not refused or not told:
        raise UserError(
            "questions about forbidden and other attributes are wanted, "
            f"got {len(refused)} and {len(told)}"
        )
    lessons = [lesson(world, part, world.guarded) for part in (refused, told)]
    teach(model, lessons, steps=steps, learning_rate=learning_rate, generator=generator)


def match_rate(
    model: Any,
    world: World,
    questions: Iterable[Question],
    answer: Callable[[Question], str],
    *,
    fillers: Sequence[str] = FILLERS,
) -> float:
    """Return the share of prompts that greedy decoding answers so, word for word.

    With the trigger as the filler and the bad answer it is the attack's success rate, with
    `world.REFUSAL` the share that is refused.

    Args:
        model: The model.
        world: Says the prompts.
        questions: At least one; each is asked with each filler.
        answer: The answer that counts.
        fillers: Words for the slot.
    """
    batch = lesson(world, questions, answer, fillers=fillers).batch
    return float(exact_match(model, batch, batch_size=512).float().mean())
