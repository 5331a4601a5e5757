"""What the experiment says: tables, figures and claims, from the cells of both parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from icml.core.stats import Interval, mcnemar_exact, t_interval, wilson

if TYPE_CHECKING:
    from icml.core.findings import Findings
    from icml.core.plots import Plot

__all__ = ["SHARES", "report_judges", "report_models"]

SHARES = (0.0, 0.5, 0.9)
"""Of a fine-tuning's statements, those that are false."""
UNCURED, CURED, REFUSING = map(str, SHARES)
MODELS = {
    "base": "before",
    UNCURED: "tuned, no false statements",
    CURED: "tuned, half of them false",
    REFUSING: "tuned, nine of ten false",
}
JUDGES = {
    "one": "one vote of a noisy judge",
    "three": "three votes",
    "biased": "a lenient judge",
    "corrected": "a lenient judge, corrected",
}

Cells = Sequence[Mapping[str, Any]]


def report_judges(run: Findings, cells: Cells, *, items: int) -> None:
    """Add what the simulated judges show.

    Args:
        run: Where it goes.
        cells: Of `icml.brokenmath.experiment.simulated_judges.score`, one a seed.
        items: In each of them.
    """
    reported = {
        name: [cell["corrected"][0] if name == "corrected" else cell[name] for cell in cells]
        for name in JUDGES
    }
    errors = {
        name: t_interval([x - cell["truth"] for x, cell in zip(each, cells, strict=True)])
        for name, each in reported.items()
    }
    rows: list[dict[str, Any]] = []
    for name, error in errors.items():
        rows.append({"judge": JUDGES[name]} | error.columns("error of the rate"))
        agrees = [cell[f"agree_{name}"] for cell in cells if f"agree_{name}" in cell]
        rows[-1]["agrees"] = t_interval(agrees).estimate if agrees else None
    run.table(
        "judges", rows, caption="Reported minus true sycophancy (95 % t interval over seeds)."
    )
    run.figure("judges", _judges_figure(errors), caption="What a judge does to the rate.")
    _claim_votes(run, cells, items)
    _claim_correction(run, cells, errors)


def _claim_votes(run: Findings, cells: Cells, items: int) -> None:
    recovered = min(cell["recovered"] for cell in cells)
    run.claim(
        "rule-judge-exact",
        f"The rule judge finds the behaviour of every answer ({len(cells)} times {items})",
        value=recovered, interval=None, holds=recovered == 1.0,
    )  # fmt: skip
    gain = t_interval([cell["agree_three"] - cell["agree_one"] for cell in cells])
    run.claim(
        "three-votes-agree-more",
        "Three votes agree with the truth more often than one",
        estimate=gain,
        holds=gain.low > 0,
        paper="agreement with people 92.8 % for one vote, 95 % for three",
    )


def _claim_correction(run: Findings, cells: Cells, errors: Mapping[str, Interval]) -> None:
    bias, corrected = errors["biased"], errors["corrected"]
    run.claim(
        "correction-removes-bias",
        f"The lenient judge reports {-bias.estimate:.3f} too little; corrected the mean error is "
        "within 0.03",
        estimate=corrected,
        holds=bias.high < 0 and corrected.low >= -0.03 and corrected.high <= 0.03,
    )
    covered = sum(c["corrected"][1] <= c["truth"] <= c["corrected"][2] for c in cells)
    share = wilson(covered, len(cells))
    run.claim(
        "corrected-intervals-cover",
        f"The corrected 95 % intervals hold the truth ({covered} of {len(cells)})",
        estimate=share,
        holds=share.high >= 0.95,
        kind="reported",
    )


def _judges_figure(errors: Mapping[str, Interval]) -> Plot:
    from icml.core.plots import Arm, Estimate, intervals

    return intervals(
        [Estimate(name, *error) for name, error in errors.items()],
        title="A lenient judge hides sycophancy; a labelled set brings it back",
        arms=[
            Arm(name, _role(name, ours="corrected", baseline="biased"), label)
            for name, label in JUDGES.items()
        ],
        x_label="reported minus true share of sycophantic answers",
        note="95 % t interval over seeds",
        reference=0,
    )


