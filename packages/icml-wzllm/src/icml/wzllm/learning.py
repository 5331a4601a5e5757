"""The learning part of the experiment: what its worker processes do with one seed.

A tiny model learns to write certificates for weighted rows of Pascal's triangle (`training.rows`).
All arms of a seed start from one model, which was trained on some certificates of the symbolic
search, and take the same number of gradient steps. `icml.wzllm.reproduce` calls these.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from icml.core.errors import UserError
from icml.core.journal import replace_folder, whole_folder
from icml.core.models.tiny import TinyGPT
from icml.wzllm.certify import certify
from icml.wzllm.training.answers import judged, written
from icml.wzllm.training.dapo_loop import LiveBatch, dapo_config, train_dapo
from icml.wzllm.training.learner import Learner, Writing, seeded
from icml.wzllm.training.normal import Guard
from icml.wzllm.training.rounds import Rounds, expert_iteration
from icml.wzllm.training.rows import (
    LONGEST,
    VOCABULARY,
    Row,
    Split,
    answer_ids,
    answer_text,
    proves,
    split,
)

if TYPE_CHECKING:
    from icml.wzllm.verdict import Learning

__all__ = ["bootstrap_arm", "top_arm", "warm_start"]

WRITING: Writing[Row] = Writing(
    lambda row: row.prompt_ids, answer_ids, answer_text, LONGEST, eos_id=2
)


WARM_RATE = 3e-3
PROMPTS, GROUP = 16, 8


def warm_start(config: Learning, folder: Path, seed: int, *, log: Any) -> dict[str, float]:
    """Train a new model on certificates of the symbolic search.

    Args:
        config: Sizes.
        folder: Where the models go.
        seed: Decides the statements, the model and its batches.
        log: Not used.

    Returns:
        The model's rate on held-out statements, how many there are, and how many of them the
        symbolic search proves.
    """
    parts = _parts(config, seed)
    learner = _learner(config, seed)
    # The certificates are the search's own, not ours: each must be what the judge accepts.
    for row in parts.seed_rows:
        found = certify(row.identity).certificate
        if found is None or not judged(row.identity, written(found)).accepted:
            raise UserError(f"the symbolic search has no certificate for {row.identity}")
    given = _given(parts)
    learner.fit(given, config.warm_steps, learning_rate=WARM_RATE, seed=seeded(seed, "warm"))
    _save(learner, folder / f"warm-{seed}")
    found = sum(certify(row.identity).certificate is not None for row in parts.held_out)
    rate = _rate(learner, parts.held_out)
    return {"rate": rate, "held-out": len(parts.held_out), "found by search": found}


def bootstrap_arm(
    config: Learning,
    folder: Path,
    arm: str,
    rate: float,
    seed: int,
    *,
    counts: Mapping[str, Sequence[int]] | None = None,
    log: Any,
) -> dict[str, float]:
    """Train the warm model of a seed by one arm of `gains.ARMS` at one learning rate.

    Args:
        config: Sizes.
        folder: Of the models.
        arm: Which one.
        rate: Learning rate.
        seed: Which statements and model.
        counts: For ``extra-true``: how many certificates to add in each round, by ``rate/seed``.
        log: Receives each round's size of the training set.

    Returns:
        Greedy proof rates on the held-out statements and on the pool, and what was trained on.
    """
    parts = _parts(config, seed)
    learner = _learner(config, seed)
    learner.load(_place(folder / f"warm-{seed}"))
    drawn, new = 0, []
    if arm in ("verified", "unverified"):
        done = expert_iteration(
            learner, parts.pool, _given(parts), proves if arm == "verified" else None,
            Rounds(config.rounds, config.steps, rate, config.samples),
            guard=Guard(row.identity for row in parts.held_out), seed=seed,
        )  # fmt: skip
        pairs = done.pairs
        drawn, new = sum(r.drawn for r in done.rounds), [r.new for r in done.rounds]
    else:
        new = [0] * config.rounds if counts is None else list(counts[f"{rate!r}/{seed}"])
        pairs = _given(parts)
        others = [(row, row.truth) for row in parts.pool if row not in set(parts.seed_rows)]
        random.Random(seeded(seed, "extra")).shuffle(others)
        for number, more in enumerate(new):
            pairs = [*pairs, *(others.pop() for _ in range(min(more, len(others))))]
            seed_of_round = seeded(seed, "fit", number)
            learner.fit(pairs, config.steps, learning_rate=rate, seed=seed_of_round)
    if arm == "verified":
        _save(learner, folder / f"verified-{rate!r}-{seed}")
    for number, more in enumerate(new):
        log(number, arm=arm, seed=seed, rate=rate, new=more)
    return {**_scores(learner, parts), **_trained_on(pairs, parts), "drawn": drawn}


def top_arm(
    config: Learning, folder: Path, arm: str, rate: float, seed: int, *, start: float, log: Any
) -> dict[str, float]:
    """Go on from the model that expert iteration made at the rate ``start``: `gains.TOP`.

    Returns:
        Rates before and after, and what was drawn.
    """
    parts = _parts(config, seed)
    learner = _learner(config, seed)
    learner.load(_place(folder / f"verified-{start!r}-{seed}"))
    before = _rate(learner, parts.held_out)
    groups, dead = 0, 0
    if arm == "dapo":
        groups, dead = _dapo(learner, parts.pool, config, rate, seed)
        drawn = groups * GROUP
    else:
        # What it has proved so far is not open any more, so it is given.
        known = [
            (row, text)
            for row, text in zip(parts.pool, learner.best(parts.pool), strict=True)
            if text is not None and proves(row, text)
        ]
        given = dict([*known, *_given(parts)])
        done = expert_iteration(
            learner, parts.pool, list(given.items()), proves,
            Rounds(config.longer_rounds, config.steps, rate, config.longer_samples),
            guard=Guard(row.identity for row in parts.held_out), seed=seeded(seed, "longer"),
        )  # fmt: skip
        drawn = sum(r.drawn for r in done.rounds)
    after = _scores(learner, parts)
    gain = after["held-out"] - before
    log(0, arm=arm, seed=seed, rate=rate, before=before, after=after["held-out"])
    counts = {"drawn": drawn, "drawn groups": groups, "dead groups": dead}
    return {**after, "before": before, "gain": gain, **counts}


def _dapo(
    learner: Learner[Row],
    pool: Sequence[Row],
    config: Learning,
    rate: float,
    seed: int,
) -> tuple[int, int]:
    """Train by DAPO; return how many groups were drawn and how many of them were dead."""
    batches: list[LiveBatch] = []

    def reward(rows: Sequence[Row], completions: Sequence[list[int]]) -> Tensor:
        texts = [answer_text(ids) for ids in completions]
        right = [
            text is not None and proves(row, text) for row, text in zip(rows, texts, strict=True)
        ]
        return torch.tensor(right, dtype=torch.float32)[:, None]

    train_dapo(
        learner.model, pool, reward,
        dapo_config(
            iterations=config.dapo_iterations, prompts=PROMPTS, group_size=GROUP,
            learning_rate=rate, longest=LONGEST,
        ),
        seed=seed, tell=batches.append,
    )  # fmt: skip
    return sum(b.drawn for b in batches), sum(b.dead for b in batches)


def _parts(config: Learning, seed: int) -> Split:
    return split(config.largest, held_out=config.held_out, given=config.given, seed=seed)


def _learner(config: Learning, seed: int) -> Learner[Row]:
    model = TinyGPT(len(VOCABULARY), d=config.width, layers=2, heads=4, ctx=16, seed=seed)
    return Learner(model, WRITING)


def _given(parts: Split) -> list[tuple[Row, str]]:
    return [(row, row.truth) for row in parts.seed_rows]


def _rate(learner: Learner[Row], rows: Sequence[Row]) -> float:
    """Return the fraction of statements whose greedy answer the judge accepts."""
    answers = zip(rows, learner.best(rows), strict=True)
    return sum(text is not None and proves(row, text) for row, text in answers) / len(rows)


def _scores(learner: Learner[Row], parts: Split) -> dict[str, float]:
    given = set(parts.seed_rows)
    others = [row for row in parts.pool if row not in given]
    return {"held-out": _rate(learner, parts.held_out), "pool": _rate(learner, others)}


def _trained_on(pairs: Sequence[tuple[Row, str]], parts: Split) -> dict[str, float]:
    held_out = set(parts.held_out)
    return {
        "pairs": len(pairs),
        "wrong pairs": sum(not proves(row, text) for row, text in pairs),
        "held-out pairs": sum(row in held_out for row, _ in pairs),
    }


def _save(learner: Learner[Row], folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with replace_folder(folder) as place:
        learner.save(place)


def _place(folder: Path) -> Path:
    found = whole_folder(folder)
    if found is None:
        raise UserError(f"the model {folder} is gone: start with --fresh")
    return found
