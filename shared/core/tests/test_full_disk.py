"""What happens on a real disk that is full: a small tmpfs that only the test's processes see."""

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TOY = Path(__file__).parent / "experiments" / "toy.py"


@pytest.fixture
def small_disk(tmp_path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Run a shell command in a folder that is a tmpfs of 64 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=64k tmpfs {disk} && cd {disk}"

    def run(command: str) -> subprocess.CompletedProcess[str]:
        argv = ["unshare", "-rm", "sh", "-c", f"{mount} && {command}"]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    if shutil.which("unshare") is None or run("true").returncode != 0:
        pytest.skip("this machine lets nobody mount a tmpfs in a namespace of their own")
    return run


FULL_DISK = """
import errno, os
from pathlib import Path
from icml.core.errors import UserError
from icml.core.journal import Journal, replace_folder, write_atomic

def refused(write, *arguments):
    try:
        write(*arguments)
    except UserError as error:
        assert str(error).startswith("cannot write "), error
        assert "No space left on device" in str(error), error
    else:
        raise AssertionError("it was written")

journal = Journal("journal")
journal.append({"number": 0})
write_atomic("file", "old")
with open("ballast", "wb", buffering=0) as ballast:
    try:
        while True:
            ballast.write(bytes(512))
    except OSError as error:
        assert error.errno == errno.ENOSPC
refused(journal.append, {"pad": "x" * 30_000})
refused(write_atomic, "file", "new" * 10_000)
assert Path("journal").read_text() == '{"number":0}\\n'
assert Path("file").read_text() == "old"
assert sorted(os.listdir()) == ["ballast", "file", "journal"]
os.remove("ballast")
journal.append({"number": 1})
assert Journal("journal").read() == [{"number": 0}, {"number": 1}]
write_atomic("file", "new")
"""


def test_a_full_disk_is_one_sentence_and_loses_nothing(small_disk):
    done = small_disk(shlex.join([sys.executable, "-c", FULL_DISK]))
    assert done.returncode == 0, done.stderr


def experiment(folder: Path | str) -> str:
    options = ["--cells", "6", "--pause", "0", "--pad", "4000"]
    return shlex.join([sys.executable, "../toy.py", str(folder), *options])


def test_a_full_disk_loses_no_finished_cell(small_disk, tmp_path):
    shutil.copy(TOY, tmp_path)  # outside any repository, so that commits here don't matter
    commands = [
        "head -c 32768 /dev/zero > ballast",  # 6 cells of 4 kB don't fit in the rest
        f"{{ {experiment('run')} 2> ../message; echo $?; }}",
        "cp -r run ../full",
        "rm ballast && mount -o remount,size=1m .",
        experiment("run"),
        "cp -r run ../continued",
        experiment("../uninterrupted"),
    ]
    done = small_disk(" && ".join(commands))
    message = (tmp_path / "message").read_text()
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", ""), message
    assert message.startswith("cannot write run/cells.jsonl: No space left on device; ")
    assert message.count("\n") == 1
    finished = (tmp_path / "full" / "cells.jsonl").read_bytes()
    assert finished.count(b"\n") >= 1
    assert finished.endswith(b"\n")
    assert (tmp_path / "continued" / "cells.jsonl").read_bytes().startswith(finished)
    assert summary(tmp_path / "continued") == summary(tmp_path / "uninterrupted")


def summary(folder: Path) -> dict:
    content = json.loads((folder / "summary.json").read_text())
    del content["timing"]
    return content
