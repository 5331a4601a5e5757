"""Say what GRPO and GDPO make of the rewards of a logged run."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch

from icml.core.errors import UserError
from icml.core.journal import write_atomic
from icml.gdpo.advantages import gdpo_advantages, grpo_advantages
from icml.gdpo.audit.logs import Log, LoggedBatch
from icml.gdpo.diagnostics import Diagnosis, diagnose

if TYPE_CHECKING:
    from icml.core.plots import Plot

MATCH = 1e-5
"""Advantages this close to the logged ones count as equal (ours): TRL computes in float32."""

OPTIONS = {"GDPO": "normalize_then_sum", "GRPO": "sum_then_normalize"}
"""TRL's names, values of ``multi_objective_aggregation``."""


class AuditedBatch(NamedTuple):
    """A logged batch with both methods' advantages, ``(completions,)`` each."""

    logged: LoggedBatch
    grpo: list[float]
    gdpo: list[float]


@dataclass(frozen=True)
class Audit:
    """The result of an audit; ``str()`` is what the command prints.

    Attributes:
        report: Both methods on all kept completions.
        group_size: Completions in a group.
        found: Batches in the log.
        batches: The kept ones, each generation batch once.
        off: For each method the largest |difference| to the logged advantages; empty where none
            are logged.
        unlogged: Completions of batches with logged advantages that have none (null or NaN).
    """

    report: Diagnosis
    group_size: int
    found: int
    batches: tuple[AuditedBatch, ...]
    off: dict[str, float]
    unlogged: int

    def __str__(self) -> str:
        """Return a few lines for a terminal."""
        kept = len(self.batches)
        lines = [
            f"{self.found} batches found, {self.found - kept} dropped as repeated, {kept} kept",
            "",
            str(self.report),
            self._match(),
        ]
        if self.unlogged:
            lines.append(f"{self.unlogged} completions have no logged advantage (null or NaN)")
        if not all(batch.logged.has_prompts for batch in self.batches):
            lines.append("no prompt column: the groups could not be checked")
        if any(batch.logged.step is None for batch in self.batches):
            lines.append("no step column: each file was taken as one batch")
        return "\n".join(lines)

    def _match(self) -> str:
        if not self.off:
            return "no advantages are logged"
        numbers = ", ".join(f"{value:.1e} from {name}'s" for name, value in self.off.items())
        equal = [name for name, value in self.off.items() if value <= MATCH]
        if len(equal) == 1:
            verdict = f"TRL's {OPTIONS[equal[0]]!r} ({equal[0]}) made this log"
        elif equal:
            verdict = "both of TRL's options give these"
        else:
            closest = min(self.off, key=self.off.__getitem__)
            verdict = (
                f"neither to {MATCH:g}, {closest} is closest; "
                "were other weights, another scale_rewards or other rewards used?"
            )
        return f"logged advantages are at most {numbers}: {verdict}"


def audit(
    log: Log,
    rewards: Sequence[str],
    *,
    group_size: int,
    weights: Sequence[float] | None = None,
) -> Audit:
    """Compute both methods' advantages for every batch of a log.

    Args:
        log: From :func:`icml.gdpo.audit.logs.read_log`.
        rewards: Names of the rewards, in the order of the log's columns.
        group_size: Completions in a group.
        weights: One number >= 0 for each reward; 1 each when None.

    Raises:
        UserError: If the weights or the rewards can't be used.
    """
    try:
        audited = tuple(_audit_batch(batch, group_size, weights) for batch in log.batches)
        rows = [row for batch in log.batches for row in batch.rewards]
        table = torch.tensor(rows, dtype=torch.float64)
        report = diagnose(table, group_size, weights=weights, names=rewards)
    except UserError:
        raise
    except ValueError as error:
        raise UserError(str(error)) from error
    off, unlogged = _compare(audited)
    return Audit(report, group_size, log.found, audited, off, unlogged)


def write_audit(result: Audit, out: Path) -> list[Path]:
    """Write ``shares.svg``, ``shares.csv`` and ``advantages.csv``, each whole or not at all.

    Args:
        result: The audit.
        out: Folder, made if missing; files of these names in it are replaced.

    Returns:
        The paths written.

    Raises:
        UserError: If the system refuses.
    """
    plot = shares_plot(result.report)
    contents = {
        "shares.svg": plot.svg(),
        "shares.csv": plot.csv(),
        "advantages.csv": advantages_csv(result),
    }
    for name, content in contents.items():
        write_atomic(out / name, content)
    return [out / name for name in contents]


def shares_plot(report: Diagnosis) -> Plot:
    """Draw each reward's share of the advantage under both methods."""
    from icml.core.plots import Arm, Bar, bars

    values = []
    for name, grpo, gdpo in zip(report.rewards, report.share_grpo, report.share_gdpo, strict=True):
        values += [Bar("grpo", grpo, name), Bar("gdpo", gdpo, name)]
    shifts = [b - a for a, b in zip(report.share_grpo, report.share_gdpo, strict=True)]
    most = max(range(len(shifts)), key=lambda k: abs(shifts[k]))
    return bars(
        values,
        title=(
            f"{report.rewards[most]} makes {report.share_grpo[most]:.0%} of the advantage "
            f"under GRPO and {report.share_gdpo[most]:.0%} under GDPO"
        ),
        arms=[Arm("grpo", "baseline", "GRPO"), Arm("gdpo", "ours", "GDPO")],
        x_label="share of the summed absolute advantages (fraction)",
        note=f"{report.completions} completions in {report.groups} groups",
    )


def advantages_csv(result: Audit) -> str:
    """Return one line a completion: where it stands, its rewards, and the advantages."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    rewards = [f"rewards/{name}" for name in result.report.rewards]
    writer.writerow(["batch", "step", "group", *rewards, "grpo", "gdpo", "logged"])
    for number, batch in enumerate(result.batches, 1):
        logged = batch.logged.advantages or [math.nan] * len(batch.grpo)
        for i, row in enumerate(batch.logged.rewards):
            place = [number, batch.logged.step, i // result.group_size + 1]
            numbers = [*row, batch.grpo[i], batch.gdpo[i], logged[i]]
            writer.writerow([*place, *("" if math.isnan(x) else repr(x) for x in numbers)])
    return text.getvalue()


def _audit_batch(
    batch: LoggedBatch, group_size: int, weights: Sequence[float] | None
) -> AuditedBatch:
    rewards = torch.tensor(batch.rewards, dtype=torch.float64)
    return AuditedBatch(
        batch,
        grpo_advantages(rewards, group_size, weights=weights).tolist(),
        gdpo_advantages(rewards, group_size, weights=weights).tolist(),
    )


def _compare(batches: Sequence[AuditedBatch]) -> tuple[dict[str, float], int]:
    """Return the largest difference of each method, and how many advantages were not logged."""
    triples = [
        (logged, grpo, gdpo)
        for batch in batches
        if batch.logged.advantages is not None
        for logged, grpo, gdpo in zip(batch.logged.advantages, batch.grpo, batch.gdpo, strict=True)
    ]
    known = [triple for triple in triples if not math.isnan(triple[0])]
    if not known:
        return {}, len(triples)
    off = {
        "GDPO": max(abs(logged - gdpo) for logged, _, gdpo in known),
        "GRPO": max(abs(logged - grpo) for logged, grpo, _ in known),
    }
    return off, len(triples) - len(known)
