"""The experiment behind ``icml me reproduce``: ME's law, speed and texts.

What is claimed, and on which seeds, was written down in NOTES.md before it was run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from icml.me.experiment.law import WARPS, judge_law, sample_law
from icml.me.experiment.quality import ARMS, TextSizes, catch_up_error, judge_quality, likelihoods
from icml.me.experiment.speed import judge_speed, time_members

if TYPE_CHECKING:
    from icml.core.experiment import Run

__all__ = ["SIZES", "TITLE", "Config", "run_experiment"]

TITLE = "ME: an exact ensemble of language models for one forward pass a token"


@dataclass(frozen=True)
class Config:
    """Everything that decides the result, but for the machine's speed."""

    members: tuple[str, ...] = ("pkg:smollm2", "pkg:smollm2?layers=28", "pkg:smollm2?layers=26")
    """Three sources: the first n are an ensemble of n members."""
    seed: int = 1000
    """Of all samples."""
    samples: tuple[int, ...] = (20_000, 50_000, 100_000)
    """Samples of 1, 2, 3 tokens for a test of the law."""
    tokens: int = 48
    """New tokens of a timed run."""
    prompt_tokens: int = 32
    """Tokens of its prompt."""
    pairs: int = 5
    """Timed runs of each method."""
    texts: int = 64
    """Texts each way of writing makes."""
    text_tokens: int = 24
    """Tokens of a text."""
    batch: int = 16
    """Texts written at a time."""


_RANDOM = "random:llama?layers=8&hidden=512&heads=8&vocab=8192"

SIZES: Mapping[str, Config] = {
    "quick": Config(
        members=tuple(f"{_RANDOM}&seed={seed}" for seed in range(3)),
        samples=(5_000, 10_000, 20_000),
        tokens=32,
        pairs=3,
        texts=32,
        text_tokens=16,
    ),
    "default": Config(),
}


def run_experiment(config: Config, run: Run) -> None:
    """Compute the run's tables, figures and claims.

    Raises:
        ModelNotInstalled: If a member's package is missing; the message has the command.
    """
    _check_installed(config)
    run.seeds([config.seed])
    _law(config, run)
    _quality(config, run)
    _speed(config, run)
    _say_what_is_not_shown(config, run)


def _check_installed(config: Config) -> None:
    from icml.core.errors import UserError
    from icml.core.models.packaged import packaged

    for source in config.members:
        if source.startswith("pkg:"):
            try:
                packaged(source.removeprefix("pkg:").partition("?")[0]).locate()
            except UserError as error:
                raise type(error)(f"{error} (icml me reproduce --quick needs no weights)") from None


def _law(config: Config, run: Run) -> None:
    tests = [
        (warp, steps, samples)
        for warp in WARPS
        for steps, samples in enumerate(config.samples, start=1)
    ]
    jobs = {
        f"{warp}, {steps} token{'s' * (steps > 1)}": (warp, steps, samples, config.seed * 100 + i)
        for i, (warp, steps, samples) in zip(range(0, 100 * len(tests), 100), tests, strict=True)
    }
    found = run.cells({f"law/{key}": job for key, job in jobs.items()}, sample_law, desc="laws")
    judge_law(run, {key: found[f"law/{key}"] for key in jobs})


def _quality(config: Config, run: Run) -> None:
    pair = config.members[:2]
    sizes = TextSizes(config.texts, config.text_tokens, config.batch)
    jobs = {
        # Arms get seeds of their own: equal ones would tie their texts together.
        f"texts/{arm}": (pair, arm, sizes, config.seed + 1000 * number)
        for number, arm in enumerate(ARMS)
    }
    found = run.cells(jobs, likelihoods, desc="texts")
    errors = run.cells(
        {"catch-up": (config.members, config.tokens, config.seed)},
        catch_up_error,
        workers=1,
        desc="catch-up",
    )
    judge_quality(run, {arm: found[f"texts/{arm}"] for arm in ARMS}, errors["catch-up"])


def _speed(config: Config, run: Run) -> None:
    settings = (config.tokens, config.prompt_tokens, config.pairs)
    counts = range(1, len(config.members) + 1)
    jobs = {f"speed/{n} members": (config.members[:n], *settings) for n in counts}
    # One worker: a second one would take memory bandwidth from what is timed.
    found = run.cells(jobs, time_members, workers=1, desc="timings")
    judge_speed(run, {n: found[f"speed/{n} members"] for n in counts}, config.members)


def _say_what_is_not_shown(config: Config, run: Run) -> None:
    run.note(
        "Equal laws give equal scores, so no benchmark is run: this shows nothing about how good "
        "an ensemble is, only that ME writes as the conventional one does."
    )
    run.note(
        "The members are one small model and copies of it without some middle blocks, with one "
        "vocabulary: the ratios are those of this processor, with one thread and one row."
    )
    run.note(
        "Each member that is drawn reads the whole prompt once, which weighs more in these short "
        "runs than in long ones. ME saves passes, not tokens read."
    )
    if config.members[0].startswith("random:"):
        run.note(
            "The members are random and below the size for which the speed claims were made (100 M "
            "parameters): bookkeeping weighs more, and the texts mean nothing."
        )
