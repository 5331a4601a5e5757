"""Checks of a paper's commands: its help, its ``reproduce``, its report.

They run the real ``icml`` command in a process of its own.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from icml.core.reproduce import INTERRUPTED
from icml.core.reproduce_all import ICML
from icml.core.summary import Summary, read_summary

HEAVY = frozenset(
    {
        "jinja2",
        "matplotlib",
        "numpy",
        "psutil",
        "pydantic",
        "rich",
        "scipy",
        "torch",
        "transformers",
    }
)

IDLE_START = 0.02  # s of processor time, ours: 0.026 to 0.033 were seen beside busy neighbours

# Runs `icml` with the arguments given, then reports on stderr's last line what was imported
# and the processor time it took, which other processes do not blur as they do the wall time.
_MEASURED = """
import resource, sys
from icml.core.cli import main
status = main(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, *sorted(sys.modules), file=sys.stderr)
sys.exit(status)
"""


class Measured(NamedTuple):
    """What a command printed, and what it cost to start."""

    output: str
    seconds: float
    """Processor time, user and system, in seconds."""
    modules: frozenset[str]


def run_icml(
    *args: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``icml`` with ``args`` as a user would, and return its status and output.

    Args:
        args: The arguments after ``icml``.
        cwd: Folder to run in.
        env: The whole environment; None inherits this process's.
    """
    return subprocess.run(
        [*ICML, *args], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )


def measure_icml(*args: str, env: Mapping[str, str] | None = None) -> Measured:
    """Run ``icml`` with ``args``, which must exit with 0, and return what it cost."""
    command = [sys.executable, "-P", "-c", _MEASURED, *args]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    seconds, *modules = done.stderr.splitlines()[-1].split()
    return Measured(done.stdout, float(seconds), frozenset(modules))


def check_help_is_light(paper: str) -> None:
    """Check that ``icml <paper> --help`` starts fast and imports no heavy library."""
    check_is_light([paper, "--help"], seconds=0.5)


def check_is_light(
    args: Sequence[str], *, seconds: float, env: Mapping[str, str] | None = None
) -> None:
    """Check that ``icml`` with ``args`` costs little and imports no heavy library.

    The quickest of up to five runs counts, since the first one fills the disk's cache.

    Args:
        args: The arguments after ``icml``.
        seconds: Processor time allowed where a bare Python starts in IDLE_START or less. A
            neighbour on the same core slows both, so the allowance grows with that start.
        env: The whole environment; None inherits this process's.
    """
    used = allowed = float("inf")
    for _ in range(5):
        measured = measure_icml(*args, env=env)
        heavy = sorted(measured.modules & HEAVY)
        assert not heavy, f"icml {' '.join(args)} imports {heavy}"
        used = min(used, measured.seconds)
        allowed = seconds * max(1.0, _bare_start() / IDLE_START)
        if used < allowed:
            return
    raise AssertionError(
        f"icml {' '.join(args)} takes {used:.3f} s of processor time, allowed are {allowed:.3f}"
    )


def _bare_start() -> float:
    """Return the processor time in seconds that a Python without any import of ours takes."""
    program = "import time; print(time.process_time())"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def check_reproduce(paper: str, folder: Path, *options: str) -> Summary:
    """Check ``icml <paper> reproduce`` from beginning to end, and return the run's summary.

    The run finishes, its required claims hold, its report loads nothing from elsewhere, and
    the same command prints the report's path again without computing anything.

    Args:
        paper: The paper's command.
        folder: An empty folder for the run.
        options: More options; ``--quick`` when there are none.
    """
    command = [paper, "reproduce", *(options or ("--quick",)), "--out", str(folder)]
    first = run_icml(*command)
    assert first.returncode == 0, f"exit status {first.returncode}:\n{first.stderr}"
    summary = read_summary(folder)
    assert summary.paper == paper
    assert summary.claims, "the run makes no claim"
    assert not summary.failed, f"required claims fail: {[c.id for c in summary.failed]}"
    for figure in summary.figures:
        assert (folder / figure.svg).is_file()
        assert (folder / figure.csv).is_file()
    check_report(folder / "report.html")
    check_finished_run_is_kept(command, folder)
    return summary


def check_finished_run_is_kept(command: Sequence[str], folder: Path) -> None:
    """Check that ``command``, which finished in ``folder``, computes nothing a second time."""
    before = _results(folder)
    again = run_icml(*command)
    assert again.returncode == 0, again.stderr
    assert str((folder / "report.html").resolve()) in again.stdout
    assert _results(folder) == before, "the second run changed results"


def check_interrupted_run_continues(
    paper: str, folder: Path, whole: Summary, *options: str, after: float = 1.0
) -> None:
    """Check that Ctrl-C loses nothing and that the command it names completes the run.

    Args:
        paper: The paper's command.
        folder: An empty folder for the run.
        whole: The summary of the same run, uninterrupted: what must come out but for times
            and the command, which names the folder.
        options: The options of ``whole``'s run; ``--quick`` when there are none.
        after: Seconds to wait for the interruption once the run's journal has begun.
    """
    command = [paper, "reproduce", *(options or ("--quick",)), "--out", str(folder)]
    with subprocess.Popen([*ICML, *command], stderr=subprocess.PIPE, text=True) as child:
        while child.poll() is None and not any(folder.glob("*.jsonl")):
            time.sleep(0.05)
        time.sleep(after)
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate()
    assert child.returncode == INTERRUPTED, f"exit status {child.returncode}:\n{errors}"
    assert f"icml {' '.join(command)}" in errors
    assert not (folder / "summary.json").exists()
    assert run_icml(*command).returncode == 0
    assert comparable(read_summary(folder)) == comparable(whole)


def comparable(summary: Summary) -> dict[str, object]:
    """Return all of a summary that equal seeds on one machine must reproduce."""
    return summary.model_dump(exclude={"timing", "command"})


def check_report(page: Path) -> None:
    """Check that a report can be read anywhere: no scripts, and nothing loaded from outside."""
    reader = _Loads()
    reader.feed(page.read_text(encoding="utf-8"))
    reader.close()
    assert reader.seen, f"{page} holds no HTML"
    assert not reader.scripts, f"{page} has scripts: {reader.scripts}"
    assert not reader.loads, f"{page} loads {reader.loads}"


def _results(folder: Path) -> dict[Path, int]:
    """Return the modification time in ns of every file but the report and the lock."""
    files: Iterable[Path] = (path for path in folder.rglob("*") if path.is_file())
    own = {"report.html", ".lock"}
    return {path: path.stat().st_mtime_ns for path in files if path.name not in own}


class _Loads(HTMLParser):
    """Collects what a page runs and what it would fetch; a link to follow is neither."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = False
        self.scripts: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen = True
        if tag == "script":
            self.scripts.append("<script>")
        for name, value in attrs:
            if name.startswith("on"):
                self.scripts.append(f"{tag} {name}")
            fetches = name in {"src", "srcset", "poster", "data", "href", "xlink:href"}
            if fetches and tag != "a" and not (value or "").startswith(("#", "data:")):
                self.loads.append(f"{tag} {name}={value}")
            if name == "style":
                self.handle_data(value or "")

    def handle_data(self, data: str) -> None:
        self.loads += re.findall(r"@import[^;]*|url\(\s*['\"]?(?!#|data:)[^)]*\)", data)
