"""Real children: each limit, whole trees, and nothing left when anyone is killed."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from icml.core import process
from icml.core.errors import UserError
from icml.core.process import ChildResult, run_child

PYTHON = sys.executable
ROOT = os.geteuid() == 0
GROUP = process._Wrapper((), "process group")


@pytest.fixture(params=["strongest", "group"])
def isolation(request, monkeypatch):
    """Each test runs with the strongest containment here and with the weakest anywhere."""
    if request.param == "group":
        monkeypatch.setattr(process, "_wrapper", lambda foreign: GROUP)
    return request.param


@pytest.fixture
def mark():
    """A number of seconds to sleep that names the processes of one test."""
    return f"{time.time_ns() % 10**9 + 10**6}"


def python(code: str, *args: str, **options) -> ChildResult:
    return run_child([PYTHON, "-I", "-c", code, *args], **{"timeout_s": 30, **options})


def named(mark: str) -> list[psutil.Process]:
    return [
        child
        for child in psutil.process_iter(["cmdline", "status"])
        if mark in (child.info["cmdline"] or []) and child.info["status"] != "zombie"
    ]


def gone(mark: str, within_s: float = 5) -> bool:
    deadline = time.monotonic() + within_s
    while named(mark) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not named(mark)


FAMILY = """
import subprocess, sys, time
for _ in range(3):
    subprocess.Popen(["sh", "-c", "sleep $0 & sleep $0", sys.argv[1]], start_new_session=True)
