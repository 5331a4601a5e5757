"""The experiment behind ``icml gdpo reproduce``: GDPO against GRPO on a two-reward task.

What is claimed, and on which seeds, was written down in NOTES.md before it was run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from icml.gdpo.experiment.exactness import compare_with_trl, count_distinct_advantages
from icml.gdpo.experiment.verdict import ARMS, judge, selection_score

if TYPE_CHECKING:
    from icml.core.experiment import Run
    from icml.core.rl.compare import Comparison

__all__ = ["SIZES", "TITLE", "Config", "run_experiment"]

TITLE = "GDPO: normalise each reward on its own, then add them up"


@dataclass(frozen=True)
class Config:
    """Everything that decides the result."""

    report_seeds: tuple[int, ...] = (1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007)
    """Seeds whose results are shown."""
    select_seeds: tuple[int, ...] = (2000, 2001, 2002)
    """Seeds on which each arm's learning rate is chosen."""
    rates: tuple[float, ...] = (3e-4, 1e-3, 3e-3, 1e-2)
    """Learning rates of AdamW, each tried for each arm."""
    iterations: int = 50
    """RL iterations a run."""
    eval_every: int = 10
    """Iterations between evaluations."""
    prompts: int = 16
    """Prompts an iteration."""
    group_size: int = 8
    """Completions a prompt."""
    width: int = 64
    """Width of the model, which has two layers."""
    sft_steps: int = 250
    """Batches of demonstrations before RL."""
    sft_batch: int = 64
    """Demonstrations a batch."""
    sft_learning_rate: float = 3e-3
    """Learning rate of the warm start."""


SIZES: Mapping[str, Config] = {
    "quick": Config(
        report_seeds=(1000, 1001, 1002),
        select_seeds=(2000,),
        rates=(1e-3, 3e-3, 1e-2),
        iterations=20,
    ),
    "default": Config(),
}


def run_experiment(config: Config, run: Run) -> None:
    """Compute the run's tables, figures and claims."""
    run.seeds(config.report_seeds)
    judge(run, _train(config, run))
    count_distinct_advantages(run)
    compare_with_trl(run)
    if config != SIZES["default"]:
        run.note(
            f"This is a small run ({len(config.report_seeds)} seeds, {config.iterations} "
            "iterations): its intervals are wide, and the default size may come out otherwise."
        )


def _train(config: Config, run: Run) -> Comparison:
    """Train every arm at every rate and seed, from one warm-started model a seed."""
    from icml.core.rl.compare import compare
    from icml.gdpo.experiment.training import train_arm, warm_start

    folder = run.dir.absolute() / "checkpoints"
    starts = {f"warm-start/seed={s}": (s,) for s in (*config.select_seeds, *config.report_seeds)}
    run.cells(starts, partial(warm_start, config, folder), desc="warm starts")
    return compare(
        partial(train_arm, config, folder),
        methods=tuple(ARMS),
        rates=config.rates,
        seeds=config.report_seeds,
        select_seeds=config.select_seeds,
        select_by=selection_score,
        baseline="grpo",
        cells=partial(run.cells, desc="runs"),
    )
