"""Progress goes to stderr, as a bar or as lines, and never changes what is iterated."""

import os
import subprocess
import sys
import threading

from icml.core import progress


def wait_for(condition):
    event = threading.Event()
    for _ in range(1000):
        if condition():
            return
        event.wait(0.01)
    raise AssertionError("it did not happen in 10 s")


def test_the_items_come_through_and_a_short_loop_prints_nothing(capsys):
    assert list(progress.track(iter("abc"), desc="letters")) == ["a", "b", "c"]
    assert capsys.readouterr() == ("", "")


def test_in_a_pipe_lines_say_how_far_a_long_loop_is(capsys, monkeypatch):
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 0.01)
    seen = []
    with progress.meter(4, "cells", done=1) as advance:
        advance()
        wait_for(lambda: seen.append(capsys.readouterr().err) or "left" in seen[-1])
    assert seen[-1].startswith("cells: 2 of 4 after 0 s, about 0 s left\n")


def test_of_nested_loops_the_outer_one_is_shown(capsys, monkeypatch):
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 0.01)
    seen = []
    for _ in progress.track([1], desc="outer"):
        with progress.meter(1, "inner"):
            wait_for(lambda: seen.append(capsys.readouterr().err) or seen[-1])
    assert "outer: 0 of 1 after 0 s\n" in seen[-1]
    assert not any("inner" in text for text in seen)


def test_on_a_terminal_there_is_a_bar():
    code = "from icml.core.progress import track; print(sum(track([1, 2, 3], desc='[cells]')))"
    ours, theirs = os.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=-1, stderr=theirs, env=environment, check=True
    )
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    os.close(theirs)
    assert done.stdout == b"6\n"
    assert "[cells]" in shown
    assert "3/3" in shown
