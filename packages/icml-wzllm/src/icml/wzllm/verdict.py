"""What the learning part says: its sizes, its tables and figure, and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from icml.wzllm.gains import ARMS, RATE, TOP, added_rule, claim_bootstrapping, claim_dapo

if TYPE_CHECKING:
    from icml.core.experiment import Run
    from icml.core.rl.compare import Comparison, Evaluate

__all__ = ["Learning", "learn"]


@dataclass(frozen=True)
class Learning:
    """Everything that decides the result of the learning part."""

    report_seeds: tuple[int, ...] = (3000, 3001, 3002, 3003, 3004)
    """Seeds whose results are shown; each has its own statements held out."""
    select_seeds: tuple[int, ...] = (4000, 4001)
    """Seeds on which each arm's learning rate is chosen."""
    rates: tuple[float, ...] = (1e-3, 3e-3, 1e-2, 3e-2)
    """Learning rates of AdamW, each tried for each arm."""
    top_rates: tuple[float, ...] = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
    """The same for the arms that go on from expert iteration."""
    largest: int = 20
    """The statements have a and b from 1 to that."""
    held_out: int = 110
    """Statements that nothing is trained on, at least."""
    given: int = 80
    """Statements that come with a certificate of the symbolic search."""
    warm_steps: int = 200
    """Gradient steps on these, before the arms."""
    rounds: int = 4
    """Rounds of each arm."""
    steps: int = 60
    """Gradient steps a round."""
    samples: int = 4
    """Answers drawn a statement and round."""
    width: int = 48
    """Width of the model, which has two layers."""
    dapo_iterations: int = 40
    """Iterations of DAPO, of 16 prompts x 8 completions after dynamic sampling."""
    longer_rounds: int = 2
    """Rounds of the arm that DAPO is compared with."""
    longer_samples: int = 40
    """Answers drawn a statement and round there: about as many in all as DAPO draws."""

    def __post_init__(self) -> None:
        """Refuse designs that the comparisons would refuse later."""
        from icml.core.rl.compare import check_design

        for arms, rates in ((ARMS, self.rates), (TOP, self.top_rates)):
            first = next(iter(arms))
            check_design(tuple(arms), rates, self.report_seeds, self.select_seeds, first)


def learn(config: Learning, run: Run) -> None:
    """Run the learning part and add what follows from it to the run's findings."""
    from icml.core.rl.compare import compare
    from icml.wzllm.learning import bootstrap_arm, top_arm, warm_start

    run.seeds(config.report_seeds)
    folder = run.dir.absolute() / "checkpoints"
    seeds = {"seeds": config.report_seeds, "select_seeds": config.select_seeds}
    every = (*config.select_seeds, *config.report_seeds)
    starts = run.cells(
        {f"warm/seed={seed}": (seed,) for seed in every},
        partial(warm_start, config, folder), desc="warm starts",
    )  # fmt: skip
    first = compare(
        partial(bootstrap_arm, config, folder), methods=tuple(ARMS), rates=config.rates,
        **seeds, select_by=RATE, baseline="verified", cells=partial(_in_two_waves, run),
    )  # fmt: skip
    top = compare(
        partial(top_arm, config, folder, start=first.best["verified"].rate),
        methods=tuple(TOP), rates=config.top_rates, **seeds, select_by=RATE,
        baseline="verified-longer", cells=partial(_named_cells, run),
    )  # fmt: skip
    warm = [starts[f"warm/seed={seed}"] for seed in config.report_seeds]
    start = [found["rate"] for found in warm]
    claim_bootstrapping(run, first, start)
    claim_dapo(run, top)
    added_rule(run, first, start)
    _tables(run, first, top, warm)
    _work(run, first, top)
    _beyond_search(run, first, top, warm)
    _draw(run, first, top)
    _limits(run, first, top, len(config.report_seeds))


def _in_two_waves(
    run: Run, jobs: Mapping[str, tuple[str, float, int]], evaluate: Evaluate
) -> dict[str, Any]:
    """Run the control last: it is given as many certificates as expert iteration found."""
    waves = [
        {key: job for key, job in jobs.items() if (job[0] == "extra-true") == last}
        for last in (False, True)
    ]
    found = run.cells(waves[0], evaluate, desc="bootstrapping")
    counts: dict[str, list[int]] = {}
    for row in run.metrics():
        if row["arm"] == "verified" and "new" in row:
            counts.setdefault(f"{row['rate']!r}/{row['seed']}", []).append(int(row["new"]))
    last = run.cells(waves[1], partial(evaluate, counts=counts), desc="control")
    return {**found, **last}


def _named_cells(
    run: Run, jobs: Mapping[str, tuple[str, float, int]], evaluate: Evaluate
) -> dict[str, Any]:
    """Run the second comparison's jobs under keys of their own."""
    found = run.cells({f"top/{key}": job for key, job in jobs.items()}, evaluate, desc="on top")
    return {key: found[f"top/{key}"] for key in jobs}


