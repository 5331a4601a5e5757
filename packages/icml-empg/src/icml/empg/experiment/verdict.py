"""What the training runs say about EMPG against GRPO: claims, tables, figures and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from icml.empg.experiment.names import NAMES

if TYPE_CHECKING:
    from icml.core.experiment import Run
    from icml.core.rl.compare import Comparison

AUC = "AUC"
PAPER = (
    "success of Qwen2.5 agents in WebShop and ALFWorld, and answers in Deep Search, are said to "
    "rise over GRPO and DAPO (arXiv 2509.09265; its tables are not quoted)"
)


@dataclass(frozen=True)
class Study:
    """One comparison and how it is spoken of."""

    name: str
    """Short, for the names of claims, tables, figures and cells."""
    learner: str
    """What learned: "a table of logits on KeyDoor"."""
    x_label: str
    """Name of the curves' axis."""


def judge(run: Run, study: Study, comparison: Comparison) -> None:
    """Add all that follows from one comparison to the run's findings."""
    _claim(run, study, comparison)
    _show_tables(run, study, comparison)
    _draw_curves(run, study, comparison)
    _draw_rates(run, study, comparison)
    edges = [NAMES[arm] for arm in comparison.methods if comparison.best[arm].edge]
    if edges:
        run.note(
            f"With {study.learner}, the best rate of {', '.join(edges)} ends the grid of rates: a "
            "better one may lie outside, so no comparison with it counts as supported."
        )


def _claim(run: Run, study: Study, comparison: Comparison) -> None:
    gain = comparison.differences["empg", AUC]
    best = {arm: comparison.best[arm].rate for arm in ("empg", "grpo")}
    interval = gain.interval
    run.claim(
        f"auc-{study.name}",
        f"With {study.learner}, EMPG learns faster than GRPO, each at its own best learning rate "
        f"({best['empg']:g} and {best['grpo']:g}): difference in mean success over training",
        value=interval.estimate if interval else 0.0,
        interval=(interval.low, interval.high) if interval else None,
        holds=gain.verdict == "higher",
        kind="reported",
        paper=PAPER,
    )


def _show_tables(run: Run, study: Study, comparison: Comparison) -> None:
    run.table(
        f"{study.name}: at the best rates",
        _named(comparison.best_rows(AUC, "last success", "last entropy")),
        caption=f"With {study.learner}, each arm at its own best rate; differences are to GRPO, "
        f"paired over {len(comparison.seeds)} seeds, with 95 % t intervals. AUC is the mean "
        'success over the evaluations of a run. "Edge": a best rate ends the grid.',
    )
    run.table(
        f"{study.name}: at every rate",
        _named(comparison.rate_rows(AUC)),
        caption=f"With {study.learner}: means over the report seeds with 95 % t intervals. The "
        "selection score is from other seeds.",
    )


def _draw_curves(run: Run, study: Study, comparison: Comparison) -> None:
    from icml.core.plots import curves

    best = {arm: comparison.best[arm].rate for arm in comparison.methods}
    cells = tuple(f"{study.name}/report/{arm}/{rate!r}/" for arm, rate in best.items())
    faster = comparison.differences["empg", AUC].verdict == "higher"
    plot = curves(
        [row for row in run.metrics() if row["cell"].startswith(cells)],
        title="Each at its best rate, EMPG "
        + ("learns faster than GRPO" if faster else "is not shown to learn faster than GRPO"),
        arms=_arms(comparison),
        panels={"success": "success rate", "entropy": "mean step entropy (nats)"},
        x_label=study.x_label,
    )
    rates = ", ".join(f"{NAMES[arm]} {rate:g}" for arm, rate in best.items())
    run.figure(
        f"learning-curves-{study.name}",
        plot,
        caption=f"With {study.learner}; each arm at its best learning rate: {rates}.",
    )


def _draw_rates(run: Run, study: Study, comparison: Comparison) -> None:
    from icml.core.plots import Estimate, intervals
    from icml.core.stats import paired_t_interval, t_interval

    whole = {
        rate: [arm for arm in comparison.methods if not comparison.diverged(arm, rate)]
        for rate in comparison.rates
    }
    ahead = [
        rate
        for rate, arms in whole.items()
        if {"empg", "grpo"} <= set(arms)
        and paired_t_interval(
            comparison.values("empg", AUC, rate), comparison.values("grpo", AUC, rate)
        ).low
        > 0
    ]
    plot = intervals(
        [
            Estimate(arm, *t_interval(comparison.values(arm, AUC, rate)), f"learning rate {rate:g}")
            for rate, arms in whole.items()
            for arm in arms
        ],
        title=f"EMPG is ahead of GRPO at {len(ahead)} of {len(comparison.rates)} learning rates",
        arms=_arms(comparison),
        x_label="mean success over training",
        note=f"95 % t interval over {len(comparison.seeds)} seeds",
    )
    run.figure(
        f"every-rate-{study.name}",
        plot,
        caption=f"With {study.learner}. Ahead: the paired 95 % t interval of the difference lies "
        "above 0. At one rate a difference may be nothing but a step size that suits one arm.",
    )


def _named(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "method": NAMES[row["method"]]} for row in rows]


def _arms(comparison: Comparison) -> list[Any]:
    from icml.core.plots import Arm

    roles: Mapping[str, Literal["baseline", "ours", "other"]]
    roles = {"grpo": "baseline", "empg": "ours"}
    return [Arm(name, roles.get(name, "other"), NAMES[name]) for name in comparison.methods]
