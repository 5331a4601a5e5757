"""Consoles that try to break the parser: it neither fails, nor hangs, nor grows."""

import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from icml.kenv.report import MOST_REPORTS, contains_crash, parse_report
from icml.kenv.titles import TITLE_LENGTH

PIECES = [
    *(
        "BUG: ",
        "KASAN: ",
        "slab-out-of-bounds",
        " in ",
        "f+0x1/0x2",
        "\n",
        "\r\n",
        "kernel BUG at ",
    ),
    *("[    1.000000] ", "[ T12] ", "WARNING: ", "CPU: 0 PID: 1 at ", "a.c:1 ", "RIP: 0010:", "\0"),
    *("RIP: 0033:", "Call Trace:\n", " <TASK>\n", " ? ", "Oops: ", "divide error: 0000 [#1]", "("),
    *(
        "general protection fault",
        "Kernel panic - not syncing: ",
        "Fatal exception",
        "Read of size ",
    ),
    *(
        "9" * 20,
        " by task a/",
        "PID: 1 Comm: x Not tainted",
        "INFO: task ",
        "[",
        "{",
        "%s",
        "{class}",
    ),
    *("watchdog: BUG: soft lockup", "Allocated by task", "UBSAN: ", "at: ", "backtrace:", "\ud7ff"),
    *("---[ end trace", "[inline]", "\x1b[31m", "\n", "\n"),
]
consoles = st.one_of(
    st.text(max_size=400), st.lists(st.sampled_from(PIECES), max_size=80).map("".join)
)


@settings(max_examples=400)
@given(consoles)
@example("BUG: KASAN: {access} in f")
@example("Kernel panic - not syncing: {0} %s")
def test_any_text_gives_reports_whose_lines_lie_within_it_in_order(console) -> None:
    reports = parse_report(console)

    lines = console.split("\n")
    edges = [edge for found in reports for edge in (found.start, found.end)]
    assert all(0 <= edge <= len(lines) for edge in edges)
    assert all(found.start < found.end for found in reports)
    assert all(a.end <= b.start + 1 for a, b in pairwise(reports))
    assert all(found.title and len(found.title) <= TITLE_LENGTH for found in reports)
    assert contains_crash(console) == bool(reports)


@pytest.mark.parametrize(
    "unit",
    [
        "[" * 1000,
        " " * 1000,
        "[ 1.000000]" * 100,
        "a+0x1/0x2 " * 100,
        "[    1.000000] BUG: KASAN: x in f\n",
        "BUG: " * 200,
        "Call Trace:\n",
        "WARNING: CPU: 0 PID: 1 at " + "a" * 900 + "\n",
        "BUG: KASAN: " + "a " * 400 + "\n",
        " <TASK>\n" * 50,
        "Kernel panic - not syncing: Fatal exception\n",
        "INFO: task " + "x" * 900 + "\n",
        "RIP: 0010:[<" + "f" * 900 + "\n",
    ],
)
def test_ten_times_the_text_takes_at_most_fifteen_times_as_long(unit) -> None:
    def seconds(repeats: int) -> float:
        text = "divide error: 0000 [#1]\n" + unit * repeats
        best = float("inf")
        for _ in range(3):
            start = time.process_time()
            parse_report(text)
            best = min(best, time.process_time() - start)
        return best

    small = 200_000 // len(unit)
    # 20 ms: below that the clock and not the parser would be measured
    assert seconds(10 * small) <= 15 * max(seconds(small), 0.02)


def test_a_console_of_nothing_but_crashes_gives_a_bounded_number_of_reports() -> None:
    reports = parse_report("divide error: 0000 [#1]\n" * 10_000)
    assert len(reports) == MOST_REPORTS
    assert sum(len(found.raw) for found in reports) < 100_000


def test_five_megabytes_of_a_plain_console_take_at_most_a_second() -> None:
    line = "[    3.545168] clocksource: tsc: mask: 0xffffffffffffffff max_cycles: 0x257a3c3232d\n"
    text = line * (5_000_000 // len(line))
    start = time.process_time()
    assert parse_report(text) == []
    assert time.process_time() - start <= 1


@pytest.mark.slow
def test_a_coverage_guided_fuzzer_finds_no_failure_in_half_a_minute() -> None:
    pytest.importorskip("atheris", reason="atheris has wheels for Linux and Python 3.11 alone")
    script = Path(__file__).with_name("fuzz_text.py")
    ended = subprocess.run(
        [sys.executable, script, "-max_total_time=30", "-timeout=5", "-max_len=20000", "-seed=1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
