"""``icml doctor``: what this machine has, and what each missing tool would enable.

Nothing here touches the network, and every probe of a foreign program has a time limit.
"""

from __future__ import annotations

import os
import platform
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

from icml.core.provenance import cores, versions

PROBE_SECONDS = 4.0  # ours: importing torch took 2 to 3 s of wall time on two busy cores


class Row(NamedTuple):
    """One line of the table."""

    name: str
    value: str
    """What was found, "missing", or "unknown" with the reason."""


class Tool(NamedTuple):
    """A program that some paper uses where it is there."""

    name: str
    programs: tuple[str, ...]
    """Any of them will do."""
    version: tuple[str, ...]
    """Arguments that make the program print its version and leave with 0."""
    enables: str


TOOLS = (
    Tool("git", ("git",), ("--version",), "a report names the commit that it was made from"),
    Tool("Lean", ("lean",), ("--version",), "icml-wzllm checks proofs in a Lean project"),
)

_TORCH_DEVICES = """
import torch
print("CPU")
if torch.backends.mps.is_available():
    print("MPS")
for i in range(torch.cuda.device_count()):
    p = torch.cuda.get_device_properties(i)
    print(f"CUDA {i}: {p.name}, {p.total_memory / 1e9:.0f} GB")
"""


def examine() -> dict[str, list[Row]]:
    """Return the rows of the table by section. Takes less than 5 seconds."""
    # The slowest probe runs while the others do.
    torch = _start_torch_probe()
    tools = [probe(tool) for tool in TOOLS]
    return {
        "Python": [
            Row("python", f"{platform.python_version()} ({sys.executable})"),
            *(Row(name, at) for name, at in versions().items() if name.startswith("icml-")),
            *_torch_rows(torch),
        ],
        "Machine": machine(),
        "Tools of single papers": tools,
    }


def layout(sections: dict[str, list[Row]], *, width: int | None = None) -> str:
    """Return the table as text.

    Args:
        sections: The rows by section.
        width: Columns to fill; by default those of the terminal, 80 when piped.
    """
    columns = width or shutil.get_terminal_size().columns
    first = 2 + max(len(row.name) for rows in sections.values() for row in rows) + 2
    blocks = []
    for title, rows in sections.items():
        lines = [line for row in rows for line in _wrapped(row, first, columns)]
        blocks.append("\n".join([title, *lines]))
    return "\n\n".join(blocks)


def probe(tool: Tool) -> Row:
    """Return whether a tool is there, its version, and what it would enable if it isn't."""
    found = next((path for name in tool.programs if (path := shutil.which(name))), None)
    if found is None:
        return Row(tool.name, f"missing: with it {tool.enables}")
    answer = _output([found, *tool.version])
    if answer is None:
        # A wrapper without its target, such as elan's without a toolchain.
        return Row(tool.name, f"{found} does not answer: with it {tool.enables}")
    return Row(tool.name, answer.splitlines()[0] if answer else found)


def machine(folder: Path = Path()) -> list[Row]:
    """Return cores, memory, and the disk space that ``folder`` lies on."""
    import psutil

    memory = psutil.virtual_memory()
    return [
        Row("system", f"{platform.system()} {platform.release()} on {platform.machine()}"),
        Row("cores", f"{cores()} usable of {os.cpu_count()}"),
        Row("memory", f"{memory.available / 1e9:.1f} GB free of {memory.total / 1e9:.1f} GB"),
        Row("disk here", _disk(folder)),
    ]


def _disk(folder: Path) -> str:
    try:
        disk = shutil.disk_usage(folder)
    except OSError as error:  # the folder that a shell stands in can be deleted
        return f"unknown: {error.strerror}"
    return f"{disk.free / 1e9:.1f} GB free of {disk.total / 1e9:.1f} GB"


def _start_torch_probe() -> subprocess.Popen[str] | None:
    """Start a child that lists torch's devices; None where torch has none but the CPU."""
    if not torch_may_have_devices():
        return None
    command = [sys.executable, "-P", "-c", _TORCH_DEVICES]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8"
    )


def torch_may_have_devices() -> bool:
    """Return False where torch isn't installed or is a build for the CPU alone.

    Read from torch's version file, since importing torch takes seconds.
    """
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return False
    build = runpy.run_path(str(Path(spec.origin).with_name("version.py")))
    return platform.system() == "Darwin" or bool(build.get("cuda") or build.get("hip"))


def _torch_rows(child: subprocess.Popen[str] | None) -> list[Row]:
    try:
        build = version("torch")
    except PackageNotFoundError:
        return [Row("torch", "missing: pip install 'icml-core[torch]' for papers that train")]
    if child is None:
        return [Row("torch", build), Row("devices", "CPU (torch is a build for the CPU alone)")]
    try:
        output, _ = child.communicate(timeout=PROBE_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        reason = f"unknown: torch takes more than {PROBE_SECONDS:.0f} s to import"
        return [Row("torch", build), Row("devices", reason)]
    if child.returncode != 0:
        return [Row("torch", build), Row("devices", "unknown: torch fails to import")]
    return [Row("torch", build), Row("devices", "; ".join(output.splitlines()))]


def _output(command: Sequence[str]) -> str | None:
    """Return what a program prints, None if it fails or takes more than a second."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=1.0,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _wrapped(row: Row, first: int, columns: int) -> Iterable[str]:
    label = f"  {row.name}".ljust(first)
    return wrap(
        row.value,
        max(columns, first + 20),
        initial_indent=label,
        subsequent_indent=" " * first,
        break_on_hyphens=False,
    )
