"""``icml brokenmath report | compare | likelihood``: thin over the functions that do the work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from icml.core.errors import UserError, require


@dataclass(frozen=True)
class ReportOptions:
    """Which logs to report."""

    logs: Annotated[
        Positional[tuple[Path, ...]], arg(metavar="LOG...", help_behavior_hint="(required)")
    ]
    """Logs of inspect eval icml/brokenmath or icml/brokenmath_utility, or folders of them."""
    rejudge: Annotated[
        str | None, arg(metavar="JUDGE", help_behavior_hint="(default: as judged)")
    ] = None
    """Judge the answers again without solving again: rule, or a model such as openai/gpt-5-mini."""
    votes: Annotated[int | None, arg(metavar="INT", help_behavior_hint="(default: 3)")] = None
    """Votes of a model that judges again."""
    tie_rule: Annotated[
        Literal["first", "worst"] | None, arg(help_behavior_hint="(default: first)")
    ] = None
    """Which of several that tie for the most votes of a model that judges again wins."""
    labels: Annotated[
        Path | None, arg(metavar="FILE", help_behavior_hint="(default: not corrected)")
    ] = None
    """Labels by people, lines of id, epoch and category: rates are corrected for the judge."""
    out: Path = Path("runs/brokenmath/report")
    """Folder of the report."""
    fresh: bool = False
    """Move away a report that is there and start anew."""

    def __post_init__(self) -> None:
        """Refuse nothing to report, and options of nobody who judges."""
        if not self.logs:
            raise ValueError("give at least one LOG")
        for name, value in (("--votes", self.votes), ("--tie-rule", self.tie_rule)):
            if value is not None and self.rejudge is None:
                raise ValueError(f"{name} belongs to --rejudge MODEL")


def report(options: ReportOptions) -> None:
    """Report logs: rates with intervals, by competition and type, as tables and a page."""
    import hashlib

    from icml.brokenmath.labels import Labels
    from icml.brokenmath.log_files import find_logs
    from icml.brokenmath.report_page import ReportConfig, build_report

    labels = None if options.labels is None else Labels.read(options.labels)
    logs = find_logs(options.logs)
    judge = asked = None
    if options.rejudge is not None:
        from icml.brokenmath.judge import LLMJudge, judge_named

        judge = judge_named(options.rejudge, votes=options.votes, tie_rule=options.tie_rule)
        asked = judge if isinstance(judge, LLMJudge) else None
    config = ReportConfig(
        logs=[{"name": log.path.name, "sha256": log.digest} for log in logs.logs],
        rejudge="" if judge is None else judge.name,
        votes=0 if asked is None else asked.votes,
        tie_rule="" if asked is None else asked.tie_rule,
        labels=""
        if options.labels is None
        else hashlib.sha256(options.labels.read_bytes()).hexdigest(),
    )
    page, lines = build_report(
        logs, config, judge=judge, labels=labels, out=options.out, fresh=options.fresh
    )
    print("\n".join([*lines, str(page.resolve())]))


@dataclass(frozen=True)
class CompareOptions:
    """Which two logs to compare."""

    a: Annotated[Positional[Path], arg(metavar="LOG_A", help_behavior_hint="(required)")]
    """Log of the first model or condition."""
    b: Annotated[Positional[Path], arg(metavar="LOG_B", help_behavior_hint="(required)")]
    """Log of the second."""
    common: bool = False
    """Compare the items that both have if they are not the same; the others are counted."""
    seed: int = 0
    """Of the bootstrap."""

    def __post_init__(self) -> None:
        """Refuse a log against itself."""
        if self.a.resolve() == self.b.resolve():
            raise UserError(f"{self.a} is compared with itself: give two logs")


def compare(options: CompareOptions) -> None:
    """Compare sycophancy in two logs, paired by item: McNemar's test and an interval."""
    from icml.brokenmath.answers import read_answers
    from icml.brokenmath.compare import compare_answers, comparison_lines

    a, b = read_answers(options.a), read_answers(options.b)
    found = compare_answers(a, b, common=options.common, seed=options.seed)
    print("\n".join(comparison_lines(a, b, found)))


@dataclass(frozen=True)
class LikelihoodOptions:
    """Which model to score on what."""

    model: Annotated[Positional[str], arg(metavar="MODEL", help_behavior_hint="(required)")]
    """A folder with a model of transformers, a hub id, or pkg:smollm2."""
    items: str = "verified"
    """verified, a file of items, or hf: and a data set."""
    revision: Annotated[
        str | None, arg(metavar="COMMIT", help_behavior_hint="(of a data set on the hub)")
    ] = None
    """Commit of a data set on the hub, 40 hex digits."""
    limit: Annotated[int | None, arg(metavar="INT", help_behavior_hint="(default: all)")] = None
    """Take the first items alone."""

    def __post_init__(self) -> None:
        """Refuse a limit below 1."""
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"--limit must be >= 1, got {self.limit}")


def likelihood(options: LikelihoodOptions) -> None:
    """Compare how likely a small model finds "true" and "false" after each statement."""
    from icml.brokenmath.items import load_items
    from icml.brokenmath.likelihood import likelihood as run
    from icml.core.models.load import load

    items = load_items(options.items, revision=options.revision)[: options.limit]
    for library in ("torch", "transformers"):
        require(library, extra="icml-brokenmath[models]")
    loaded = load(options.model)
    print("\n".join([options.model, *run(loaded.model, loaded.tokenizer, items).lines()]))
