"""Result rows from the logs of ``inspect eval icml/kenv``."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from icml.core.errors import UserError, require
from icml.kenv.bugs import BUGS, load_bug
from icml.kenv.results import MOST_TEXT, Result

AGENT = "inspect-ai"
"""The agent of the rows where the log names no solver: inspect's own loop of tools."""

MOST_UNPACKED = 2**30
"""Bytes of one log."""


def rows_of_log(path: Path, bugs: Path | None = None) -> Iterator[Result]:
    """Read a finished log; an epoch is a run. Samples that broke before a verdict are left out.

    Args:
        path: Of the log (``.eval``).
        bugs: The folder of bugs that the task had; None is the package's.

    Yields:
        A row for each sample with a verdict.

    Raises:
        UserError: If the file is no log, or of another task, or the eval has not finished.
        MissingExtra: If inspect-ai is not installed.
    """
    _check_size(path)
    logs: Any = require("inspect_ai.log", extra="icml-kenv[inspect]")
    try:
        log = logs.read_eval_log(str(path))
    except Exception as error:  # zip, JSON and pydantic each have their own
        raise UserError(f"{path} is no log of inspect-ai: {type(error).__name__}") from error
    if log.status != "success":
        raise UserError(f"{path}: the eval is {log.status}: finish it with inspect eval-retry")
    found = 0
    for sample in log.samples or []:
        score = (sample.scores or {}).get("kenv_scorer")
        if score is not None and score.metadata:
            found += 1
            yield _row(sample, score, log.eval.model, path, bugs)
    if not found:
        raise UserError(f"{path} has no verdict: wanted a log of the task icml/kenv")


def _check_size(path: Path) -> None:
    """Refuse what is no archive, or would be too big unpacked, before any of it is."""
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
    except (OSError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} is no log of inspect-ai: {error}") from error
    if unpacked > MOST_UNPACKED:
        raise UserError(f"{path} has {unpacked} bytes unpacked, at most {MOST_UNPACKED} are read")


def _row(sample: Any, score: Any, model: str, path: Path, bugs: Path | None) -> Result:
    facts = score.metadata
    bug = load_bug(str(sample.id), bugs or BUGS)
    try:
        return Result(
            agent=AGENT,
            model=model[:120],
            feedback=facts.get("feedback", "none"),
            run=sample.epoch,
            bug=bug.id,
            title=bug.title,
            subsystems=bug.subsystems,
            crash_type=bug.crash_type,
            fix_time=bug.fix_time,
            report=bug.crash_report[:MOST_TEXT],
            kind=facts["kind"],
            reason=str(facts.get("reason", ""))[:2000],
            answer=facts.get("answer") or None,
            evidence=facts.get("evidence") or None,
            diff=(score.answer or "")[:MOST_TEXT],
            boots=facts.get("boots", 0),
            seconds=facts.get("seconds", 0.0),
            backend=facts.get("backend", ""),
            recorded=facts.get("recorded", False),
            finished=sample.completed_at,
            key=facts.get("key", ""),
        )
    except (KeyError, ValueError) as error:
        raise UserError(f"{path}, sample {sample.id}: not a verdict of icml/kenv") from error
