"""Frozen sets of bugs: a dated folder whose every byte is named by a hash.

``bugs.jsonl`` has one record a line, sorted by id, keys sorted. ``manifest.json`` has the format's
name, the day, the kind of the records, the sha256 of each line and of the file, the sources of the
kernels, and each dropped bug with its reason; its own ``sha256`` is of all its other keys. Who
publishes a snapshot publishes that one digest: with it, nobody can exchange anything unseen.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from icml.core.errors import UserError
from icml.core.journal import replace_folder
from icml.kenv.curate import CuratedBug, Dropped
from icml.kenv.models import Bug, Record, Sha256
from icml.kenv.syzbot import Unreadable, parse_json

FORMAT = "icml-kenv snapshot 1"
MOST_BYTES = 2 * 2**30

SnapshotBug = Bug | CuratedBug
_KINDS: dict[str, type[Bug] | type[CuratedBug]] = {"bug": Bug, "syzbot": CuratedBug}


class Tampered(UserError):
    """A snapshot that is not what its manifest says."""


class Manifest(Record):
    """What a snapshot holds."""

    format: Literal["icml-kenv snapshot 1"] = FORMAT
    frozen: date
    """The day, as whoever froze it says."""
    kind: Literal["bug", "syzbot"]
    """Bugs with a kernel of the distribution, or curated ones of syzbot."""
    records: dict[str, Sha256]
    """Digest of each record's line by the bug's id."""
    bugs_sha256: Sha256
    """Of ``bugs.jsonl``."""
    sources: dict[str, str] = Field(default_factory=dict)
    """Version and sha256 of the kernels' source packages."""
    dropped: list[tuple[str, str, str]] = Field(default_factory=list)
    """Bugs that are not in it: name, reason, detail."""
    sha256: Sha256 | None = None
    """Of the manifest's other keys."""

    def digest(self) -> str:
        """Return the sha256 of all keys but ``sha256``."""
        return _sha256(_canonical(self.model_dump(mode="json", exclude={"sha256"})))


def _canonical(value: Any) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return text.encode()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def freeze(
    bugs: Sequence[SnapshotBug],
    folder: Path,
    *,
    day: date,
    dropped: Iterable[Dropped] = (),
) -> Manifest:
    """Write a snapshot; the same bugs and day give the same bytes.

    Args:
        bugs: All of one kind, with different ids.
        folder: A new one.
        day: Written into the manifest.
        dropped: What curation left out, and why.

    Returns:
        The manifest with its digest.

    Raises:
        UserError: If there is no bug, an id appears twice, kinds are mixed, the folder is there
            already, or it cannot be written.
    """
    kinds = {name for name, cls in _KINDS.items() for bug in bugs if isinstance(bug, cls)}
    if len(kinds) != 1:
        raise UserError(f"a snapshot holds bugs of one kind, got {sorted(kinds) or 'no bug'}")
    if folder.exists():
        raise UserError(f"{folder} is there already: a snapshot does not change, name a new folder")
    (kind,) = kinds
    lines = {bug.id: _canonical(bug.model_dump(mode="json")) for bug in bugs}
    if len(lines) < len(bugs):
        raise UserError("a bug's id appears twice")
    data = b"".join(lines[name] + b"\n" for name in sorted(lines))
    manifest = Manifest(
        frozen=day,
        kind="bug" if kind == "bug" else "syzbot",
        records={name: _sha256(lines[name]) for name in sorted(lines)},
        bugs_sha256=_sha256(data),
        sources={
            f"{bug.source.ref} {bug.source.version}": bug.source.sha256 or ""
            for bug in bugs
            if isinstance(bug, Bug)
        },
        dropped=[(d.name, d.reason, d.detail) for d in dropped],
    )
    manifest = manifest.model_copy(update={"sha256": manifest.digest()})
    with replace_folder(folder) as draft:
        (draft / "bugs.jsonl").write_bytes(data)
        text = json.dumps(manifest.model_dump(mode="json"), indent=1, sort_keys=True)
        (draft / "manifest.json").write_text(f"{text}\n", encoding="utf-8")
    return manifest


def load_snapshot(folder: Path, *, sha256: str | None = None) -> tuple[Manifest, list[SnapshotBug]]:
    """Read a snapshot and check every hash of it.

    Args:
        folder: As `freeze` wrote it.
        sha256: The published digest; None trusts the manifest that lies there.

    Raises:
        Tampered: If anything is not as the manifest or ``sha256`` says.
        UserError: If it cannot be read.
    """
    manifest = _manifest(folder)
    if sha256 is not None and manifest.sha256 != sha256:
        raise Tampered(f"{folder} has the digest {manifest.sha256}, wanted {sha256}")
    data = _read(folder / "bugs.jsonl")
    if _sha256(data) != manifest.bugs_sha256:
        _blame(folder, data, manifest)
    bugs: list[SnapshotBug] = []
    for line in data.splitlines():
        try:
            bug = _KINDS[manifest.kind].model_validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise UserError(
                f"{folder}: a record is not of this version's format: {first['loc']}: "
                f"{first['msg'][:120]}"
            ) from None
        if manifest.records.get(bug.id) != _sha256(line):
            raise Tampered(f"{folder}: the record of {bug.id} is not the frozen one")
        bugs.append(bug)
    if sorted(bug.id for bug in bugs) != sorted(manifest.records):
        raise Tampered(f"{folder}: the manifest names other bugs than there are")
    return manifest, bugs


def _manifest(folder: Path) -> Manifest:
    try:
        value = parse_json(_read(folder / "manifest.json"), "manifest.json")
        manifest = Manifest.model_validate_json(json.dumps(value))
    except (Unreadable, ValidationError) as error:
        text = str(error).splitlines()[0][:200]
        raise UserError(f"{folder} is no snapshot of this version: {text}") from None
    if manifest.sha256 != manifest.digest():
        raise Tampered(f"{folder}: the manifest was changed after it was frozen")
    return manifest


def _blame(folder: Path, data: bytes, manifest: Manifest) -> None:
    """Name the first record that is not the frozen one."""
    frozen = set(manifest.records.values())
    for number, line in enumerate(data.splitlines(), 1):
        if _sha256(line) not in frozen:
            raise Tampered(f"{folder}: line {number} of bugs.jsonl is not the frozen one")
    raise Tampered(f"{folder}: bugs.jsonl is not the frozen file")


def _read(file: Path) -> bytes:
    try:
        if file.stat().st_size > MOST_BYTES:
            raise UserError(f"{file} has more than {MOST_BYTES} bytes")
        return file.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from error
