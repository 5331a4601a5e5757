"""The experiment behind ``icml empg reproduce``: EMPG's mechanism, and EMPG against GRPO.

Two verdicts. MECHANISM is exact and must hold. PERFORMANCE is what training on KeyDoor says, each
arm at its own best learning rate; seeds, rates and metric were written down in NOTES.md before it
was run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from icml.empg.experiment.names import NAMES

if TYPE_CHECKING:
    from icml.core.experiment import Run
    from icml.core.rl.compare import Comparison
    from icml.empg.experiment.verdict import Study

__all__ = [
    "SIZES",
    "TITLE",
    "Config",
    "ModelConfig",
    "TableConfig",
    "compare_babyai",
    "run_experiment",
]

TITLE = "EMPG: weigh each step of an agent by how sure it was"
MODEL_ARMS = ("grpo", "empg")
MECHANISM_RATE = 64.0  # GRPO's, for the batches on which the mechanism is measured


@dataclass(frozen=True)
class TableConfig:
    """Training of a table of logits: all four arms."""

    report_seeds: tuple[int, ...] = tuple(range(1000, 1016))
    """Seeds whose results are shown."""
    select_seeds: tuple[int, ...] = (2000, 2001, 2002, 2003)
    """Seeds on which each arm's learning rate is chosen."""
    rates: tuple[float, ...] = (64.0, 128.0, 256.0, 512.0, 1024.0)
    """Learning rates of SGD, each tried for each arm."""
    iterations: int = 200
    """Updates."""
    eval_every: int = 20
    """Updates between evaluations."""


@dataclass(frozen=True)
class ModelConfig:
    """Training of a small language model in the readable loop: EMPG and GRPO."""

    report_seeds: tuple[int, ...] = (1000, 1001, 1002, 1003)
    """Seeds whose results are shown."""
    select_seeds: tuple[int, ...] = (2000,)
    """Seeds on which each arm's learning rate is chosen."""
    rates: tuple[float, ...] = (3e-4, 1e-3, 3e-3, 1e-2)
    """Learning rates of AdamW, each tried for both arms."""
    iterations: int = 16
    """RL iterations."""
    eval_every: int = 4
    """Iterations between evaluations."""
    evaluated: int = 64
    """Tasks an evaluation plays."""


@dataclass(frozen=True)
class Config:
    """Everything that decides the result."""

    table: TableConfig = field(default_factory=TableConfig)
    """The table of logits on KeyDoor."""
    model: ModelConfig | None = field(default_factory=ModelConfig)
    """The language model on KeyDoor; None leaves it out."""
    babyai: ModelConfig | None = None
    """The language model on BabyAI; None leaves it out."""


SIZES: Mapping[str, Config] = {
    "quick": Config(
        TableConfig(
            report_seeds=(1000, 1001, 1002, 1003),
            select_seeds=(2000,),
            rates=(64.0, 256.0, 1024.0),
            iterations=100,
        ),
        model=ModelConfig(
            report_seeds=(1000, 1001, 1002),
            select_seeds=(2000,),
            rates=(1e-3, 3e-3, 1e-2),
            iterations=4,
            eval_every=2,
            evaluated=32,
        ),
    ),
    "default": Config(),
    "slow": Config(
        babyai=ModelConfig(
            report_seeds=tuple(range(1000, 1008)),
            select_seeds=(2000, 2001),
            rates=(1e-4, 3e-4, 1e-3, 3e-3),
            iterations=200,
            eval_every=20,
            evaluated=128,
        )
    ),
}


def run_experiment(config: Config, run: Run) -> None:
    """Compute the run's tables, figures and claims.

    Raises:
        ValueError: If seeds or rates allow no comparison; before anything is trained, as is
        MissingExtra: if BabyAI is asked for without minigrid.
    """
    _check(config)
    run.seeds(config.table.report_seeds)
    _mechanism(config.table, run)
    _table(config.table, run)
    if config.model is not None:
        _model(config.model, run)
    if config.babyai is not None:
        compare_babyai(config.babyai, run)
    _say_what_is_not_shown(config, run)


def _check(config: Config) -> None:
    from icml.core.errors import require
    from icml.core.rl.compare import check_design

    parts = {"table": config.table, "model": config.model, "babyai": config.babyai}
    for name, part in parts.items():
        if part is None:
            continue
        arms = tuple(NAMES) if name == "table" else MODEL_ARMS
        try:
            check_design(arms, part.rates, part.report_seeds, part.select_seeds, "grpo")
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    if config.babyai is not None:
        require("minigrid", extra="icml-empg[babyai]")


