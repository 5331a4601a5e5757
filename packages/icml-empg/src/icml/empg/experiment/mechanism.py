"""What EMPG does to the updates of a batch, measured on batches alone: nothing depends on luck.

The batches are those that GRPO draws while it trains the table, so that policies from undecided to
nearly certain are seen; EMPG modulates each of them, but does not train.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from icml.core.experiment import Run
    from icml.empg.experiment.tabular import Training

QUARTERS = ("surest quarter", "second quarter", "third quarter", "least sure quarter")
IDENTITY_ERROR = 1e-9  # float64; the issue is rounding alone
SUM_ERROR = 1e-6  # EMPG divides by a mean plus 1e-8, as the paper's code does


@dataclass(frozen=True)
class Batches:
    """Which of GRPO's batches are looked at."""

    rate: float
    """Learning rate of the training that draws them."""
    every: int
    """Updates from one batch to the next."""


def measure_batches(
    setting: Training, batches: Batches, seed: int, *, log: Callable[..., None]
) -> list[dict[str, Any]]:
    """Return what EMPG does to each batch of one training run; a worker process calls it."""
    import torch

    from icml.empg.diagnostics import score_norm_sq
    from icml.empg.experiment.tabular import updates

    found = []
    for step, (policy, batch) in enumerate(updates(setting, None, batches.rate, seed)):
        # At the start all states have one entropy, so there is nothing to tell apart; and a batch
        # in which no group has both outcomes has no update.
        if step and step % batches.every == 0 and batch.advantages.any():
            logits = torch.from_numpy(policy.logits)
            norm = score_norm_sq(logits)[torch.from_numpy(batch.states)].sqrt()
            row = _modulated(batch.entropy, batch.advantages, batch.next, norm)
            found.append({"identity error": identity_error(logits), **row})
            log(step, arm="EMPG", seed=seed, **_flat(row))
    return found


def identity_error(logits: Tensor) -> float:
    """Return how far Proposition 1 is from the expectation written out, at the worst distribution.

    ``sum_a p_a ||e_a - p||^2`` against ``1 - exp(-H2)``.

    Args:
        logits: ``(n, choices)``.
    """
    import torch

    from icml.empg.diagnostics import renyi2_entropy

    p = logits.softmax(dim=1)
    scores = torch.eye(p.shape[1]).to(p) - p.unsqueeze(1)
    expected = (p * scores.square().sum(dim=2)).sum(dim=1)
    return float((expected + torch.expm1(-renyi2_entropy(logits))).abs().max())


def _modulated(
    entropy: torch.Tensor, advantages: torch.Tensor, following: torch.Tensor, norm: torch.Tensor
) -> dict[str, Any]:
    from icml.empg.diagnostics import update_report
    from icml.empg.experiment.arms import modulate
    from icml.empg.params import EMPGParams

    result = modulate(advantages, entropy, following, EMPGParams())
    report = update_report(entropy, advantages, result.advantages, score_norm=norm)
    surer, order = entropy.sort()
    falling = result.g[order].diff() <= 0
    return {
        "mean weight error": abs(float(result.g.mean()) - 1),
        "sum error": abs(float(result.advantages.sum())) / len(entropy),
        "disorder": int((~falling & (surer.diff() > 0)).sum()),
        "before": list(report.share_before),
        "after": list(report.share_after),
        "corr before": report.corr_before,
        "corr after": report.corr_after,
    }


def _flat(row: Mapping[str, Any]) -> dict[str, float]:
    return {
        "corr_before": row["corr before"],
        "corr_after": row["corr after"],
        **{f"{when}_{i}": row[when][i] for when in ("before", "after") for i in range(4)},
    }


def claim_mechanism(run: Run, found: Mapping[int, Sequence[Mapping[str, Any]]]) -> None:
    """State what must hold, from the batches of each seed, with a table and a figure."""
    batches = [row for rows in found.values() for row in rows]
    _claim_exactness(run, batches)
    _claim_shift(run, found)
    _show(run, found)


