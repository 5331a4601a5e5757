"""What the runs say: claims, tables, the Pareto picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from icml.agent_omit.experiment.picture import Spot, pareto

if TYPE_CHECKING:
    from icml.core.experiment import Run
    from icml.core.stats import Interval

__all__ = ["judge"]

Found = Mapping[str, Any]
PAPER = (
    "comparable to seven frontier agents, and the best trade-off of accuracy and tokens among "
    "seven ways to be efficient, with an 8B model on five benchmarks (arXiv 2602.04284; its "
    "tables are not quoted)"
)
EXACT = 1e-5  # nats; float32 with and without a key-value cache
MARGIN, SAVING, KEPT, FAILS, NOTHING = 0.05, 0.25, 0.05, 0.3, 0.05
NAMES = {
    "base": "base, nothing left out",
    "cold start": "after cold start",
    "w=0": "RL, w = 0",
    "w=0.2": "RL, w = 0.2",
    "w=0.5": "RL, w = 0.5",
    "no thoughts": "rule: no thoughts",
    "keep last": "rule: newest observation only",
}


def judge(
    run: Run, starts: Mapping[int, Found], trained: Mapping[str, Mapping[int, Found]]
) -> None:
    """Add all that follows from the runs to the findings.

    Args:
        run: Takes them.
        starts: What `warm_start` returned, by seed.
        trained: What `train_arm` returned, by arm and seed.
    """
    _exactness(run, [start["segments"] for start in starts.values()])
    arms: dict[str, list[Found]] = {
        name: [start[name] for start in starts.values()]
        for name in ("base", "no thoughts", "keep last", "cold start")
    }
    arms |= {arm: [found[seed] for seed in starts] for arm, found in trained.items()}
    _tradeoff(run, arms)
    _needed(run, arms["w=0.2"])
    _rules(run, arms)
    _tables(run, arms, len(starts))
    _draw(run, arms)


def _exactness(run: Run, measured: Sequence[Found]) -> None:
    run.claim(
        "exactness",
        "Segments score every output token as it was drawn: largest difference of "
        f"log-probabilities (nats; at most {EXACT:g})",
        value=max(found["exactness"] for found in measured),
        interval=None,
        holds=all(found["exactness"] <= EXACT for found in measured),
    )
    run.claim(
        "once",
        "Every output token is in the loss of one segment: tokens missed or counted twice",
        value=sum(found["miscounted"] for found in measured),
        interval=None,
        holds=not any(found["miscounted"] for found in measured),
    )
    shares = [found["outside"] for found in measured if not math.isnan(found["outside"])]
    # A model that leaves nothing out has no such turn.
    outside = _interval(shares if len(shares) > 1 else [0.0, 0.0])
    run.claim(
        "unedited",
        "Trained as one sequence that keeps what was left out, most turns with an edited context "
        "would start outside the clipping range: their share",
        value=outside.estimate,
        interval=(outside.low, outside.high),
        holds=outside.low > 0.5,
        kind="reported",
    )
    run.table(
        "cost of segments",
        [
            {
                "layout": layout,
                "tokens over those of one sequence": _interval([f[key] for f in measured]).estimate,
            }
            for layout, key in (("segments", "segments"), ("a row a turn", "steps"))
        ],
        caption="Tokens that a training step reads, on sampled episodes of the cold start.",
    )


def _tradeoff(run: Run, arms: Mapping[str, Sequence[Found]]) -> None:
    base = arms["base"]
    apart = _difference(arms["w=0.2"], base, lambda found: found["success"])
    run.claim(
        "success",
        "With w = 0.2 the agent succeeds as often as before (interval above "
        f"-{MARGIN:g}): difference of success rates",
        value=apart.estimate,
        interval=(apart.low, apart.high),
        holds=apart.low > -MARGIN,
        kind="reported",
        paper=PAPER,
    )
    saved = _saved(arms["w=0.2"], base)
    run.claim(
        "saving",
        f"With w = 0.2 a successful episode reads and writes fewer tokens (by {SAVING:.0%} or "
        "more): share saved",
        value=saved.estimate,
        interval=(saved.low, saved.high),
        holds=saved.low >= SAVING,
        kind="reported",
        paper=PAPER,
    )
    control = _saved(arms["w=0"], base)
    run.claim(
        "control",
        f"As many updates without the omission reward save nothing (under {NOTHING:.0%}): share "
        "saved",
        value=control.estimate,
        interval=(control.low, control.high),
        holds=control.high < NOTHING,
        kind="reported",
    )
    gain = _interval(
        [
            _share(ours, full) - _share(other, full)
            for ours, other, full in zip(arms["w=0.2"], arms["w=0"], base, strict=True)
        ]
    )
    run.claim(
        "reward",
        "It is the reward that saves: share saved with w = 0.2 less that with w = 0",
        value=gain.estimate,
        interval=(gain.low, gain.high),
        holds=gain.low > 0,
        kind="reported",
    )


def _needed(run: Run, ours: Sequence[Found]) -> None:
    for name, key, what in (
        ("keypad", "thought keypad", "the thought at the keypad"),
        ("note", "observation note", "the note"),
    ):
        left_out = _interval([found[key] for found in ours])
        run.claim(
            name,
            f"What is needed is kept: share of episodes in which w = 0.2 leaves out {what} "
            f"(under {KEPT:.0%})",
            value=left_out.estimate,
            interval=(left_out.low, left_out.high),
            holds=left_out.high < KEPT,
            kind="reported",
        )


def _rules(run: Run, arms: Mapping[str, Sequence[Found]]) -> None:
    for name in ("no thoughts", "keep last"):
        success = _interval([found["success"] for found in arms[name]])
        run.claim(
            name,
            f"A rule that doesn't look destroys the task ({NAMES[name]}; at most {FAILS:g}): "
            "success rate",
            value=success.estimate,
            interval=(success.low, success.high),
            holds=success.high <= FAILS,
            kind="reported",
        )


def _tables(run: Run, arms: Mapping[str, Sequence[Found]], seeds: int) -> None:
    rows, kinds = [], []
    for name, found in arms.items():
        row: dict[str, Any] = {"agent": NAMES[name]}
        for key in ("success", "prompt", "output", "tokens"):
            values = [one[key] for one in found if not math.isnan(one[key])]
            spread = _interval(values) if len(values) > 1 else None
            row[key] = spread.estimate if spread else values[0] if values else None
            row[f"{key} low"] = spread.low if spread else None
            row[f"{key} high"] = spread.high if spread else None
        rows.append(row)
        shares = {key: _known_mean([one[key] for one in found]) for key in _OMISSIONS}
        kinds.append({"agent": NAMES[name], **shares})
    run.table(
        "trade-off",
        rows,
        caption="Greedy play of episodes that training never drew; means over "
        f"{seeds} seeds with 95 % t intervals. Tokens are of successful episodes: prompt is what "
        "is read, summed over turns, output what is written.",
    )
    run.table(
        "what is left out",
        kinds,
        caption="Share of turns of each kind whose thought was empty, and whose observation the "
        "agent left out afterwards. The rules' own omissions of observations are not counted.",
    )


_OMISSIONS = [
    f"{what} {kind}"
    for what in ("thought", "observation")
    for kind in ("note", "walk", "keypad", "final")
]


def _draw(run: Run, arms: Mapping[str, Sequence[Found]]) -> None:
    from icml.core.plots import Arm

    spots = {}
    for name, found in arms.items():
        tokens = [one["tokens"] for one in found if not math.isnan(one["tokens"])]
        if len(tokens) > 1 and name != "cold start":
            spots[name] = Spot(_interval(tokens), _interval([one["success"] for one in found]))
    saved = _saved(arms["w=0.2"], arms["base"]).estimate
    kept = _difference(arms["w=0.2"], arms["base"], lambda found: found["success"]).low > -MARGIN
    run.figure(
        "pareto",
        pareto(
            spots,
            title=f"Omission learned by reward saves {saved:.0%} of tokens"
            + (" at equal success" if kept else ", but not at equal success"),
            arms=[
                Arm("base", "baseline", NAMES["base"]),
                Arm("w=0.2", "ours", NAMES["w=0.2"]),
                *(Arm(name, "other", NAMES[name]) for name in _OTHERS if name in spots),
            ],
            note="95 % t intervals over seeds",
        ),
        caption="High and left is good. Episodes that fail end early, so tokens are those of "
        "successful ones; a rule without any is not drawn.",
    )


_OTHERS = ("w=0", "w=0.5", "no thoughts", "keep last")


def _interval(values: Sequence[float]) -> Interval:
    from icml.core.stats import t_interval

    return t_interval(values)


def _difference(
    ours: Sequence[Found], base: Sequence[Found], of: Callable[[Found], float]
) -> Interval:
    from icml.core.stats import paired_t_interval

    return paired_t_interval([of(found) for found in ours], [of(found) for found in base])


def _share(ours: Found, base: Found) -> float:
    """Share of tokens saved; nothing, where no episode succeeds."""
    return 0.0 if math.isnan(ours["tokens"]) else 1 - ours["tokens"] / base["tokens"]


def _saved(ours: Sequence[Found], base: Sequence[Found]) -> Interval:
    return _interval([_share(one, full) for one, full in zip(ours, base, strict=True)])


def _known_mean(values: Sequence[float]) -> float | None:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else None
