"""The experiment behind ``icml brokenmath reproduce``.

Part A scores solvers of known behaviour. Part B trains a small model that knows every fact and
agrees with every lie, and fine-tunes it with false statements (Sec. 5). Settings, seeds and claims
were written down in NOTES.md before the report's seeds were run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from icml.core.experiment import Run
    from icml.core.plots import Plot
    from icml.core.stats import Interval

TITLE = "BrokenMath: does a model prove what is false?"
CURED, REFUSING = "0.5", "0.9"
_NAMES = {
    "base": "before",
    "0.0": "tuned, no false statements",
    "0.5": "tuned, half of them false",
    "0.9": "tuned, nine of ten false",
}


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
SHARES = (0.0, 0.5, 0.9)


def run_experiment(config: Config, run: Run) -> None:
    """Compute both parts, then tabulate, draw and state the claims."""
    from icml.brokenmath.experiment.scoring import score
    from icml.brokenmath.experiment.training import train_and_measure
    from icml.core.errors import require

    require("torch", extra="icml-brokenmath[train]")
    run.seeds(list(config.seeds))
    jobs = {f"scoring/seed={seed}": (seed,) for seed in config.scoring_seeds}
    scored = run.cells(jobs, partial(score, items=config.items), desc="scoring")
    _scoring(run, config, [scored[key] for key in jobs])
    sizes = {
        "modulus": config.modulus, "held_out": config.held_out, "batch": 64,
        "base": config.base_steps, "tuned": config.tuned_steps,
    }  # fmt: skip
    rates = {"base": 2e-3, "tuned": 1e-3}
    trained = {f"trained/seed={seed}": (seed, SHARES) for seed in config.seeds}
    cells = run.cells(trained, partial(train_and_measure, sizes=sizes, rates=rates), desc="models")
    _training(run, [cells[key] for key in trained])
    run.note(
        "The judges and solvers of part A are drawn, with known errors that don't depend on the "
        "item; real judges err on the same answers together."
    )
    run.note(
        "The model of part B has 70,000 parameters and one kind of fact. It shows a mechanism, not "
        "the rates of any model that people use."
    )


def _scoring(run: Run, config: Config, cells: Sequence[Mapping[str, Any]]) -> None:
    from icml.core.stats import t_interval, wilson

    errors = {
        name: t_interval([cell[name] - cell["truth"] for cell in cells])
        for name in ("one", "three", "biased")
    }
    errors["corrected"] = t_interval([cell["corrected"][0] - cell["truth"] for cell in cells])
    agree = {
        name: t_interval([cell[f"agree_{name}"] for cell in cells]) for name in ("one", "three")
    }
    names = {
        "one": "one vote of a noisy judge", "three": "three votes", "biased": "a lenient judge",
        "corrected": "a lenient judge, corrected",
    }  # fmt: skip
    rows = [
        {
            "judge": names[name],
            **error.columns("error of the rate"),
            "agrees": agree[name].estimate if name in agree else None,
        }
        for name, error in errors.items()
    ]
    run.table(
        "judges", rows, caption="Reported minus true sycophancy (95 % t interval over seeds)."
    )
    run.figure("judges", _judges_figure(errors, names), caption="What a judge does to the rate.")
    recovered = min(cell["recovered"] for cell in cells)
    run.claim(
        "rule-judge-exact",
        f"The rule judge finds the behaviour of every answer ({len(cells)} times {config.items})",
        value=recovered, interval=None, holds=recovered == 1.0,
    )  # fmt: skip
    run.claim(
        "three-votes-agree-more",
        "Three votes agree with the truth more often than one",
        value=agree["three"].estimate - agree["one"].estimate,
        interval=tuple(t_interval([c["agree_three"] - c["agree_one"] for c in cells]))[1:],
        holds=t_interval([c["agree_three"] - c["agree_one"] for c in cells]).low > 0,
        paper="agreement with people 92.8 % for one vote, 95 % for three",
    )  # fmt: skip
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


def _role(name: str, *, ours: str, baseline: str) -> Literal["ours", "baseline", "other"]:
    return "ours" if name == ours else "baseline" if name == baseline else "other"


def _judges_figure(errors: Mapping[str, Interval], names: Mapping[str, str]) -> Plot:
    from icml.core.plots import Arm, Estimate, intervals

    return intervals(
        [Estimate(name, *error) for name, error in errors.items()],
        title="A lenient judge hides sycophancy; a labelled set brings it back",
        arms=[
            Arm(name, _role(name, ours="corrected", baseline="biased"), label)
            for name, label in names.items()
        ],
        x_label="reported minus true share of sycophantic answers",
        note="95 % t interval over seeds",
        reference=0,
    )


def _training(run: Run, cells: Sequence[Mapping[str, Any]]) -> None:
    from icml.core.stats import mcnemar_exact, t_interval

    found = {
        name: {
            measured: t_interval([_share(cell[name], measured) for cell in cells])
            for measured in ("knows", "proves", "sycophant", "ideal", "detected", "invalid")
        }
        for name in _NAMES
    }
    rows = [
        {"model": _NAMES[name]}
        | {
            key: value
            for measured, label in (
                ("knows", "knows the sum"), ("proves", "proves what is true"),
                ("sycophant", "proves what is false"), ("ideal", "ideal"), ("detected", "detected"),
            )
            for key, value in one[measured].columns(label).items()
        }
        for name, one in found.items()
    ]  # fmt: skip
    run.table("models", rows, caption="Held-out pairs (mean and 95 % t interval over seeds).")
    run.figure("behaviour", _behaviour_figure(found), caption="Behaviour on held-out pairs.")
    halved = t_interval(
        [_share(c[CURED], "sycophant") - 0.5 * _share(c["0.0"], "sycophant") for c in cells]
    )
    worst = max(mcnemar_exact(*_discordant(c["0.0"], c[CURED])) for c in cells)
    run.claim(
        "knows-and-agrees",
        "Before the tuning the model knows the facts and proves nearly every false statement",
        estimate=found["base"]["sycophant"],
        holds=found["base"]["knows"].low >= 0.9 and found["base"]["sycophant"].low >= 0.9,
    )
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
    kept = t_interval([_share(c[CURED], "proves") - _share(c["0.0"], "proves") for c in cells])
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
            for name in _NAMES
        ],
        title="What tuning with false statements does to false and to true ones",
        arms=[
            Arm(name, _role(name, ours=CURED, baseline="base"), label)
            for name, label in _NAMES.items()
        ],
        x_label="share of held-out pairs",
        note="95 % t interval over seeds, cut at 0 and 1",
    )


def _clipped(interval: Interval) -> tuple[float, float, float]:
    return interval.estimate, max(interval.low, 0.0), min(interval.high, 1.0)
