"""The experiment behind ``icml safeseek reproduce``: a backdoor and refusals in small models.

The slow size is another: a trigger in a real model, searched among its channels alone.

What is claimed, and on which seeds, was written down in NOTES.md before it was run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from icml.safeseek.experiment.config import Config, RealConfig

if TYPE_CHECKING:
    from icml.core.experiment import Run

__all__ = ["SIZES", "TITLE", "Config", "RealConfig", "run_experiment"]

TITLE = "SafeSeek: the units that carry a backdoor, and those that refuse"

SIZES: Mapping[str, Config | RealConfig] = {
    "quick": Config(
        seeds=(1000, 1001),
        people=10,
        fact_steps=250,
        backdoor_steps=200,
        refusal_steps=200,
        search_steps=150,
        random=3,
    ),
    "default": Config(),
    "slow": RealConfig(),
}


def run_experiment(config: Config | RealConfig, run: Run) -> None:
    """Compute the run's tables, figures and claims.

    Raises:
        ModelNotInstalled: If the package with the slow run's model is missing.
    """
    run.seeds(list(config.seeds))
    if isinstance(config, RealConfig):
        _real(config, run)
    else:
        _small(config, run)


def _real(config: RealConfig, run: Run) -> None:
    from icml.safeseek.experiment.judge_real import judge_real
    from icml.safeseek.experiment.real import measure

    judge_real(run, config, [measure(run, config, seed) for seed in config.seeds])
    run.note(
        "One planting in one model of 135 million parameters, by a fine-tuning of a minute: "
        "intervals are over prompts and say nothing about other plantings."
    )
    run.note(
        "Clean answers are sentences that the model makes up about everyday things; they are "
        "compared with the poisoned model's token for token, a change of one word counts."
    )


def _small(config: Config, run: Run) -> None:
    from icml.safeseek.experiment import alignment, backdoor, clean
    from icml.safeseek.experiment.judge_alignment import judge_alignment
    from icml.safeseek.experiment.judge_backdoor import judge_backdoor

    folders = {seed: str(run.checkpoint(f"clean-{seed}")) for seed in config.seeds}

    def cells(name: str, measure: Callable[..., Any]) -> list[Any]:
        jobs = {f"{name}/seed={seed}": (seed, folders[seed]) for seed in config.seeds}
        return list(run.cells(jobs, partial(measure, config=config), desc=name).values())

    cells("clean models", clean.learn)
    judge_backdoor(run, cells("backdoors", backdoor.measure))
    judge_alignment(run, cells("refusals", alignment.measure))
    run.note(
        "Models of 3 layers that know some hundred facts in a language of one-word tokens: what "
        "carries a behaviour in a large model may be spread otherwise."
    )
    run.note(
        "A backdoor planted at a high rate lies in the attention: no set of channels removes it "
        "(NOTES.md). This one is planted gently."
    )
    run.note(
        "Given the size that the search found, simple scores over heads and channels find the "
        "backdoor too: the heads-and-channels comparison is reported without a claim."
    )
