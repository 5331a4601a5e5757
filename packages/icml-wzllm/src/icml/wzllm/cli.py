"""``icml wzllm …``: thin sub-commands, each calls one public function."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from icml.core.reproduce import ReproduceOptions

_Statement = Annotated[Positional[str], arg(metavar="STATEMENT", help_behavior_hint="(required)")]

EXIT_CODES: Mapping[str, int] = {
    "proved": 0,
    "certified": 0,
    "open": 1,
    "not hypergeometric": 1,
    "bad statement": 2,
    "false": 3,
    "timeout": 4,
}
"""What ``prove`` exits with; 1 as well for a tier that was asked for and not reached."""


def _check_budget(seconds: float) -> None:
    if not (seconds > 0 and math.isfinite(seconds)):
        raise ValueError(f"--budget must be a positive number of seconds, got {seconds:g}")


@dataclass(frozen=True)
class ProveOptions:
    """What to prove, and how far to go."""

    statement: _Statement
    """For example "sum(k,0,n,binomial(n,k)^2) = binomial(2*n,n)"."""
    tier: Literal["finite", "certificate", "kernel"] = "certificate"
    """Compare small values; find and check a certificate; have a Lean kernel check the proof."""
    prover: Annotated[str, arg(metavar="PROVER")] = "symbolic"
    """Who proposes proofs, the judge stays ours: symbolic; model:MODEL, a language model; or
    hybrid:MODEL, the model for what symbolic leaves open. MODEL is the folder of an
    `icml wzllm train` run, a model's folder or a hub id."""
    proposals: int = 8
    """Proposals of a model that are judged, for each goal."""
    seed: int = 0
    """For what a model draws."""
    max_order: int = 4
    """Highest order of a recurrence, 0 or more."""
    budget: float = 30.0
    """Seconds for the search, and again for the kernel."""
    json: bool = False
    """Print the verdict as JSON."""
    save: Path | None = None
    """Write the certificate there, for `icml wzllm check`."""

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense."""
        if self.max_order < 0:
            raise ValueError(f"--max-order must be 0 or more, got {self.max_order}")
        if self.proposals < 1 or self.seed < 0:
            raise ValueError(
                "--proposals must be 1 or more and --seed 0 or more, "
                f"got {self.proposals} and {self.seed}"
            )
        _check_budget(self.budget)


def prove(options: ProveOptions) -> int:
    """Refute an identity, certify it, or prove it in a Lean kernel.

    Exits with 0 if it is certified or proved, 1 if that stays open, 3 if it is false, 4 if the
    budget ran out, 2 if it isn't a statement.
    """
    from icml.wzllm.bench import proof_to_json
    from icml.wzllm.proofs import prove as run
    from icml.wzllm.provers import prover_from_text
    from icml.wzllm.provers.proving import provenance
    from icml.wzllm.show import proof_text
    from icml.wzllm.statement import Identity

    identity = Identity.parse(options.statement)  # before a model is loaded
    prover = prover_from_text(options.prover, max_order=options.max_order, budget_s=options.budget)
    proof = run(
        identity,
        prover=prover,
        tier=options.tier,
        max_order=options.max_order,
        budget_s=options.budget,
        proposals=options.proposals,
        seed=options.seed,
    )
    if options.save is not None and (found := proof.certificate or proof.induction):
        found.save(options.save)
    if options.json:
        print(json.dumps({**proof_to_json(proof), **provenance(proof)}, indent=1))
    else:
        print(proof_text(proof))
    if options.tier == "kernel" and str(proof.status) == "certified":
        return 1
    return EXIT_CODES[str(proof.status)]


@dataclass(frozen=True)
class CheckOptions:
    """Which certificate to check."""

    certificate: Annotated[Positional[Path], arg(metavar="FILE", help_behavior_hint="(required)")]
    """A certificate as `icml wzllm prove --save` writes it, or a Lean proof (.lean) as `icml wzllm
    bench --tier kernel` does."""
    statement: str | None = None
    """The statement that it should prove; its own if not given."""
    budget: float = 30.0
    """Seconds for the check."""
    json: bool = False
    """Print the verdict as JSON."""

    def __post_init__(self) -> None:
        """Refuse a budget that makes no sense."""
        _check_budget(self.budget)


def check(options: CheckOptions) -> int:
    """Check a certificate or a Lean proof against its statement, believing nothing in it.

    Exits with 0 if it is accepted, 1 if not, 2 if it is neither, 4 if the budget ran out.
    """
    from icml.wzllm.certificate_files import read_certificate
    from icml.wzllm.statement import Identity
    from icml.wzllm.worker import Stopped, Worker

    if options.certificate.suffix == ".lean":
        return _check_proof(options)
    certificate = read_certificate(options.certificate)
    if options.statement is not None:
        wanted = Identity.parse(options.statement)
        if str(wanted) != str(certificate.identity):
            print(f"rejected: the certificate is for {certificate.identity}")
            return 1
    try:
        with Worker() as worker:
            report = worker.verify(certificate, budget_s=options.budget)
    except Stopped as stopped:
        print(f"timeout: {stopped}")
        return 4
    if options.json:
        print(json.dumps(report.__dict__, indent=1))
    elif report.accepted:
        print(f"accepted: {certificate.identity}")
        print(f"{report.witnesses} equations between exact numbers agree as well")
    else:
        print(f"rejected: {report.reason}")
    return 0 if report.accepted else 1


def _check_proof(options: CheckOptions) -> int:
    from dataclasses import asdict

    from icml.wzllm.kernel import WheelKernel
    from icml.wzllm.proof_file import read_proof
    from icml.wzllm.recheck import recheck_in_new_process
    from icml.wzllm.statement import Identity

    said = read_proof(options.certificate).identity
    wanted = said if options.statement is None else Identity.parse(options.statement)
    WheelKernel().prepare()
    found = recheck_in_new_process(options.certificate, wanted, budget_s=options.budget)
    if options.json:
        print(json.dumps(asdict(found), indent=1))
    elif found.accepted:
        print(f"accepted: {wanted}")
        print(f"stated in Lean {'; '.join(found.rewritings) or 'word by word'}, axioms: none")
    else:
        print(f"rejected: {found.why}")
    return 0 if found.accepted else 1


@dataclass(frozen=True)
class SketchOptions:
    """What to sketch."""

    statement: _Statement
    """For example "sum(k,0,n,binomial(n,k)) = 2^n"."""
    style: Literal["mathlib", "prelude"] = "mathlib"
    """For Lean with Mathlib, with named sub-goals; or the whole proof on our own base."""
    budget: float = 30.0
    """Seconds for the search."""

    def __post_init__(self) -> None:
        """Refuse a budget that makes no sense."""
        _check_budget(self.budget)


def sketch(options: SketchOptions) -> int:
    """Print the Lean text of a certified identity, its open sub-goals as named holes."""
    from icml.wzllm.formal import sketch_text
    from icml.wzllm.show import proof_text

    text, proof = sketch_text(options.statement, options.style, budget_s=options.budget)
    print(text or proof_text(proof))
    return 0 if text else EXIT_CODES[str(proof.status)]


@dataclass(frozen=True)
class BenchOptions:
    """Which statements to go through."""

    file: Annotated[
        Positional[Path | None],
        arg(metavar="FILE", help_behavior_hint="(default: the 78 shipped identities)"),
    ] = None
    """JSON Lines: {"statement": "a = b"}; also lhs, rhs, vars, and id, name, holds if known."""
    out: Annotated[
        Path | None,
        arg(help_behavior_hint="(default: runs/wzllm/bench.jsonl; runs/wzllm/bench-kernel)"),
    ] = None
    """A line for each finished statement; a folder for the kernel tier, with a file for each proof.
    The same command again goes on from there."""
    tier: Literal["finite", "certificate", "kernel"] = "certificate"
    """How far to go with each; the kernel tier checks each accepted file again, from disk."""
    budget: float = 60.0
    """Seconds for each statement's search, and for each check by the kernel."""

    def __post_init__(self) -> None:
        """Refuse a budget that makes no sense."""
        _check_budget(self.budget)


