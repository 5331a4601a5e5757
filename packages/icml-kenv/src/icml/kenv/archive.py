"""A bug's unpatched source as an archive, without history and without traces of this machine."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path


def packed(root: Path, directory: str) -> bytes:
    """Return a folder below ``root`` as a tar archive (gzip), its paths as a diff names them."""
    archived = io.BytesIO()
    with tarfile.open(fileobj=archived, mode="w:gz", compresslevel=1) as archive:
        archive.add(root / directory, arcname=directory, filter=_anonymous)
    return archived.getvalue()


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave links out, and the times and owners of this machine."""
    if not entry.isfile() and not entry.isdir():
        return None
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry
