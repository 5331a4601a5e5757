"""The bugs that come with the package, each a folder: record, reproducer and recorded report."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from icml.core.errors import UserError
from icml.kenv.models import Bug

BUGS = Path(__file__).with_name("data") / "bugs"
"""A folder a bug: ``bug.json``, ``reproducer.c`` and ``report.txt``."""


def bug_ids(folder: Path = BUGS) -> list[str]:
    """Return the ids of the bugs in a folder, in alphabetical order."""
    return sorted(path.parent.name for path in folder.glob("*/bug.json"))


def load_bug(bug_id: str, folder: Path = BUGS) -> Bug:
    """Read one bug: ``bug.json`` says all but the texts that lie beside it.

    Raises:
        UserError: If there is no such bug, or its record is wrong.
    """
    known = bug_ids(folder)
    if bug_id not in known:
        raise UserError(f"no bug {bug_id!r}: there are {', '.join(known) or 'none'}")
    home = folder / bug_id
    try:
        record = json.loads((home / "bug.json").read_text())
        record["crash_report"] = (home / "report.txt").read_text()
        (reproducer,) = record["reproducers"]
        reproducer["text"] = (home / "reproducer.c").read_text()
        bug = Bug.model_validate(record)
    except (OSError, KeyError, TypeError, json.JSONDecodeError, ValidationError) as error:
        raise UserError(f"cannot read the bug in {home}: {error}") from error
    if bug.id != bug_id:
        raise UserError(f"the bug in {home} calls itself {bug.id!r}")
    return bug
