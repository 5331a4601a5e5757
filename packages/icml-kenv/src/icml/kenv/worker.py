"""The process of one evaluation: a job on standard input, its verdict on standard output.

Standard input stays open as long as somebody waits for the verdict. When it closes before, the
process ends at once, and the kernel ends what it started: no emulator is left behind.
"""

from __future__ import annotations

import os
import sys
import threading


def _end_with_our_parent() -> None:
    while os.read(0, 4096):  # not by sys.stdin, whose lock would be held when we end
        pass
    os._exit(1)


def main() -> int:
    """Read a job, evaluate it, print what came of it."""
    job = sys.stdin.readline()
    threading.Thread(target=_end_with_our_parent, daemon=True).start()
    from icml.kenv.executor import run_job

    print(run_job(job), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