def _claim_exactness(run: Run, batches: Sequence[Mapping[str, Any]]) -> None:
    worst = max(row["identity error"] for row in batches)
    run.claim(
        "score-norm",
        "The expected squared norm of a decision's score, summed over its choices, is one minus "
        f"exp of minus its Renyi-2 entropy, in every state of {len(batches)} policies: largest "
        "difference",
        value=worst,
        interval=None,
        holds=worst <= IDENTITY_ERROR,
        paper="Proposition 1",
    )
    worst = max(max(row["mean weight error"], row["sum error"]) for row in batches)
    run.claim(
        "calibrated",
        f"The weights average 1 and the final advantages 0 over the steps of each of the "
        f"{len(batches)} batches: largest difference",
        value=worst,
        interval=None,
        holds=worst <= SUM_ERROR,
        paper="Eqs. 7 and 10",
    )
    disorder = sum(row["disorder"] for row in batches)
    run.claim(
        "ordered",
        "A surer step never has a smaller weight: pairs of neighbours in entropy, over all "
        "batches, for which it has",
        value=disorder,
        interval=None,
        holds=disorder == 0,
        paper="Eq. 10",
    )


def _claim_shift(run: Run, found: Mapping[int, Sequence[Mapping[str, Any]]]) -> None:
    from icml.core.stats import t_interval

    def change(of: Callable[[Sequence[Mapping[str, Any]], str], float]) -> list[float]:
        return [of(rows, "after") - of(rows, "before") for rows in found.values()]

    shifts = {
        "correlation": change(_correlation),
        "surest": change(partial(_share, quarter=0)),
        "least sure": change(partial(_share, quarter=3)),
    }
    statements = {
        "correlation": "EMPG lowers the correlation of a step's update size with its entropy",
        "surest": "EMPG raises the share of the update that the surest quarter of the steps has",
        "least sure": "EMPG lowers the share of the update that the least sure quarter has",
    }
    for name, values in shifts.items():
        mean, low, high = t_interval(values)
        run.claim(
            f"update-{name.replace(' ', '-')}",
            f"{statements[name]}: change, mean over each seed's batches",
            value=mean,
            interval=(low, high),
            holds=low > 0 if name == "surest" else high < 0,
            paper="Sec. 3",
        )


def _show(run: Run, found: Mapping[int, Sequence[Mapping[str, Any]]]) -> None:
    from icml.core.plots import Arm, Estimate, intervals
    from icml.core.stats import t_interval

    estimates, table = [], []
    for i, quarter in enumerate(QUARTERS):
        row: dict[str, Any] = {"steps": quarter}
        for when, arm in (("before", "GRPO"), ("after", "EMPG")):
            interval = t_interval([_share(rows, when, quarter=i) for rows in found.values()])
            estimates.append(Estimate(arm, *interval, quarter))
            columns = (f"share by {arm}", f"share by {arm} low", f"share by {arm} high")
            row |= dict(zip(columns, interval, strict=True))
        table.append(row)
    caption = (
        "Share of a batch's update, the sum of |A| times the norm of the score, by the quarter of "
        f"step entropy; mean over a seed's batches, 95 % t interval over {len(found)} seeds."
    )
    run.table("share of the update", table, caption=caption)
    plot = intervals(
        estimates,
        title="EMPG moves the update from uncertain steps to sure ones",
        arms=[Arm("GRPO", "baseline"), Arm("EMPG", "ours")],
        x_label="share of a batch's update",
        note=f"95 % t interval over {len(found)} seeds",
    )
    run.figure("share-of-the-update", plot, caption=caption)


def _correlation(rows: Sequence[Mapping[str, Any]], when: str) -> float:
    return sum(row[f"corr {when}"] for row in rows) / len(rows)


def _share(rows: Sequence[Mapping[str, Any]], when: str, *, quarter: int) -> float:
    return sum(row[when][quarter] for row in rows) / len(rows)
