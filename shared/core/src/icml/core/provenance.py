"""What a run was computed with: versions, hardware and the commit of the code."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import TypedDict

LIBRARIES = ("numpy", "scipy", "torch", "transformers", "tokenizers", "trl")
"""Besides our own, the distributions whose version can change a result."""


class Provenance(TypedDict):
    """What a sitting of a run was computed with."""

    versions: dict[str, str]
    hardware: dict[str, str | int | float]
    git: str | None


def provenance(code: Path | None) -> Provenance:
    """Describe this process; ``code`` is a file of the experiment, for :func:`git_state`."""
    return Provenance(versions=versions(), hardware=hardware(), git=git_state(code))


def versions() -> dict[str, str]:
    """Map Python, the installed ``icml-*`` and LIBRARIES to their versions, importing none."""
    found = {"python": platform.python_version()}
    for distribution in metadata.distributions():
        name = (distribution.name or "").lower().replace("_", "-")
        if name.startswith("icml-") or name in LIBRARIES:
            found.setdefault(name, distribution.version)
    return dict(sorted(found.items()))


def hardware() -> dict[str, str | int | float]:
    """Return the processor, its usable cores, the memory in GB (10^9 bytes) and the platform."""
    import psutil

    return {
        "cpu": _processor(),
        "cores": cores(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "platform": platform.platform(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def git_state(code: Path | None) -> str | None:
    """Return the commit of the repository that tracks the file ``code``.

    Uncommitted changes of tracked files add ``+`` and eight digits of a hash over them. None where
    git is missing or does not track the file, as for an installed wheel: its version says it all.
    """
    if code is None or not code.is_file():
        return None
    if _git(code.parent, "ls-files", "--error-unmatch", "--", code.name) is None:
        return None
    commit = _git(code.parent, "rev-parse", "HEAD")
    changes = _git(code.parent, "diff", "HEAD", "--no-ext-diff")
    if commit is None or changes is None:
        return None
    text = commit.decode().strip()
    return f"{text}+{hashlib.sha256(changes).hexdigest()[:8]}" if changes else text


def _git(folder: Path, *arguments: str) -> bytes | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def code_file(config: object) -> Path | None:
    """Return the file that defines the class of ``config``: the experiment's own code."""
    module = sys.modules.get(type(config).__module__)
    file = getattr(module, "__file__", None)
    return Path(file) if file else None


def changes(before: Provenance, after: Provenance) -> list[str]:
    """Name what differs and can change a result, as ``name old -> new``.

    That is each version, the commit, and the processor.
    """
    old, new = (
        {**made["versions"], "commit": made["git"], "processor": str(made["hardware"]["cpu"])}
        for made in (before, after)
    )
    names = [name for name in sorted(old | new) if old.get(name) != new.get(name)]
    return [f"{name} {old.get(name) or 'none'} -> {new.get(name) or 'none'}" for name in names]
