"""Result rows: what one run of an agent on one bug came to, as JSON lines that stand alone.

A row names agent, model and the feedback that they had, the bug with what it is sliced by, and the
verdict. Rows come from `result_of` (any evaluation), from the folder that `icml kenv reproduce`
leaves behind, from the server's ``GET /v1/results``, from inspect-ai's logs, or from anybody who
writes the format. All of it is untrusted text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, StringConstraints, ValidationError

from icml.core.errors import UserError
from icml.kenv.models import (
    Bug,
    EquivalenceAnswer,
    Evidence,
    Patch,
    Record,
    Verdict,
    VerdictKind,
)
from icml.kenv.session import FeedbackLevel
from icml.kenv.stats import Outcome

MOST_BYTES = 256 * 2**20
"""Of one file of rows."""
MOST_LINE = 4 * 2**20
"""Bytes of one row."""
MOST_TEXT = 64 * 2**10
"""Characters kept of a report or a diff."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=120, strip_whitespace=True)]
Short = Annotated[str, StringConstraints(max_length=2000)]
BugId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
"""Also the name of its page, so without dots and slashes."""


class Result(Record):
    """One run of an agent on one bug; times with an offset from UTC."""

    format: Literal["icml-kenv result 1"] = "icml-kenv result 1"
    agent: Name
    model: Name = "none"
    """The language model, ``none`` for a program."""
    feedback: FeedbackLevel = "none"
    run: int = Field(default=1, ge=1)
    """Number of the run on this bug, from 1."""
    bug: BugId
    title: Short
    """The bug's crash title."""
    subsystems: list[Name] = Field(default_factory=list)
    crash_type: Short = ""
    fix_time: datetime | None = None
    """When the developers fixed the bug."""
    report: str = ""
    """The bug's crash report; the first row of a bug that has one is shown."""
    kind: VerdictKind
    reason: Short = ""
    answer: EquivalenceAnswer | None = None
    """Compared with the developers' fix; None where nothing was compared."""
    evidence: Evidence | None = None
    witness: Short = ""
    diff: str = ""
    boots: int = Field(default=0, ge=0)
    seconds: float = Field(default=0, ge=0, allow_inf_nan=False)
    """Wall time of builds and boots."""
    backend: Short = ""
    recorded: bool = False
    finished: datetime | None = None
    key: Short = ""
    """Of the evaluation."""

    @property
    def system(self) -> System:
        """Who ran."""
        return System(self.agent, self.model, self.feedback)

    @property
    def plausible(self) -> bool:
        """The patched kernel did not crash."""
        return self.kind == "plausible"

    @property
    def equivalent(self) -> bool:
        """Plausible, and shown or judged to be equivalent to the developers' fix."""
        return self.plausible and self.answer == "equivalent"

    @property
    def counts(self) -> bool:
        """It says something of the patch: what failed outside of the kernel does not."""
        return self.kind != "infra_error"

    @property
    def told(self) -> bool:
        """There is more to say of it than a table can: a reason, a witness or a diff."""
        return bool(self.reason or self.witness or self.diff.strip())

    @property
    def outcome(self) -> Outcome:
        """What the statistics count."""
        fixed = None if self.fix_time is None else self.fix_time.date()
        return Outcome(self.bug, self.plausible, self.equivalent, fixed)


class System(NamedTuple):
    """An agent with its model and the feedback that it had."""

    agent: str
    model: str
    feedback: FeedbackLevel

    @property
    def text(self) -> str:
        """What tables call it."""
        named = self.agent if self.model == "none" else f"{self.agent} · {self.model}"
        return named if self.feedback == "none" else f"{named} · feedback"


def result_of(
    bug: Bug,
    verdict: Verdict,
    *,
    agent: str,
    model: str = "none",
    feedback: FeedbackLevel = "none",
    run: int = 1,
    patch: Patch | None = None,
) -> Result:
    """Return the row of a verdict, for a journal of results.

    Args:
        bug: With its fix time; the fix itself does not enter the row.
        verdict: Of `evaluate`.
        agent: Who handed the patch in.
        model: Its language model.
        feedback: What `Session` told it.
        run: Number of the run on this bug, from 1.
        patch: What was handed in.
    """
    same = verdict.equivalence
    return Result(
        agent=agent,
        model=model,
        feedback=feedback,
        run=run,
        bug=bug.id,
        title=bug.title,
        subsystems=bug.subsystems,
        crash_type=bug.crash_type,
        fix_time=bug.fix_time,
        report=bug.crash_report[:MOST_TEXT],
        kind=verdict.kind,
        reason=verdict.reason[:2000],
        answer=same.answer if same else None,
        evidence=same.evidence if same else None,
        witness=(same.witness or "")[:2000] if same else "",
        diff="" if patch is None else patch.diff[:MOST_TEXT],
        boots=len(verdict.runs),
        seconds=verdict.seconds,
        backend=verdict.backend,
        recorded=verdict.recorded,
        finished=datetime.now(UTC),
        key=verdict.key,
    )


def add_result(
    path: Path, bug: Bug, verdict: Verdict, *, agent: str, model: str = "none", patch: Patch
) -> Result | None:
    """Append the row of a verdict to a file of rows, as the next run of that agent on the bug.

    Returns:
        The row; None if the same evaluation of the same patch is there already.

    Raises:
        UserError: If the file has other content than rows, or cannot be written.
    """
    from filelock import FileLock

    from icml.core.journal import Journal, cannot_write

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_name(f".{path.name}.lock")):
            there = list(_of_file(path)) if path.exists() else []
            made = result_of(bug, verdict, agent=agent, model=model, patch=patch)
            own = [row for row in there if row.system == made.system and row.bug == made.bug]
            same = (made.key, made.kind, made.diff)
            if any((row.key, row.kind, row.diff) == same for row in own):
                return None
            made = made.model_copy(update={"run": 1 + max((row.run for row in own), default=0)})
            Journal(path).append(json.loads(as_json(made)))
            return made
    except OSError as error:
        raise cannot_write(path, error) from error


def read_results(paths: Iterable[Path], *, bugs: Path | None = None) -> list[Result]:
    """Read rows of files and folders.

    Files are JSON lines, a server's results, logs of inspect-ai (``.eval``) and folders of
    `icml kenv reproduce`.

    Args:
        paths: The files and folders.
        bugs: The folder of bugs that the server or the task had; None is the package's.

    Raises:
        UserError: If a file is missing, too big or not in the format (with its line), there is no
            row at all, or one run of a system on a bug appears twice.
    """
    found: dict[tuple[Any, ...], Path] = {}
    rows = []
    for path in paths:
        for row in _of_reproduce(path) if path.is_dir() else _of_file(path, bugs):
            key = (*row.system, row.bug, row.run)
            if key in found:
                raise UserError(
                    f"{path}: run {row.run} of {row.system.text} on {row.bug} is there twice "
                    f"(first in {found[key]}): number the runs, or leave one out"
                )
            found[key] = path
            rows.append(row)
    if not rows:
        raise UserError("there is no result: give files of result rows, or folders of reproduce")
    return rows


def _of_file(path: Path, bugs: Path | None = None) -> Iterator[Result]:
    if path.suffix == ".eval" and path.is_file():
        from icml.kenv.inspect_rows import rows_of_log

        yield from rows_of_log(path, bugs)
        return
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise UserError(f"{path} has {size} bytes, at most {MOST_BYTES} are read")
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    if data.lstrip()[:1] == b"[":
        yield from _of_service(path, data, bugs)
        return
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        if len(line) > MOST_LINE:
            raise UserError(f"{path}, line {number}: {len(line)} bytes, at most {MOST_LINE}")
        try:
            row = Result.model_validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part)[:60] for part in first["loc"]) or "the line"
            raise UserError(f"{path}, line {number}: {where}: {first['msg'][:200]}") from None
        yield row.model_copy(
            update={"report": row.report[:MOST_TEXT], "diff": row.diff[:MOST_TEXT]}
        )


def _of_service(path: Path, data: bytes, bugs: Path | None) -> Iterator[Result]:
    """Read what the server's ``GET /v1/results`` gives: sessions without a verdict are left out."""
    from pydantic import TypeAdapter

    from icml.kenv.bugs import BUGS, load_bug
    from icml.kenv.wire import ResultRow

    try:
        sessions = TypeAdapter(list[ResultRow]).validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part)[:60] for part in first["loc"]) or "the file"
        raise UserError(f"{path}: {where}: {first['msg'][:200]}") from None
    runs: dict[tuple[str, ...], int] = {}
    for one in sorted(sessions, key=lambda row: row.opened):
        if one.kind is None:
            continue
        bug = load_bug(one.bug_id, bugs or BUGS)
        # The server takes longer names, and empty ones.
        agent = one.agent.strip()[:120].strip() or "unnamed"
        model = one.model.strip()[:120].strip() or "none"
        place = (agent, model, one.feedback, bug.id)
        runs[place] = runs.get(place, 0) + 1
        yield Result(
            agent=agent,
            model=model,
            feedback=one.feedback,
            run=runs[place],
            bug=bug.id,
            title=bug.title,
            subsystems=bug.subsystems,
            crash_type=bug.crash_type,
            fix_time=bug.fix_time,
            report=bug.crash_report,
            kind=one.kind,
            answer=one.equivalence,
            key=one.key,
        )


def _of_reproduce(folder: Path) -> Iterator[Result]:
    """Read the table of patches of a finished `icml kenv reproduce`; candidates are runs."""
    from icml.core.summary import read_summary
    from icml.kenv.bugs import load_bug

    summary = read_summary(folder)
    table = next((t for t in summary.tables if t.name == "patches"), None)
    if summary.paper != "kenv" or table is None:
        raise UserError(f"{folder} is no run of `icml kenv reproduce`")
    witnesses = _named(next((t for t in summary.tables if t.name == "witnesses"), None))
    refuted = {(w["bug"], w["patch"]): str(w["witness"]) for w in witnesses}
    runs: dict[tuple[str, str], int] = {}
    for row in _named(table):
        name, bug = str(row["patch"]), load_bug(str(row["bug"]))
        agent = "template" if name.startswith("candidate") else name
        runs[agent, bug.id] = runs.get((agent, bug.id), 0) + 1
        yield Result(
            agent=agent,
            run=runs[agent, bug.id],
            bug=bug.id,
            title=bug.title,
            subsystems=bug.subsystems,
            crash_type=bug.crash_type,
            fix_time=bug.fix_time,
            report=bug.crash_report,
            kind=row["verdict"],
            reason=name if agent == "template" else "",
            answer=row["compared with the fix"] or None,
            evidence=str(row["how that is known"]).replace(" ", "_") or None,  # ty: ignore[invalid-argument-type]
            witness=refuted.get((row["bug"], name), ""),
            boots=row["boots"],
            seconds=row["build (s)"] + row["boots (s)"],
            backend=str(summary.config.get("backend", "")),
            finished=datetime.fromisoformat(summary.timing.finished),
        )


def _named(table: Any) -> list[dict[str, Any]]:
    return [] if table is None else [dict(zip(table.columns, r, strict=True)) for r in table.rows]


def write_results(path: Path, rows: Sequence[Result]) -> None:
    """Write rows as JSON lines, whole or not at all."""
    from icml.core.journal import write_atomic

    write_atomic(path, "".join(f"{as_json(row)}\n" for row in rows))


def as_json(row: Result, *, without: Iterable[str] = ()) -> str:
    """Return one line of JSON without what the row leaves at its default."""
    values = row.model_dump(mode="json", exclude_defaults=True, exclude=set(without))
    return json.dumps({"format": row.format, **values}, separators=(",", ":"))