def bench(options: BenchOptions) -> int:
    """Prove a list of identities.

    Exits with 1 if a line is no statement, a status contradicts what is known, or a proof's file is
    refused.
    """
    from icml.wzllm.bench import contradicts, read_items

    items = list(read_items(options.file))
    if options.tier == "kernel":
        from icml.wzllm.kernel_bench import is_certified, outcome, run_kernel_bench, table

        out = options.out or Path("runs/wzllm/bench-kernel")
        records = run_kernel_bench(items, out, budget_s=options.budget)
        print(table(records))
        refused = [r["id"] for r in records if is_certified(r) and outcome(r)[0] == "refused"]
    else:
        records = _symbolic_bench(items, options)
        refused = []
    wrong = [record["id"] for record in records if contradicts(record)]
    if wrong:
        print(f"these contradict what is known: {', '.join(wrong)}")
    unread = [record["id"] for record in records if record["status"] == "bad statement"]
    if unread:
        print(f"these are no statements: {', '.join(unread)}")
    return 1 if wrong or refused or unread else 0


def _symbolic_bench(items: list[Any], options: BenchOptions) -> list[dict[str, Any]]:
    from collections import Counter

    from icml.wzllm.bench import run_bench

    def tell(record: dict[str, Any]) -> None:
        print(f"{record['id']:<12} {record['status']:<20} {record['detail'][:60]}", flush=True)

    out = options.out or Path("runs/wzllm/bench.jsonl")
    out.parent.mkdir(parents=True, exist_ok=True)
    records = run_bench(items, out, tier=options.tier, budget_s=options.budget, tell=tell)
    counts = Counter(record["status"] for record in records)
    print("  ".join(f"{status}: {count}" for status, count in counts.most_common()))
    return records


@dataclass(frozen=True)
class TrainOptions:
    """What to train."""

    recipe: Annotated[Positional[str], arg(metavar="RECIPE", help_behavior_hint="(required)")]
    """A YAML file, or one of ours: tiny runs on a CPU in minutes."""
    out: Annotated[
        Path | None, arg(metavar="DIR", help_behavior_hint="(default: runs/wzllm/train/RECIPE)")
    ] = None
    """Folder of the run; the same command again goes on where it was stopped."""
    bootstrap_only: bool = False
    """Stop before DAPO, which several processes can then share (accelerate launch)."""


def train(options: TrainOptions) -> int:
    """Train a prover: on certificates, by expert iteration, then by DAPO, judged by `verify`."""
    from icml.core.errors import require

    require("trl", extra="icml-wzllm[train]")
    from icml.wzllm.training.launch import train as run

    return run(options.recipe, out=options.out, bootstrap_only=options.bootstrap_only)


def reproduce(options: ReproduceOptions) -> int:
    """Go through the identities, then through the kernel, then learn, and write the report."""
    from icml.core.reproduce import reproduce as run
    from icml.wzllm.reproduce import SIZES, TITLE, run_experiment

    return run("wzllm", title=TITLE, sizes=SIZES, experiment=run_experiment, options=options)


app: Mapping[str, Callable[[Any], int | None]] = {
    "prove": prove,
    "check": check,
    "sketch": sketch,
    "bench": bench,
    "train": train,
    "reproduce": reproduce,
}