def _mechanism(config: TableConfig, run: Run) -> None:
    from icml.empg.experiment.mechanism import Batches, claim_mechanism, measure_batches

    batches = Batches(MECHANISM_RATE, config.eval_every)
    jobs = {f"mechanism/seed={seed}": (seed,) for seed in config.report_seeds}
    measure = partial(measure_batches, _table_setting(config), batches)
    found = run.cells(jobs, measure, desc="batches")
    by_seed = {seed: found[f"mechanism/seed={seed}"] for seed in config.report_seeds}
    claim_mechanism(run, by_seed)


def _table(config: TableConfig, run: Run) -> None:
    from icml.empg.experiment.verdict import Study

    study = Study("table", "a table of logits on KeyDoor", "update")
    train = partial(_train_table, _table_setting(config))
    _compare(run, study, config, train, tuple(NAMES))


def _model(config: ModelConfig, run: Run) -> None:
    from icml.empg.experiment.language import LanguageTraining, train_language, warm_start
    from icml.empg.experiment.verdict import Study

    setting = LanguageTraining(
        iterations=config.iterations, eval_every=config.eval_every, evaluated=config.evaluated
    )
    folder = run.dir.absolute() / "checkpoints"
    seeds = (*config.select_seeds, *config.report_seeds)
    starts = {f"model/warm-start/seed={seed}": (seed,) for seed in seeds}
    run.cells(starts, partial(warm_start, setting, folder), desc="warm starts")
    study = Study("model", "a small language model on KeyDoor", "RL iteration")
    _compare(run, study, config, partial(_train_model, partial(train_language, setting, folder)))


def compare_babyai(config: ModelConfig, run: Run) -> None:
    """Compare EMPG with GRPO on BabyAI, with the table, figures and claim of it."""
    from icml.empg.experiment.babyai import BabyAITraining, train_babyai, warm_start
    from icml.empg.experiment.verdict import Study

    setting = BabyAITraining(
        iterations=config.iterations, eval_every=config.eval_every, evaluated=config.evaluated
    )
    folder = run.dir.absolute() / "checkpoints" / "babyai"
    seeds = (*config.select_seeds, *config.report_seeds)
    starts = {f"babyai/warm-start/seed={seed}": (seed,) for seed in seeds}
    run.cells(starts, partial(warm_start, setting, folder), desc="warm starts")
    study = Study("babyai", f"a small language model on BabyAI {setting.level}", "RL iteration")
    _compare(run, study, config, partial(_train_model, partial(train_babyai, setting, folder)))


def _compare(
    run: Run,
    study: Study,
    config: TableConfig | ModelConfig,
    train: Callable[..., dict[str, float]],
    arms: tuple[str, ...] = MODEL_ARMS,
) -> None:
    from icml.core.rl.compare import compare
    from icml.empg.experiment.verdict import AUC, judge

    def cells(jobs: Mapping[str, Any], fn: Callable[..., Any]) -> dict[str, Any]:
        named = {f"{study.name}/{key}": args for key, args in jobs.items()}
        found = run.cells(named, fn, desc=f"{study.name} runs")
        return {key: found[f"{study.name}/{key}"] for key in jobs}

    comparison: Comparison = compare(
        train,
        methods=arms,
        rates=config.rates,
        seeds=config.report_seeds,
        select_seeds=config.select_seeds,
        select_by=AUC,
        baseline="grpo",
        cells=cells,
    )
    judge(run, study, comparison)


def _table_setting(config: TableConfig) -> Any:
    from icml.empg.experiment.tabular import Training

    return Training(iterations=config.iterations, eval_every=config.eval_every)


def _train_table(setting: Any, arm: str, rate: float, seed: int, *, log: Any) -> dict[str, float]:
    from icml.empg.experiment.arms import ARMS
    from icml.empg.experiment.tabular import train

    return train(setting, ARMS[arm], rate, seed, log=partial(log, arm=arm, seed=seed))


def _train_model(
    train: Callable[..., dict[str, float]], arm: str, rate: float, seed: int, *, log: Any
) -> dict[str, float]:
    from icml.empg.experiment.arms import ARMS

    return train(ARMS[arm], rate, seed, log=partial(log, arm=arm, seed=seed))


def _say_what_is_not_shown(config: Config, run: Run) -> None:
    if config != SIZES["default"] and config.babyai is None:
        run.note(
            f"This is a small run ({len(config.table.report_seeds)} seeds, "
            f"{config.table.iterations} updates): its intervals are wide, and the default size may "
            "come out otherwise."
        )
    run.note(
        "The paper's agents are pretrained models of 1.5 to 32 billion parameters in WebShop, "
        "ALFWorld and Deep Search. A table and a model of 60 thousand parameters in a corridor "
        "say nothing about those; they show what the modulation does, and what it is worth here."
    )
    run.note(
        "Weights on steps also change the size of the update. At one shared learning rate EMPG can "
        "look better for that reason alone; the table of every rate shows where."
    )
