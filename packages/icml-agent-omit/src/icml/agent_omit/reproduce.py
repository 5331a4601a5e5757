"""The experiment behind ``icml agent-omit reproduce``: an agent learns what it may leave out.

Seeds, settings and thresholds were written down in NOTES.md before the report seeds were run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from icml.core.experiment import Run

__all__ = ["SIZES", "TITLE", "Config", "run_experiment"]

TITLE = "Agent-Omit: an agent learns which thoughts and observations to leave out"


@dataclass(frozen=True)
class Config:
    """Everything that decides the result; `VaultTraining` has the rest."""

    seeds: tuple[int, ...] = tuple(range(3000, 3006))
    """Seeds whose results are shown."""
    weights: tuple[float, ...] = (0.0, 0.2, 0.5)
    """Weights of the omission reward; 0 is the control."""
    turns: int = 5
    """Rooms of the vault."""
    base_steps: int = 1600
    """Most batches for the base."""
    cold_steps: int = 600
    """Batches of cold start."""
    iterations: int = 60
    """Updates of RL."""
    evaluated: int = 192
    """Episodes of an evaluation."""


SIZES: Mapping[str, Config] = {
    "quick": Config(
        seeds=(3000, 3001, 3002),
        weights=(0.0, 0.2),
        turns=3,
        base_steps=500,
        cold_steps=60,
        iterations=12,
        evaluated=64,
    ),
    "default": Config(),
}


def run_experiment(config: Config, run: Run) -> None:
    """Compute the run's tables, figures and claims.

    Raises:
        ValueError: If the control or w = 0.2 is missing, or there are fewer than three seeds.
    """
    if len(set(config.seeds)) < 3:
        raise ValueError(f"seeds must be at least 3 different ones, got {list(config.seeds)}")
    if not {0.0, 0.2} <= set(config.weights):
        raise ValueError(f"weights must hold 0 and 0.2, got {list(config.weights)}")
    from icml.agent_omit.experiment.training import VaultTraining, arm_name, train_arm, warm_start
    from icml.agent_omit.experiment.verdict import judge

    run.seeds(config.seeds)
    setting = VaultTraining(
        turns=config.turns,
        base_steps=config.base_steps,
        cold_steps=config.cold_steps,
        iterations=config.iterations,
        evaluated=config.evaluated,
    )
    folder = run.dir.absolute() / "checkpoints"
    jobs = {f"start/seed={seed}": (seed,) for seed in config.seeds}
    found = run.cells(jobs, partial(warm_start, setting, folder), desc="starts")
    starts = {seed: found[f"start/seed={seed}"] for seed in config.seeds}
    arms = {
        f"rl/{arm_name(weight)}/seed={seed}": (weight, seed)
        for seed in config.seeds
        for weight in config.weights
    }
    found = run.cells(arms, partial(train_arm, setting, folder), desc="RL runs")
    trained: dict[str, dict[int, Any]] = {
        arm_name(weight): {
            seed: found[f"rl/{arm_name(weight)}/seed={seed}"] for seed in config.seeds
        }
        for weight in config.weights
    }
    judge(run, starts, trained)
    _curves(config, run)
    _say_what_is_not_shown(config, run)


def _curves(config: Config, run: Run) -> None:
    from icml.agent_omit.experiment.training import arm_name
    from icml.agent_omit.experiment.verdict import NAMES
    from icml.core.plots import Arm, curves

    names = [arm_name(weight) for weight in config.weights]
    run.figure(
        "learning-curves",
        curves(
            [row for row in run.metrics() if row["cell"].startswith("rl/")],
            title="Success and tokens while RL trains",
            arms=[
                Arm(
                    name,
                    "baseline" if name == "w=0" else "ours" if name == "w=0.2" else "other",
                    NAMES[name],
                )
                for name in names
            ],
            panels={"success": "success of sampled episodes", "tokens": "tokens of an episode"},
            x_label="RL update",
        ),
        caption="Episodes as they are sampled in training, also failed ones, which are short.",
    )


def _say_what_is_not_shown(config: Config, run: Run) -> None:
    if config != SIZES["default"]:
        run.note(
            f"This is a small run ({len(config.seeds)} seeds, {config.iterations} updates): its "
            "intervals are wide, and the default size may come out otherwise."
        )
    run.note(
        "The paper's agents are language models of 8 billion parameters on five benchmarks. A "
        "model of 76 thousand parameters in a vault says nothing about those: it shows what the "
        "method does where it is known what may be left out."
    )
    run.note(
        "All weights of the reward were trained at one learning rate, chosen on other seeds with "
        "w = 0.2: the control shows what the same updates do without the reward, not the best "
        "that they could do."
    )
