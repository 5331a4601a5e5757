"""Where should EMPG help? GRPO against EMPG in the six settings that NOTES.md lists.

Run from anywhere; an interrupted run continues::

    python packages/icml-empg/benchmarks/settings.py [--out runs/empg-settings]

Each method runs at every rate on the selection seeds; EMPG's zeta is chosen with its rate. Fresh
seeds are run at the chosen numbers alone. The outcome goes to settings.json beside this file.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from icml.core.experiment import Run
from icml.core.stats import holm, paired_t_interval, paired_t_test
from icml.empg.experiment.corridor import Corridor
from icml.empg.experiment.language import LanguageTraining, train_language, warm_start
from icml.empg.experiment.tabular import Training, train
from icml.empg.params import EMPGParams

METHODS: dict[str, EMPGParams | None] = {
    "GRPO": None,
    "EMPG, zeta 0.1": EMPGParams(zeta=0.1),
    "EMPG, zeta 0.02": EMPGParams(zeta=0.02),
}
ALPHA = 0.05
POWERS_OF_TWO = tuple(2.0**n for n in range(4, 11))
HALF_DECADES = (3e-4, 1e-3, 3e-3, 1e-2)
SGD_HALF_DECADES = (3e-2, 1e-1, 3e-1, 1.0)


class Setting(NamedTuple):
    """One place to look."""

    training: Training | LanguageTraining
    rates: tuple[float, ...]


LONG = Corridor(cells=15, max_steps=30)
SETTINGS = {
    "long": Setting(Training(corridor=LONG), POWERS_OF_TWO),
    "wide range of entropies": Setting(Training(noise=0.9, sure_noise=0.1), POWERS_OF_TWO),
    "few episodes": Setting(Training(tasks=2, group_size=4), POWERS_OF_TWO),
    "sparse": Setting(
        Training(corridor=Corridor(cells=15, max_steps=18), noise=0.7, tasks=16), POWERS_OF_TWO
    ),
    "think and act": Setting(
        LanguageTraining(thoughts=4, iterations=12, eval_every=4, evaluated=64), HALF_DECADES
    ),
    "model, long, plain SGD": Setting(
        LanguageTraining(
            cells=15,
            max_steps=30,
            optimizer="sgd",
            grad_clip=1e9,
            iterations=12,
            eval_every=4,
            evaluated=64,
        ),
        SGD_HALF_DECADES,
    ),
}


@dataclass(frozen=True)
class Config:
    """What decides the outcome of one setting."""

    setting: Training | LanguageTraining
    rates: tuple[float, ...]
    select_seeds: tuple[int, ...]
    report_seeds: tuple[int, ...]


def one_run(
    setting: Training | LanguageTraining,
    folder: Path,
    method: str,
    rate: float,
    seed: int,
    *,
    log: Callable[..., None],
) -> float:
    """Return the AUC of one training run; a worker process calls it."""
    if isinstance(setting, Training):
        return train(setting, METHODS[method], rate, seed)["AUC"]
    return train_language(setting, folder, METHODS[method], rate, seed)["AUC"]


def study(name: str, out: Path) -> dict[str, Any]:
    """Choose on the selection seeds, report on fresh ones."""
    setting, rates = SETTINGS[name]
    table = isinstance(setting, Training)
    config = Config(
        setting,
        rates,
        tuple(range(3000, 3003 if table else 3001)),
        tuple(range(4000, 4012 if table else 4004)),
    )
    with Run.open("empg", config, size="settings", out=out / name.replace(" ", "-")) as run:
        folder = run.dir.absolute() / "checkpoints"
        if isinstance(setting, LanguageTraining):
            seeds = (*config.select_seeds, *config.report_seeds)
            starts = {f"warm-start/seed={seed}": (seed,) for seed in seeds}
            run.cells(starts, partial(warm_start, setting, folder), workers=1)
        evaluate = partial(one_run, setting, folder)
        scores = _scores(run, evaluate, list(METHODS), rates, config.select_seeds)
        best = {
            "GRPO": _best(scores, ["GRPO"]),
            "EMPG": _best(scores, [method for method in METHODS if method != "GRPO"]),
        }
        report = {
            arm: _scores(run, evaluate, [method], [rate], config.report_seeds)[method, rate]
            for arm, (method, rate) in best.items()
        }
    difference = paired_t_interval(report["EMPG"], report["GRPO"])
    return {
        "setting": name,
        "best of GRPO": f"{best['GRPO'][1]:g}",
        "best of EMPG": f"{best['EMPG'][1]:g}, {best['EMPG'][0].partition(', ')[2]}",
        "edge": any(rate in (rates[0], rates[-1]) for _, rate in best.values()),
        "seeds": len(config.report_seeds),
        "AUC of GRPO": sum(report["GRPO"]) / len(report["GRPO"]),
        "AUC of EMPG": sum(report["EMPG"]) / len(report["EMPG"]),
        "difference": difference.estimate,
        "low": difference.low,
        "high": difference.high,
        "p": paired_t_test(report["EMPG"], report["GRPO"]),
    }


def _scores(
    run: Run,
    evaluate: Callable[..., float],
    methods: Sequence[str],
    rates: Sequence[float],
    seeds: Sequence[int],
) -> dict[tuple[str, float], list[float]]:
    jobs = {
        f"{method}/{rate!r}/seed={seed}": (method, rate, seed)
        for method in methods
        for rate in rates
        for seed in seeds
    }
    found = run.cells(jobs, evaluate, workers=1, desc="runs")
    return {
        (method, rate): [found[f"{method}/{rate!r}/seed={seed}"] for seed in seeds]
        for method in methods
        for rate in rates
    }


def _best(
    scores: dict[tuple[str, float], list[float]], methods: Sequence[str]
) -> tuple[str, float]:
    return max((point for point in scores if point[0] in methods), key=lambda p: sum(scores[p]))


def with_verdicts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add p-values that are Holm-corrected over all settings, and what they amount to."""
    corrected = holm([row["p"] for row in rows])
    for row, p in zip(rows, corrected, strict=True):
        row["p (Holm)"] = p
        if row["edge"]:
            row["verdict"] = "edge"
        elif p > ALPHA:
            row["verdict"] = "not shown"
        else:
            row["verdict"] = "EMPG higher" if row["difference"] > 0 else "EMPG lower"
    return rows


def main() -> None:
    """Run all settings and write what came out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/empg-settings"))
    out = parser.parse_args().out
    rows = with_verdicts([study(name, out) for name in SETTINGS])
    Path(__file__).with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n")
    for row in rows:
        print(
            f"{row['setting']:<26}{row['difference']:+.4f} [{row['low']:+.4f}, {row['high']:+.4f}]"
            f"  {row['verdict']}"
        )


if __name__ == "__main__":
    main()
