"""What the training runs say about GDPO against GRPO: claims, tables, figures and limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from icml.core.experiment import Run
    from icml.core.rl.compare import Comparison

ARMS = {"grpo": "GRPO", "gdpo": "GDPO", "grpo-weighted": "GRPO, format x 6"}
FORMAT, CORRECTNESS = "format AUC", "correctness AUC"
CORRECTNESS_MARGIN = 0.1  # of a range of 6


def judge(run: Run, comparison: Comparison) -> None:
    """Add all that follows from the training runs to the run's findings."""
    _claim_format(run, comparison)
    _claim_rebalancing(run, comparison)
    _show_tables(run, comparison)
    _draw(run, comparison)
    _say_what_is_not_shown(run, comparison)


def selection_score(metrics: Mapping[str, float]) -> float:
    """Weigh format (0 to 1) and correctness (-3 to 3) equally: what learning rates are chosen by.

    Example:
        >>> selection_score({"format AUC": 1.0, "correctness AUC": 0.0})
        1.5
    """
    return metrics[FORMAT] + (metrics[CORRECTNESS] + 3.0) / 6.0


def _claim_format(run: Run, comparison: Comparison) -> None:
    gain = comparison.differences["gdpo", FORMAT]
    interval = _paired(comparison, "gdpo", FORMAT)
    cost = _paired(comparison, "gdpo", CORRECTNESS)
    best = {arm: comparison.best[arm].rate for arm in ARMS}
    run.claim(
        "format-auc",
        "GDPO learns the format faster than GRPO, each at its own best learning rate "
        f"({best['gdpo']:g} and {best['grpo']:g}), and loses at most {CORRECTNESS_MARGIN} of 6 in "
        f"correctness ({cost.estimate:+.3f}): difference in mean format over training",
        value=interval.estimate,
        interval=(interval.low, interval.high),
        holds=gain.verdict == "higher" and cost.estimate >= -CORRECTNESS_MARGIN,
        kind="reported",
        paper="correct format in tool calling, Qwen2.5-1.5B: 80.66 % with GDPO, 76.33 % with GRPO "
        "(as quoted in verl-project/verl#5409)",
    )


def _claim_rebalancing(run: Run, comparison: Comparison) -> None:
    from icml.core.stats import paired_t_interval

    metrics = [each for runs in comparison.report.values() for each in runs]
    mixed = sum(each["mixed groups"] for each in metrics)
    raised = sum(each["raised groups"] for each in metrics)
    run.claim(
        "rebalancing",
        "GDPO gives the reward of the smaller range more say: format has a larger share of the "
        f"absolute advantages by GDPO than by GRPO in each of the {mixed:.0f} groups, of all "
        "training batches shown, in which both rewards vary; measured is the fraction of them",
        value=raised / max(mixed, 1),
        interval=None,
        holds=0 < raised == mixed,
    )
    gain = paired_t_interval(
        comparison.values("grpo", "format share by GDPO"),
        comparison.values("grpo", "format share by GRPO"),
    )
    run.claim(
        "format-share",
        "Over whole training batches of GRPO, format's share of the summed absolute advantages "
        "would be larger by GDPO: mean difference over the seeds",
        value=gain.estimate,
        interval=(gain.low, gain.high),
        holds=gain.low > 0,
        kind="reported",
    )


def _show_tables(run: Run, comparison: Comparison) -> None:
    run.table(
        "at the best rates",
        _named(comparison.best_rows(FORMAT, CORRECTNESS, "last format", "last correctness")),
        caption=f"Each arm at its own best rate; differences are to GRPO, paired over "
        f"{len(comparison.seeds)} seeds, with 95 % t intervals. AUC is the mean over the "
        'evaluations of a run. "Edge": a best rate ends the grid.',
    )
    run.table(
        "at every rate",
        _named(comparison.rate_rows(FORMAT, CORRECTNESS)),
        caption="Every arm at every rate: means over the report seeds with 95 % t intervals. The "
        "selection score is from other seeds.",
    )
    run.table(
        "seed by seed",
        _seed_rows(comparison),
        caption="Format on each report seed, each arm at its best rate: AUC, and at the end.",
    )
    run.table(
        "GDPO less GRPO at one rate",
        [_row_at(comparison, rate) for rate in comparison.rates],
        caption="Paired differences where both arms share a rate, with 95 % t intervals: at one "
        "rate a difference may be nothing but a step size that suits one arm better.",
    )
    run.table(
        "format's share of the advantages",
        [_share_row(comparison, arm) for arm in ARMS],
        caption="Format's share of the summed absolute advantages in an arm's training batches, "
        "computed in both ways on the same rewards; mean over iterations and seeds.",
    )


