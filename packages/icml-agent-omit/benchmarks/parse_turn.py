"""Turns that the parser reads in a second of CPU time; the aim is 50,000.

``python benchmarks/parse_turn.py``: a thought of twenty words, two commands and a call.
"""

from __future__ import annotations

import time

from icml.agent_omit import parse_turn, write_turn

TURNS = 100_000


def main() -> None:
    """Measure, and print one line."""
    text = write_turn("the box is red " * 5, [1, 2], action="go north")
    started = time.process_time()
    for _ in range(TURNS):
        parse_turn(text)
    print(f"{TURNS / (time.process_time() - started):,.0f} turns a second of CPU time")


if __name__ == "__main__":
    main()
