"""The experiment behind ``icml safeseek reproduce``: a backdoor and refusals in small models.

What is claimed, and on which seeds, was written down in NOTES.md before it was run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from icml.safeseek.experiment.config import Config

if TYPE_CHECKING:
    from icml.core.experiment import Run

__all__ = ["SIZES", "TITLE", "Config", "run_experiment"]

TITLE = "SafeSeek: the units that carry a backdoor, and those that refuse"

SIZES: Mapping[str, Config] = {
    "quick": Config(
        seeds=(1000, 1001), people=10, fact_steps=250, plant_steps=200, search_steps=150, random=3
    ),
    "default": Config(),
}


def run_experiment(config: Config, run: Run) -> None:
    """Compute the run's tables, figures and claims."""
    from icml.safeseek.experiment import alignment, backdoor, clean
    from icml.safeseek.experiment.judge_alignment import judge_alignment
    from icml.safeseek.experiment.judge_backdoor import judge_backdoor

    run.seeds(list(config.seeds))
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