def _draw(run: Run, comparison: Comparison) -> None:
    from icml.core.plots import Estimate, curves, intervals
    from icml.core.stats import t_interval

    best = {arm: comparison.best[arm].rate for arm in ARMS}
    cells = tuple(f"report/{arm}/{rate!r}/" for arm, rate in best.items())
    plot = curves(
        [row for row in run.metrics() if row["cell"].startswith(cells)],
        title=_curves_title(comparison),
        arms=plot_arms(*ARMS),
        panels={"format": "right format (share)", "correctness": "correctness (-3 to 3)"},
        x_label="RL iteration",
    )
    rates = ", ".join(f"{ARMS[arm]} {rate:g}" for arm, rate in best.items())
    run.figure("learning-curves", plot, caption=f"Each arm at its best learning rate: {rates}.")
    estimates = [
        Estimate(arm, *t_interval(comparison.values(arm, FORMAT, rate)), f"learning rate {rate:g}")
        for rate in comparison.rates
        for arm in ARMS
    ]
    ahead = sum(_paired(comparison, "gdpo", FORMAT, rate).low > 0 for rate in comparison.rates)
    plot = intervals(
        estimates,
        title=f"GDPO is ahead of GRPO in format at {ahead} of {len(comparison.rates)} rates",
        arms=plot_arms(*ARMS),
        x_label="mean share of right format over training",
        note=f"95 % t interval over {len(comparison.seeds)} seeds.",
    )
    caption = "Ahead: the paired 95 % t interval of the difference lies above 0."
    run.figure("every-rate", plot, caption=caption)


def _curves_title(comparison: Comparison) -> str:
    verdict = comparison.differences["gdpo", FORMAT].verdict
    if verdict == "higher":
        return "Each at its best rate, GDPO learns the format faster than GRPO"
    return "Each at its best rate, GDPO is not shown to learn the format faster than GRPO"


def _say_what_is_not_shown(run: Run, comparison: Comparison) -> None:
    edges = [ARMS[arm] for arm in ARMS if comparison.best[arm].edge]
    if edges:
        run.note(
            f"The best rate of {', '.join(edges)} ends the grid of rates that was tried, so it may "
            "not be the best there is: no comparison with it counts as supported."
        )
    run.note(
        "This does not show that GDPO optimises both rewards better: format is compared with what "
        "correctness pays for it, on one synthetic task and a model of 80 thousand parameters."
    )
    run.note(
        "It does not show that collapsed advantages are what holds GRPO back: here nearly every "
        "combination of rewards has an advantage of its own under GRPO too. What differs is the "
        "weight of the small-range reward, and GRPO with format weighted by hand shows how much "
        "of GDPO's effect that is."
    )
    run.note(
        "A factor such as 'n times faster' depends on the learning rate; the table of every rate "
        "shows by how much."
    )


def _seed_rows(comparison: Comparison) -> list[dict[str, float]]:
    columns = {
        f"{ARMS[arm]}, {what}": comparison.values(arm, metric)
        for arm in ARMS
        for what, metric in (("AUC", FORMAT), ("end", "last format"))
    }
    return [
        {"seed": seed, **{name: values[i] for name, values in columns.items()}}
        for i, seed in enumerate(comparison.seeds)
    ]


def _share_row(comparison: Comparison, arm: str) -> dict[str, Any]:
    from icml.core.stats import t_interval

    shares = {
        f"share by {by}": t_interval(comparison.values(arm, f"format share by {by}")).estimate
        for by in ("GRPO", "GDPO")
    }
    return {"trained by": ARMS[arm], **shares}


def _row_at(comparison: Comparison, rate: float) -> dict[str, float]:
    row = {"rate": rate}
    for metric in (FORMAT, CORRECTNESS):
        interval = _paired(comparison, "gdpo", metric, rate)
        row |= {metric: interval.estimate, f"{metric} low": interval.low}
        row[f"{metric} high"] = interval.high
    return row


def _paired(comparison: Comparison, arm: str, metric: str, rate: float | None = None) -> Any:
    from icml.core.stats import paired_t_interval

    ours, baseline = (comparison.values(name, metric, rate) for name in (arm, "grpo"))
    return paired_t_interval(ours, baseline)


def _named(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "method": ARMS[row["method"]]} for row in rows]


def plot_arms(*names: str) -> list[Any]:
    """Return these arms as the figures show them."""
    from icml.core.plots import Arm

    roles: dict[str, Literal["baseline", "ours", "other"]]
    roles = {"grpo": "baseline", "gdpo": "ours", "grpo-weighted": "other"}
    return [Arm(name, roles[name], ARMS[name]) for name in names]
