"""How much faster is ME than running every member? Paired runs on one thread."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from icml.core.stats import Interval

if TYPE_CHECKING:
    from icml.core.experiment import Run

TARGETS = {2: 1.4, 3: 1.8}
"""Members -> how many times as fast ME should be, for members of 100 M parameters or more."""
GENERATE_TARGET = 1.10
OUTSIDE_TARGET = 0.05


def time_members(
    members: Sequence[str], tokens: int, prompt_tokens: int, pairs: int, *, log: Any
) -> dict[str, Any]:
    """Time an ensemble; a worker process calls it, which has one thread.

    Args:
        members: Sources; one alone is timed against transformers' ``generate``.
        tokens: New tokens a run.
        prompt_tokens: Tokens of the prompt.
        pairs: Runs of each method, in turn.
        log: Of the run, not used.
    """
    from icml.me.bench import random_prompt, time_pairs, time_plain_generate
    from icml.me.ensemble import Ensemble

    ensemble = Ensemble(list(members), devices=["cpu"] * len(members))
    sizes = [sum(p.numel() for p in m.model.parameters()) / 1e6 for m in ensemble.members]
    prompt = random_prompt(ensemble, batch=1, tokens=prompt_tokens)
    if len(members) == 1:
        ratios = time_plain_generate(ensemble, prompt, tokens=tokens, pairs=pairs)
        return {"ratios": ratios, "millions": sizes}
    timing = time_pairs(ensemble, prompt, tokens=tokens, pairs=pairs)
    return {
        "ratios": timing.ratios,
        "millions": sizes,
        "me tokens a second": [tokens / seconds for seconds in timing.me],
        "ce tokens a second": [tokens / seconds for seconds in timing.ce],
        "me passes": timing.me_calls,
        "ce passes": timing.ce_calls,
        "outside": timing.outside,
    }


def geometric_mean(ratios: Sequence[float]) -> Interval:
    """Return the geometric mean of ratios with its 95 % t interval (of their logarithms)."""
    from icml.core.stats import t_interval

    found = t_interval([math.log(ratio) for ratio in ratios])
    return Interval(math.exp(found.estimate), math.exp(found.low), math.exp(found.high))


def judge_speed(run: Run, cells: Mapping[int, Any], members: Sequence[str]) -> None:
    """State the claims on speed and cost, with their tables and pictures.

    Args:
        run: Takes the findings.
        cells: From the number of members to what `time_members` returned.
        members: All sources; the first n are the members of an ensemble of n.
    """
    several = {n: cell for n, cell in cells.items() if n > 1}
    exact = all(cell["me passes"] == 1 and cell["ce passes"] == n for n, cell in several.items())
    run.claim(
        "passes",
        "ME makes one forward pass a token whatever the number of members, the conventional "
        "ensemble one a member; shown is ME's number for the largest ensemble",
        value=several[max(several)]["me passes"],
        interval=None,
        holds=exact,
    )
    for n, cell in several.items():
        _claim_ratio(run, n, cell, TARGETS[n])
    alone = geometric_mean(cells[1]["ratios"])
    run.claim(
        "plain-generate",
        f"ME with one member takes at most {GENERATE_TARGET:.2f} times as long as transformers' "
        "generate",
        value=alone.estimate,
        interval=(alone.low, alone.high),
        holds=alone.high <= GENERATE_TARGET,
        kind="reported",
    )
    outside = max(cell["outside"] for cell in several.values())
    run.claim(
        "outside",
        f"At most {OUTSIDE_TARGET:.0%} of ME's time passes outside the members' forward passes; "
        "shown is the largest share of any run",
        value=outside,
        interval=None,
        holds=outside <= OUTSIDE_TARGET,
        kind="reported",
    )
    _show(run, cells, members)
    _draw(run, several)


def _claim_ratio(run: Run, n: int, cell: Mapping[str, Any], target: float) -> None:
    ratio = geometric_mean(cell["ratios"])
    sizes = ", ".join(f"{size:.0f}" for size in cell["millions"])
    run.claim(
        f"speed-{n}",
        f"With {n} members ({sizes} M parameters) ME writes at least {target} times as fast as the "
        f"conventional ensemble, both with caches, on one thread (at most {n} is possible)",
        value=ratio.estimate,
        interval=(ratio.low, ratio.high),
        holds=ratio.low >= target,
        kind="reported",
        paper="1.78 to 2.68 times as fast on a GPU (abstract)",
    )


def _show(run: Run, cells: Mapping[int, Any], members: Sequence[str]) -> None:
    from statistics import median

    rows = []
    for n, cell in cells.items():
        row = {
            "members": n,
            "sources": ", ".join(members[:n]),
            "median ratio": median(cell["ratios"]),
            "lowest": min(cell["ratios"]),
            "highest": max(cell["ratios"]),
        }
        for key in ("ce tokens a second", "me tokens a second"):
            row[key] = median(cell[key]) if key in cell else None
        row["outside"] = cell.get("outside")
        rows.append(row)
    run.table(
        "speed",
        rows,
        caption="Ratios of paired runs: the conventional ensemble's time over ME's, and for one "
        "member ME's time over that of transformers' generate. Medians of tokens a second.",
    )


def _draw(run: Run, several: Mapping[int, Any]) -> None:
    from icml.core.plots import Arm, Bar, Estimate, bars, intervals

    estimates = []
    for n, cell in several.items():
        estimates.append(Estimate("ours", *geometric_mean(cell["ratios"]), f"{n} members"))
        estimates.append(Estimate("ideal", n, n, n, f"{n} members"))
    pairs = len(next(iter(several.values()))["ratios"])
    low = min(geometric_mean(cell["ratios"]).low for cell in several.values())
    plot = intervals(
        estimates,
        title="ME is faster than running every member"
        if low > 1
        else "ME is not shown to be faster than running every member",
        arms=[Arm("ideal", "baseline", "ideal"), Arm("ours", "ours", "ME")],
        x_label="times as fast as the conventional ensemble",
        note=f"Geometric mean of {pairs} paired runs with its 95 % t interval.",
        reference=1,
    )
    run.figure("speed", plot, caption="The ideal is the number of members.")
    passes = []
    for n, cell in several.items():
        passes.append(Bar("ce", cell["ce passes"], f"{n} members"))
        passes.append(Bar("ours", cell["me passes"], f"{n} members"))
    plot = bars(
        passes,
        title="ME makes one forward pass a token",
        arms=[Arm("ce", "baseline", "conventional ensemble"), Arm("ours", "ours", "ME")],
        x_label="forward passes a token",
    )
    run.figure("passes", plot, caption="Counted in the timed runs; one is the least possible.")