def _tables(run: Run, first: Comparison, top: Comparison, warm: list[dict[str, float]]) -> None:
    proved = sum(start["rate"] for start in warm) / len(warm)
    run.table(
        "bootstrapping",
        _named(first.best_rows(RATE, "pool"), ARMS),
        caption="Each arm at its own best rate; differences are to verified expert iteration, "
        f"paired over {len(first.seeds)} seeds, with 95 % t intervals. All start from one model a "
        f"seed, which proves {proved:.0%} of its held-out statements. Pool: statements that may be "
        "trained on and came without a certificate.",
    )
    run.table(
        "DAPO on top",
        _named(top.best_rows(RATE, "pool"), TOP),
        caption="Both arms go on from the model of verified expert iteration at its best rate, "
        "each at its own best rate; the difference is paired over the seeds.",
    )
    run.table(
        "bootstrapping at every rate",
        _named(first.rate_rows(RATE), ARMS),
        caption="Every arm at every rate: means over the report seeds with 95 % t intervals. The "
        "selection score is from other seeds.",
    )
    run.table(
        "DAPO at every rate",
        _named(top.rate_rows(RATE), TOP),
        caption="The same for the arms that go on.",
    )


def _work(run: Run, first: Comparison, top: Comparison) -> None:
    columns = ("pairs", "wrong pairs", "drawn")
    run.table(
        "what was trained on",
        [{"method": ARMS[arm], **_means(first, arm, columns)} for arm in ARMS],
        caption="Means over the report seeds, at each arm's best rate: pairs in the last training "
        "set, those that prove nothing, and answers drawn in all rounds.",
    )
    columns = ("before", "gain", "drawn", "drawn groups", "dead groups")
    run.table(
        "what was drawn on top",
        [{"method": TOP[arm], **_means(top, arm, columns)} for arm in TOP],
        caption="Means over the report seeds, at each arm's best rate. Dead groups have equal "
        "rewards; dynamic sampling leaves them out.",
    )


def _means(comparison: Comparison, arm: str, columns: tuple[str, ...]) -> dict[str, float]:
    every = {column: comparison.values(arm, column) for column in columns}
    return {column: sum(values) / len(values) for column, values in every.items()}


def _beyond_search(
    run: Run, first: Comparison, top: Comparison, warm: list[dict[str, float]]
) -> None:
    sizes = [start["held-out"] for start in warm]
    count, proved = sum(sizes), sum(start["found by search"] for start in warm)
    rows = [{"prover": "symbolic search", "proved": proved, "of": count, "beyond search": 0.0}]
    for comparison, arms in ((first, ARMS), (top, TOP)):
        for arm, name in arms.items():
            rates = comparison.values(arm, RATE)
            right = sum(round(r * n) for r, n in zip(rates, sizes, strict=True))
            # Search proves all of them, or what a model adds would have to be counted one by one.
            beyond = 0.0 if proved == count else None
            rows.append({"prover": name, "proved": right, "of": count, "beyond search": beyond})
    run.table(
        "model and search",
        rows,
        caption="Held-out statements of all report seeds. What a model proves beyond the symbolic "
        "search: nothing where search proves everything, as it does in this family.",
    )


def _draw(run: Run, first: Comparison, top: Comparison) -> None:
    from icml.core.plots import Arm, Estimate, intervals
    from icml.core.stats import t_interval

    names = {**ARMS, **TOP}
    roles: dict[str, Literal["baseline", "ours", "other"]]
    roles = {"verified": "ours", "unverified": "baseline"}
    estimates = [
        Estimate(arm, *t_interval(comparison.values(arm, RATE)), "held-out statements")
        for comparison, arms in ((first, ARMS), (top, TOP))
        for arm in arms
    ]
    ahead = first.differences["unverified", RATE].verdict == "lower"
    plot = intervals(
        estimates,
        title="Proofs that the judge accepts teach, unverified answers do not"
        if ahead
        else "Verified proofs are not shown to teach more than unverified answers",
        arms=[Arm(arm, roles.get(arm, "other"), name) for arm, name in names.items()],
        x_label="greedy proof rate",
        note=f"95 % t interval over {len(first.seeds)} seeds, each arm at its best rate.",
    )
    run.figure("learning", plot, caption="The rates of the two tables of arms.")


def _limits(run: Run, first: Comparison, top: Comparison, seeds: int) -> None:
    edges = [
        names[arm]
        for comparison, names in ((first, ARMS), (top, TOP))
        for arm in names
        if comparison.best[arm].edge
    ]
    if edges:
        run.note(
            f"The best rate of {', '.join(edges)} ends the grid of rates that was tried, so it may "
            "not be the best there is: no comparison with it counts as supported."
        )
    run.note(
        "The plan of the learning part is a second one, on fresh seeds: the widest rate on top, "
        "the claim over the start model and the exploratory rule came after a first run had been "
        "seen (NOTES.md)."
    )
    run.note(
        "The learning part has one family of identities and a model of some fifty thousand "
        f"parameters, on {seeds} seeds. It does not reproduce the paper's 34 %: that is of another "
        "prover on other statements. Search proves all of the family, so the model adds no proof."
    )
    run.note(
        "Expert iteration draws for statements without a proof only, the unverified arm for all "
        "that came without one; the arms share the number of gradient steps, not of draws."
    )


def _named(rows: list[dict[str, Any]], names: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{**row, "method": names[row["method"]]} for row in rows]
