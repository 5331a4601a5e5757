"""What the learning part claims: which arm proves more than which, by `icml.core.rl.compare` alone.

Seeds and arms were written down in NOTES.md before they were run; that also has the rule that was
added after a first run, and is shown as exploratory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from icml.core.experiment import Run
    from icml.core.rl.compare import Comparison
    from icml.core.stats import Interval

__all__ = ["ARMS", "RATE", "TOP", "added_rule", "claim_bootstrapping", "claim_dapo"]

ARMS = {
    "sft": "SFT only",
    "unverified": "self-training, unverified",
    "verified": "expert iteration, verified",
    "extra-true": "as many other true certificates",
}
"""The arms of the first comparison."""
TOP = {"verified-longer": "expert iteration goes on", "dapo": "DAPO on top"}
"""The arms of the second: both go on from the model of expert iteration."""
OVER = {
    "unverified": "Verified expert iteration proves more held-out statements than self-training "
    "without the verifier",
    "sft": "Verified expert iteration proves more held-out statements than SFT only, which takes "
    "the same number of gradient steps",
}
"""What is claimed of expert iteration over each arm without it."""

ALPHA = 0.05
RATE = "held-out"
"""The metric: the fraction of held-out statements whose greedy answer the judge accepts."""


def _less(comparison: Comparison, arm: str, other: str) -> Interval:
    from icml.core.stats import paired_t_interval

    return paired_t_interval(comparison.values(arm, RATE), comparison.values(other, RATE))


def claim_bootstrapping(run: Run, first: Comparison, start: Sequence[float]) -> None:
    """State what is claimed of the first comparison.

    Args:
        run: Gets the claims.
        first: The arms of `ARMS`.
        start: Rate of the start model on each report seed.
    """
    runs = [metrics for runs in first.report.values() for metrics in runs]
    verified = [m for (arm, _), runs in first.report.items() if arm == "verified" for m in runs]
    wrong = sum(metrics["wrong pairs"] for metrics in verified)
    run.claim(
        "only-proofs",
        f"Each of the {sum(m['pairs'] for m in verified):.0f} pairs that expert iteration trained "
        "on is a proof by the judge; shown is how many are not",
        value=wrong,
        interval=None,
        holds=wrong == 0,
    )
    leaked = sum(metrics["held-out pairs"] for metrics in runs)
    run.claim(
        "no-contamination",
        "No held-out statement is in any arm's training set; shown is how many are",
        value=leaked,
        interval=None,
        holds=leaked == 0,
    )
    over_start = _over_start(first, start)
    _claim_gain(
        run,
        "verified-over-start",
        "Verified expert iteration proves more held-out statements than the model that all arms "
        "start from",
        over_start,
        holds=over_start.low > 0 and not first.best["verified"].edge,
    )
    for arm, statement in OVER.items():
        _claim_over(run, f"verified-over-{arm}", statement, first, arm="verified", other=arm)
    _claim_over(
        run,
        "other-data",
        "As many true certificates of statements drawn at random teach more than the proofs that "
        "expert iteration found itself",
        first,
        arm="extra-true",
        other="verified",
    )


def _over_start(first: Comparison, start: Sequence[float]) -> Interval:
    from icml.core.stats import paired_t_interval

    return paired_t_interval(first.values("verified", RATE), start)


def _claim_gain(run: Run, id: str, statement: str, gain: Interval, *, holds: bool) -> None:
    run.claim(
        id,
        f"{statement}: difference in greedy proof rate",
        value=gain.estimate,
        interval=(gain.low, gain.high),
        holds=holds,
        kind="reported",
    )


def _claim_over(
    run: Run, id: str, statement: str, comparison: Comparison, *, arm: str, other: str
) -> None:
    """Claim that an arm beats another one, by `compare` alone; one of them is the baseline."""
    ahead = "lower" if arm == comparison.baseline else "higher"
    verdict = comparison.differences[other if ahead == "lower" else arm, RATE].verdict
    ends = " (undecided: a best rate ends the grid)" if verdict == "edge" else ""
    statement = f"{statement}, each at its own best rate{ends}"
    _claim_gain(run, id, statement, _less(comparison, arm, other), holds=verdict == ahead)


def added_rule(run: Run, first: Comparison, start: Sequence[float]) -> None:
    """Show what the rule says that was added after the first report seeds had been seen.

    An arm that training harms does best at the smallest rate there is, and below the grid its
    limit is the start: by this rule, what beats both beats the arm at any rate. No claim rests
    on it.
    """
    over_start = _over_start(first, start)
    rows = []
    for arm in OVER:
        gain, difference = _less(first, "verified", arm), first.differences[arm, RATE]
        lowest = first.best[arm].rate == first.rates[0] and not first.best["verified"].edge
        better = difference.p_value <= ALPHA and gain.low > 0 and over_start.low > 0
        rows.append(
            {
                "verified over": ARMS[arm],
                "difference": gain.estimate,
                "difference low": gain.low,
                "difference high": gain.high,
                "plain rule": _plainly(difference.verdict),
                "added rule": ("beaten" if better else "not shown") if lowest else "says nothing",
            }
        )
    run.table(
        "exploratory: a rule added afterwards",
        rows,
        caption="Exploratory, no claim rests on it. The plain rule, which the claims go by, leaves "
        "a comparison undecided where a best rate ends the grid. The added rule was made after a "
        "first run had been seen, and then applied to fresh seeds: an arm that does best at the "
        "smallest rate is beaten where both it and the start model are.",
    )


def _plainly(verdict: str) -> str:
    return {"edge": "undecided: edge", "lower": "beaten", "higher": "better"}.get(verdict, verdict)


def claim_dapo(run: Run, top: Comparison) -> None:
    """State what is claimed of the second comparison."""
    from icml.core.stats import t_interval

    alone = t_interval(top.values("dapo", "gain"))
    _claim_gain(
        run,
        "dapo-gain",
        "DAPO proves more held-out statements than the model of expert iteration that it starts "
        "from",
        alone,
        holds=alone.low > 0 and not top.best["dapo"].edge,
    )
    _claim_over(
        run,
        "dapo-over-longer",
        "DAPO on top proves more held-out statements than expert iteration that goes on",
        top,
        arm="dapo",
        other="verified-longer",
    )
