"""What a patch costs: compiling one file against all, our own share of a run, a kept verdict.

``python benchmarks/real_kernels.py`` needs what ``icml kenv fetch`` brings; it prints ratios of
processor time measured in one process, which mean the same on every machine; ``--out FILE`` writes
them as JSON. Each is the median of three.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from icml.core.journal import write_atomic
from icml.kenv.backends.module import ModuleBackend
from icml.kenv.backends.replay import ReplayBackend
from icml.kenv.bugs import load_bug
from icml.kenv.models import Image, Patch
from icml.kenv.protocol import Limits
from icml.kenv.runner import evaluate
from icml.kenv.sources import derive_fix
from icml.kenv.templates import diff_text

BUG = "phonet-autobind"
PATH = "net/phonet/socket.c"
REPEATS = 3


def spent(work: Callable[[], object]) -> tuple[float, float]:
    """Return the processor time of this process and of its ended children (s)."""

    def now() -> tuple[float, float]:
        both = (resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        own, children = (used.ru_utime + used.ru_stime for used in both)
        return own, children

    before = now()
    work()
    after = now()
    return after[0] - before[0], after[1] - before[1]


def measure() -> dict[str, float]:
    """Build, boot and judge, and return the ratios."""
    backend, bug = ModuleBackend(), load_bug(BUG)
    prepared = backend.prepare(bug)
    text = (prepared.tree / PATH).read_text()
    fix = derive_fix(bug)
    assert fix is not None

    def variant(number: int) -> Patch:
        stamp = f"{text}static const int variant_{time.time_ns()}_{number} __maybe_unused;\n"
        return Patch(diff=diff_text(PATH, text, stamp))

    def full(number: int) -> float:
        shutil.rmtree(prepared.work / "build", ignore_errors=True)
        return sum(spent(lambda: backend.build(prepared, variant(number), limits=Limits())))

    def one(number: int) -> float:
        return sum(spent(lambda: backend.build(prepared, variant(number), limits=Limits())))

    builds = statistics.median(full(n) / one(n) for n in range(REPEATS))
    image: Image | None = backend.build(prepared, fix, limits=Limits()).image
    assert image is not None
    program = bug.reproducers[0]
    shares, seconds = [], []
    for _ in range(REPEATS):
        own, children = spent(lambda: backend.run(image, program, limits=Limits()))
        shares.append(own / (own + children))
        seconds.append(own)
    with tempfile.TemporaryDirectory() as folder:

        def judge() -> None:
            evaluate(bug, fix, backend=backend, folder=Path(folder))

        judge()
        kept = statistics.median(sum(spent(judge)) for _ in range(REPEATS))
        recorded = []
        for number in range(REPEATS):
            again = Path(folder) / f"recorded-{number}"
            replay = partial(evaluate, bug, fix, backend=ReplayBackend(), folder=again)
            recorded.append(sum(spent(replay)))
    return {
        "one file over all files": 1 / builds,
        "our share of a boot's processor time": statistics.median(shares),
        "our processor time of a boot (s)": statistics.median(seconds),
        "a kept verdict (s)": kept,
        "a verdict from recorded consoles (s)": statistics.median(recorded),
    }


def main() -> None:
    """Print the numbers and write them where ``--out`` says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    out = parser.parse_args().out
    found = measure()
    for name, value in found.items():
        print(f"{name:<40} {value:7.3f}")
    if out is not None:
        write_atomic(out, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
