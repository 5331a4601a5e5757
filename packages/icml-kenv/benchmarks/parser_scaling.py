"""Time of the crash parser on ten times the console over that on one, and its speed.

Run it with ``uv run python`` and this file, and a console of a kernel if there is one. Both sizes
are timed in turn in one process; the median of the ratios is printed: 10 is linear, and a ratio
means the same on every machine, a speed does not.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from time import process_time

from icml.kenv import parse_report

REPEATS, LINES = 9, 4000
PLAIN = "[    3.545168] clocksource: tsc: mask: 0xffffffffffffffff max_cycles: 0x257a3c3232d\n"
CRASH = """\
[    7.102040] kernel BUG at net/phonet/socket.c:213!
[    7.103037] RIP: 0010:pn_socket_autobind+0x75/0x80 [phonet]
[    7.103400] Call Trace:
[    7.103500]  pn_socket_sendmsg+0x18/0x50 [phonet]
[    7.103600]  __sock_sendmsg+0x5c/0x70
"""


def seconds(console: str) -> float:
    """Return the processor time of one reading."""
    start = process_time()
    parse_report(console)
    return process_time() - start


def main() -> None:
    """Print the median ratio with its quartiles, and the median speed."""
    one = PLAIN * LINES + CRASH
    if len(sys.argv) > 1:
        one = Path(sys.argv[1]).read_text(errors="replace")
    pairs = [(seconds(one), seconds(one * 10)) for _ in range(REPEATS)]
    low, middle, high = statistics.quantiles([ten / single for single, ten in pairs], n=4)
    speed = statistics.median(10 * len(one) / ten for _, ten in pairs) / 1e6
    print(f"ten times / once: {middle:.1f} (quartiles {low:.1f} to {high:.1f}); {speed:.0f} MB/s")


if __name__ == "__main__":
    main()
