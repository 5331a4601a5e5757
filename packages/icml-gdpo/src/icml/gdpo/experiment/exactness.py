"""What the experiment claims exactly: how many advantages are distinct, and TRL's own numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from icml.gdpo.enumeration import PAPER_GRID, distinct_table
from icml.gdpo.experiment.verdict import plot_arms

if TYPE_CHECKING:
    from icml.core.experiment import Run

__all__ = ["EXPECTED", "compare_with_trl", "count_distinct_advantages"]

EXPECTED = (
    (2, 3), (4, 6), (7, 14), (11, 26), (16, 38), (2, 4), (6, 10), (14, 45), (2, 5), (8, 15),
)  # fmt: skip
"""Distinct advantages by GRPO and by GDPO at each of `PAPER_GRID` (NOTES.md says how counted)."""

TOLERANCE = 1e-5  # TRL logs float32


def count_distinct_advantages(run: Run) -> None:
    """Claim the paper's table of distinct advantages, and show it."""
    from icml.core.plots import Bar, bars

    counts = distinct_table(PAPER_GRID)
    right = [(c.grpo, c.gdpo) == wanted for c, wanted in zip(counts, EXPECTED, strict=True)]
    run.claim(
        "distinct-advantages",
        "GDPO tells more groups of binary rewards apart than GRPO, at all ten sizes that the paper "
        "compares, and the counts are the expected integers",
        value=sum(right),
        interval=None,
        holds=all(right) and all(c.gdpo > c.grpo for c in counts),
    )
    rows = [
        {
            "rewards": count.rewards,
            "group size": count.group_size,
            "groups": count.groups,
            "GRPO": count.grpo,
            "GDPO": count.gdpo,
        }
        for count in counts
    ]
    run.table(
        "distinct advantages",
        rows,
        caption="Distinct advantage vectors over all groups of binary rewards, counted exactly. "
        "For GDPO before its batch normalisation.",
    )
    drawn = [
        Bar(arm, value, f"{c.rewards} rewards, {c.group_size} completions")
        for c in counts
        for arm, value in (("grpo", c.grpo), ("gdpo", c.gdpo))
    ]
    plot = bars(
        drawn,
        title="GDPO keeps apart what GRPO gives the same advantage",
        arms=plot_arms("grpo", "gdpo"),
        x_label="distinct groups of advantages",
        note="All groups of binary rewards, counted exactly.",
    )
    run.figure("distinct-advantages", plot, caption="The exact counts of the table, as bars.")


def compare_with_trl(run: Run) -> None:
    """Claim that TRL's own advantages of a logged run are reproduced."""
    difference: Any = run.cell("trl", _largest_difference_from_trl)
    run.claim(
        "equals-trl",
        "The advantages of a logged GRPOTrainer run (TRL 1.16, its own GDPO option) are "
        f"reproduced to {TOLERANCE:g}; shown is the largest difference",
        value=difference,
        interval=None,
        holds=difference < TOLERANCE,
    )


def _largest_difference_from_trl() -> float:
    import torch

    from icml.gdpo.advantages import gdpo_advantages
    from icml.gdpo.audit.logs import trl_logged_batches

    differences = [
        (gdpo_advantages(torch.tensor(batch.rewards), 8) - torch.tensor(batch.advantages)).abs()
        for batch in trl_logged_batches()
    ]
    return torch.cat(differences).max().item()
