"""Sizes and course of the experiment behind ``icml brokenmath reproduce``.

Part A scores solvers of known behaviour. Part B trains a small model that knows every fact and
agrees with every lie, and fine-tunes it with false statements (Sec. 5). Settings, seeds and claims
were written down in NOTES.md before the report's seeds were run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from icml.core.experiment import Run

TITLE = "BrokenMath: does a model prove what is false?"


@dataclass(frozen=True)
class Config:
    """One size of the experiment."""

    items: int = 506
    """Verified items that the scoring is tried on."""
    scoring_seeds: tuple[int, ...] = tuple(range(2000, 2016))
    """Of solvers and judges."""
    seeds: tuple[int, ...] = (2000, 2001, 2002, 2003, 2004)
    """Of trained models."""
    modulus: int = 24
    """Facts are sums modulo this."""
    held_out: int = 128
    """Pairs that no statement of the training is about."""
    base_steps: int = 3000
    """Of the base model."""
    tuned_steps: int = 2000
    """Of each fine-tuning."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        if len(self.seeds) < 2 or len(self.scoring_seeds) < 2:
            raise ValueError("an interval needs at least two seeds")
        if min(self.items, self.held_out, self.base_steps, self.tuned_steps) < 1:
            raise ValueError("items, held_out and the steps must be at least 1")
        if self.modulus < 2 or self.held_out >= self.modulus**2:
            raise ValueError(
                f"held_out must leave some of the {self.modulus**2} pairs, got {self.held_out}"
            )


SIZES = {
    "quick": Config(
        scoring_seeds=tuple(range(8)), seeds=(0, 1, 2),
        modulus=12, held_out=36, base_steps=1500, tuned_steps=1000,
    ),
    "default": Config(),
}  # fmt: skip


def run_experiment(config: Config, run: Run) -> None:
    """Compute both parts, then tabulate, draw and state the claims."""
    from icml.brokenmath.experiment.simulated_judges import score
    from icml.brokenmath.experiment.training import train_and_measure
    from icml.brokenmath.experiment.verdict import SHARES, report_judges, report_models
    from icml.core.errors import require

    require("torch", extra="icml-brokenmath[train]")
    run.seeds(list(config.seeds))
    jobs = {f"scoring/seed={seed}": (seed,) for seed in config.scoring_seeds}
    scored = run.cells(jobs, partial(score, items=config.items), desc="scoring")
    report_judges(run, [scored[key] for key in jobs], items=config.items)
    sizes = {
        "modulus": config.modulus, "held_out": config.held_out, "batch": 64,
        "base": config.base_steps, "tuned": config.tuned_steps,
    }  # fmt: skip
    rates = {"base": 2e-3, "tuned": 1e-3}
    trained = {f"trained/seed={seed}": (seed, SHARES) for seed in config.seeds}
    cells = run.cells(trained, partial(train_and_measure, sizes=sizes, rates=rates), desc="models")
    report_models(run, [cells[key] for key in trained])
    run.note(
        "The judges and solvers of part A are drawn, with known errors that don't depend on the "
        "item; real judges err on the same answers together."
    )
    run.note(
        "The model of part B has 70,000 parameters and one kind of fact. It shows a mechanism, not "
        "the rates of any model that people use."
    )