"""


def test_output_and_exit_status_come_back(isolation):
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"
    result = python(code)
    assert (result.exit, result.stdout, result.stderr) == (7, "out\n", "err\n")
    assert result.reason == "exit"
    assert 0 < result.seconds < 30


def test_isolation_says_what_contains_the_child(isolation):
    expected = "process group" if isolation == "group" else process._wrapper(False).isolation
    assert python("").isolation == expected


def test_child_of_namespaces_reaches_no_network():
    if process._wrapper(False).isolation != "namespaces":
        pytest.skip("this system gives no namespaces")
    with __import__("socket").create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
        assert "unreachable" in python(code).stderr


def test_environment_is_empty_but_for_what_is_given(isolation, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_PARENT", "1")
    result = run_child(["env"], timeout_s=30, env={"GIVEN": "1"})
    names = {line.split("=")[0] for line in result.stdout.splitlines()}
    assert "GIVEN" in names
    assert names <= {"GIVEN", "PWD", "OLDPWD", "SHLVL", "_"}


@pytest.mark.parametrize("data", ["é\n", b"\xc3\xa9\n"])
def test_child_reads_stdin_to_its_end(isolation, data):
    assert run_child(["cat"], timeout_s=30, stdin=data).stdout == "é\n"


def test_child_without_stdin_reads_nothing(isolation):
    assert run_child(["cat"], timeout_s=30).stdout == ""


def test_stdin_that_the_child_does_not_read_is_no_failure(isolation):
    result = run_child(["true"], timeout_s=30, stdin=b"x" * 10**7)
    assert (result.exit, result.reason) == (0, "exit")


def test_stdin_larger_than_a_pipe_arrives_whole(isolation):
    result = run_child(["wc", "-c"], timeout_s=30, stdin=b"x" * 10**6)
    assert result.stdout.strip() == "1000000"


def test_child_runs_in_the_folder_given(isolation, tmp_path):
    assert run_child(["pwd"], timeout_s=30, cwd=tmp_path).stdout.strip() == str(tmp_path)


def test_undecodable_output_is_replaced(isolation):
    result = python("import sys; sys.stdout.buffer.write(b'a\\xffb')")
    assert result.stdout == "a�b"


def test_signal_that_ends_a_child_is_told_as_a_shell_tells_it(isolation):
    assert python("import os; os.kill(os.getpid(), 9)").exit == 128 + 9


def test_time_limit_ends_a_child_that_ignores_sigterm(isolation, mark):
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
    result = python(code, mark, timeout_s=0.5)
    assert (result.exit, result.reason) == (None, "timeout")
    assert 0.5 <= result.seconds < 5
    assert gone(mark, 0)


def test_output_so_far_survives_the_time_limit(isolation):
    result = run_child(["sh", "-c", "echo early; exec sleep 60"], timeout_s=0.5)
    assert result.stdout == "early\n"


def test_time_limit_ends_grandchildren_in_sessions_of_their_own(isolation, mark):
    result = python(FAMILY + "time.sleep(60)", mark, timeout_s=0.7)
    assert result.reason == "timeout"
    assert gone(mark, 0)


def test_grandchildren_end_with_a_child_that_leaves_them(isolation, mark):
    result = python(FAMILY + "time.sleep(.3); print('bye')", mark)
    assert (result.reason, result.stdout) == ("exit", "bye\n")
    assert gone(mark, 0)


def test_fork_bomb_is_stopped(isolation, mark):
    code = "import os, time\nfor _ in range(6): os.fork()\ntime.sleep(60)"
    result = python(code, mark, timeout_s=20, memory_mb=150)
    assert result.reason == "memory"
    assert gone(mark, 0)


EAT = "import time\nfood = []\nwhile True: food.append(b'x' * 2**22); time.sleep(.002)"


def test_memory_limit_ends_a_child_that_eats(isolation, mark):
    result = python(EAT, mark, memory_mb=120)
    assert (result.exit, result.reason) == (None, "memory")
    assert result.max_rss_mb > 120
    assert gone(mark, 0)


def test_memory_of_grandchildren_counts(isolation, mark):
    code = (
        "import subprocess, sys; "
        "subprocess.run([sys.executable, '-I', '-c', sys.argv[2], sys.argv[1]])"
    )
    result = python(code, mark, EAT, memory_mb=120)
    assert result.reason == "memory"
    assert gone(mark, 0)


def test_reserved_address_space_is_not_memory(isolation):
    code = "import mmap; space = mmap.mmap(-1, 8 * 2**30); print(len(space))"
    result = python(code, memory_mb=100)
    assert (result.reason, result.stdout) == ("exit", f"{8 * 2**30}\n")


def test_peak_holds_what_the_child_had(isolation):
    code = "import time; food = bytearray(200 * 2**20); time.sleep(.3)"
    assert 200 < python(code).max_rss_mb < 260


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_flood_of_output_is_stopped_and_keeps_head_and_tail(isolation, mark, stream):
    code = f"import sys\nwhile True: print('flood', file=sys.{stream})"
    result = python("print('first', flush=True)\n" + code, mark, output_limit=10_000)
    text = getattr(result, stream)
    assert result.reason == "output"
    assert "bytes left out" in text
    assert text.endswith("flood\n") or "flood" in text[-20:]
    assert len(text) < 10_100
    assert result.stdout.startswith("first\n")
    assert gone(mark, 0)


def test_flood_that_ends_at_once_is_still_told(isolation):
    result = run_child(["sh", "-c", "printf '%020d' 1"], timeout_s=30, output_limit=19)
    assert result.reason == "output"
    assert result.stdout.startswith("0" * 9 + "\n[... 1 bytes left out ...]\n")


def test_output_of_exactly_the_limit_is_whole(isolation):
    result = run_child(["sh", "-c", "printf '%020d' 1"], timeout_s=30, output_limit=20)
    assert (result.reason, result.stdout) == ("exit", "0" * 19 + "1")


PARENT = """
import sys
from icml.core.process import run_child
run_child(["sh", "-c", "sleep $0 & sleep $0", sys.argv[1]], timeout_s=600)
"""


def start_parent(mark: str) -> subprocess.Popen[bytes]:
    parent = subprocess.Popen([PYTHON, "-c", PARENT, mark], stderr=subprocess.PIPE)
    deadline = time.monotonic() + 20
    while len(named(mark)) < 4 and time.monotonic() < deadline:  # parent, sh, two sleeps
        time.sleep(0.02)
    return parent


def test_killed_parent_leaves_nothing(mark):
    if process._wrapper(False).isolation != "namespaces":
        pytest.skip("this system gives no namespaces")
    parent = start_parent(mark)
    parent.kill()
    parent.communicate()
    assert gone(mark)


def test_ctrl_c_ends_the_tree_before_the_parent(mark):
    parent = start_parent(mark)
    parent.send_signal(signal.SIGINT)
    assert b"KeyboardInterrupt" in parent.communicate(timeout=10)[1]
    assert gone(mark, 0)


def test_children_of_several_threads_keep_apart(isolation):
    results: dict[int, str] = {}

    def work(number: int) -> None:
        results[number] = python(f"print({number})").stdout

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: f"{number}\n" for number in range(4)}


NO_LIMITS = [float("nan"), float("inf"), -1, 0, True, "1", None]


@pytest.mark.parametrize("limit", NO_LIMITS)
def test_a_time_limit_that_is_none_is_refused_before_anything_starts(limit, tmp_path):
    with pytest.raises(ValueError, match="timeout_s must be a finite number above 0, got"):
        run_child(["touch", tmp_path / "started"], timeout_s=limit)
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("name", ["memory_mb", "output_limit"])
@pytest.mark.parametrize("limit", NO_LIMITS[:-1])
def test_a_memory_or_output_limit_that_is_none_is_refused(name, limit):
    with pytest.raises(ValueError, match=f"{name} must be a finite number above 0, got"):
        run_child(["true"], timeout_s=1, **{name: limit})


@pytest.mark.parametrize("argv", [[], "true"])
def test_a_command_that_is_no_list_of_a_program_is_refused(argv):
    with pytest.raises(ValueError, match="argv must be a program and its arguments, got"):
        run_child(argv, timeout_s=1)


@pytest.mark.skipif(not ROOT, reason="only root changes the user")
def test_memory_limit_holds_for_what_root_starts_as_nobody(mark):
    endless_line = ["sh", "-c", "tail /dev/zero", mark]
    result = run_child(endless_line, timeout_s=20, memory_mb=60, foreign=True)
    assert (result.reason, result.isolation[-8:]) == ("memory", ", nobody")
    assert gone(mark, 0)


def test_missing_program_is_one_sentence():
    with pytest.raises(UserError, match="program no-such-program is not there"):
        run_child(["no-such-program"], timeout_s=1)


def test_file_that_is_no_program_is_one_sentence(tmp_path):
    (tmp_path / "text").write_text("")
    with pytest.raises(UserError, match="text is not there or may not be run"):
        run_child([tmp_path / "text"], timeout_s=1)


def test_missing_folder_is_one_sentence():
    with pytest.raises(UserError, match="folder /nowhere"):
        run_child(["true"], timeout_s=1, cwd="/nowhere")


def test_foreign_program_of_root_runs_as_nobody():
    result = run_child(["sh", "-c", "id -u; id -G"], timeout_s=30, foreign=True)
    expected = f"{process.NOBODY}" if ROOT else f"{os.geteuid()}"
    assert result.stdout.splitlines()[0] == expected
    assert result.isolation.endswith(", nobody") == ROOT


@pytest.mark.skipif(not ROOT, reason="only root changes the user")
def test_foreign_program_that_nobody_may_reach_is_refused(tmp_path):
    program = Path(tmp_path) / "closed" / "program"
    program.parent.mkdir(mode=0o700)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    with pytest.raises(UserError, match="root runs foreign programs as nobody"):
        run_child([program], timeout_s=1, foreign=True)