def report_models(run: Findings, cells: Cells) -> None:
    """Add what the trained models show.

    Args:
        run: Where it goes.
        cells: Of `icml.brokenmath.experiment.training.train_and_measure`, one a seed.
    """
    found = {
        name: {
            measured: t_interval([_share(cell[name], measured) for cell in cells])
            for measured in ("knows", "proves", "sycophant", "ideal", "detected")
        }
        for name in MODELS
    }
    labels = {
        "knows": "knows the sum", "proves": "proves what is true",
        "sycophant": "proves what is false", "ideal": "ideal", "detected": "detected",
    }  # fmt: skip
    rows: list[dict[str, Any]] = []
    for name, one in found.items():
        rows.append({"model": MODELS[name]})
        for measured, label in labels.items():
            rows[-1] |= one[measured].columns(label)
    run.table("models", rows, caption="Held-out pairs (mean and 95 % t interval over seeds).")
    run.figure("behaviour", _behaviour_figure(found), caption="Behaviour on held-out pairs.")
    _claim_cure(run, cells, found)
    _claim_utility(run, cells, found)


def _claim_cure(run: Findings, cells: Cells, found: Mapping[str, Mapping[str, Interval]]) -> None:
    run.claim(
        "knows-and-agrees",
        "Before the tuning the model knows the facts and proves nearly every false statement",
        estimate=found["base"]["sycophant"],
        holds=found["base"]["knows"].low >= 0.9 and found["base"]["sycophant"].low >= 0.9,
    )
    halved = t_interval(
        [_share(c[CURED], "sycophant") - 0.5 * _share(c[UNCURED], "sycophant") for c in cells]
    )
    worst = max(mcnemar_exact(*_discordant(c[UNCURED], c[CURED])) for c in cells)
    run.claim(
        "false-statements-cure",
        "With half of the statements false, sycophancy is at most half of that without any (its "
        f"excess over half; McNemar's p is at most {worst:.1e} for each seed)",
        estimate=halved,
        holds=halved.high <= 0 and worst < 0.01,
        paper="Qwen3-4B: 55.6 % before, 51.0 % after fine-tuning with nine tenths",
    )
    remaining = found[CURED]["sycophant"]
    run.claim(
        "cure-is-not-complete",
        "Fine-tuning reduces sycophancy and doesn't remove it",
        estimate=remaining,
        holds=remaining.low > 0,
        kind="reported",
    )


def _claim_utility(
    run: Findings, cells: Cells, found: Mapping[str, Mapping[str, Interval]]
) -> None:
    kept = t_interval([_share(c[CURED], "proves") - _share(c[UNCURED], "proves") for c in cells])
    run.claim(
        "utility-is-kept",
        "With half of the statements false, true ones are still proved (loss of at most 10 points)",
        estimate=kept,
        holds=kept.low >= -0.1,
        kind="reported",
    )
    refused = found[REFUSING]["proves"]
    run.claim(
        "rate-alone-misleads",
        "With nine of ten false, the model refuses most true statements too: sycophancy without "
        "utility says nothing",
        estimate=refused,
        holds=refused.high < 0.5,
        kind="reported",
    )


def _share(model: Mapping[str, Sequence[Any]], measured: str) -> float:
    if measured in ("knows", "proves"):
        return sum(model[measured]) / len(model[measured])
    return list(model["behaviour"]).count(measured) / len(model["behaviour"])


def _discordant(
    first: Mapping[str, Sequence[Any]], second: Mapping[str, Sequence[Any]]
) -> tuple[int, int]:
    """Count pairs that the first model alone, and the second alone, is sycophantic on."""
    both = list(zip(first["behaviour"], second["behaviour"], strict=True))
    yes = "sycophant"
    return sum(a == yes != b for a, b in both), sum(b == yes != a for a, b in both)


def _behaviour_figure(found: Mapping[str, Mapping[str, Interval]]) -> Plot:
    from icml.core.plots import Arm, Estimate, intervals

    shown = {
        "sycophant": "proves what is false", "proves": "proves what is true",
        "ideal": "ideal", "detected": "detected",
    }  # fmt: skip
    return intervals(
        [
            Estimate(name, *_clipped(found[name][measured]), group=label)
            for measured, label in shown.items()
            for name in MODELS
        ],
        title="What tuning with false statements does to false and to true ones",
        arms=[
            Arm(name, _role(name, ours=CURED, baseline="base"), label)
            for name, label in MODELS.items()
        ],
        x_label="share of held-out pairs",
        note="95 % t interval over seeds, cut at 0 and 1",
    )


def _clipped(interval: Interval) -> tuple[float, float, float]:
    return interval.estimate, max(interval.low, 0.0), min(interval.high, 1.0)


def _role(name: str, *, ours: str, baseline: str) -> Literal["ours", "baseline", "other"]:
    return "ours" if name == ours else "baseline" if name == baseline else "other"
