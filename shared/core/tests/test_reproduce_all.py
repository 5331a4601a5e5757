import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from icml.core.reproduce_all import ICML, overall
from icml.core.summary import read_summary

REFUSED = """
from icml.core.errors import UserError
from icml.core.reproduce import ReproduceOptions

def reproduce(options: ReproduceOptions) -> int:
    raise UserError("there is no Lean on this machine")

app = {"reproduce": reproduce}
"""
KILLED = REFUSED.replace(
    'raise UserError("there is no Lean on this machine")', "import os; os.kill(os.getpid(), 9)"
)


def test_every_paper_runs_and_the_index_lists_them(tally, tmp_path: Path) -> None:
    out = tmp_path / "all"
    done = tally.spawn("reproduce", "--all", "--quick", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert "== tally (1 of 1)" in done.stdout
    assert "required claims hold: 1" in done.stdout
    assert done.stdout.endswith(f"index: {out.resolve() / 'index.html'}\n")
    assert "tally" in (out / "index.html").read_text()
    assert read_summary(out / "tally" / "quick").config["cells"] == 2


def test_failing_papers_stop_none_of_the_others(tally, tmp_path: Path) -> None:
    tally.add("a-refused", REFUSED)
    tally.add("b-killed", KILLED)
    out = tmp_path / "all"
    done = tally.spawn("reproduce", "--all", "--quick", "--out", str(out))
    assert done.returncode == 1
    assert "there is no Lean on this machine" in done.stderr
    assert "a-refused  could not run: see its message above" in done.stdout
    assert "b-killed   crashed (exit status -9)" in done.stdout
    assert "tally      required claims hold: 1" in done.stdout
    assert (out / "index.html").is_file()


def test_paper_that_was_refused_alone_exits_2(site, tmp_path: Path) -> None:
    site.add("refused", REFUSED)
    done = site.spawn("reproduce", "--all", "--out", str(tmp_path / "all"))
    assert done.returncode == 2
    assert not (tmp_path / "all" / "index.html").exists()


@pytest.mark.slow
def test_failed_claim_counts_under_strict(tally, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("broken", "yes")
    command = ["reproduce", "--all", "--quick", "--out", str(tmp_path / "all")]
    lenient, strict = tally.spawn(*command), tally.spawn(*command, "--strict")
    assert (lenient.returncode, strict.returncode) == (0, 1)
    for done in (lenient, strict):
        assert "tally  required claims FAILED: gauss" in done.stdout
        assert "index.html" in done.stdout


def test_interruption_names_both_commands_that_continue(tally, tmp_path: Path) -> None:
    tally.add("zzz", REFUSED)  # must not start after the interruption
    slow = tally.folder / "icml" / "tally" / "cli.py"
    slow.write_text(slow.read_text().replace("Config(3)", "Config(100, 0.1)"))
    command = [*ICML, "reproduce", "--all", "--out", "all"]
    child = subprocess.Popen(
        command, cwd=tmp_path, env=tally.env, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    with child:
        while not (tmp_path / "all" / "tally" / "default" / "cells.jsonl").exists():
            assert child.poll() is None
            time.sleep(0.05)
        os.killpg(child.pid, signal.SIGINT)  # as a terminal does
        _, errors = child.communicate()
    assert child.returncode == 130
    assert "\n  icml tally reproduce --out all/tally/default\n" in errors
    assert errors.endswith("\n  icml reproduce --all --out all\n")
    assert "Lean" not in errors


def test_all_must_be_asked_for(tally) -> None:
    done = tally.icml("reproduce")
    assert done.returncode == 2
    assert "give --all, or name a paper" in done.stderr


def test_without_papers_there_is_one_sentence(site) -> None:
    done = site.icml("reproduce", "--all")
    assert done.returncode == 2
    assert done.stderr == "icml: no paper is installed; try: pip install icml-gdpo\n"


def test_worst_status_wins() -> None:
    assert overall([]) == overall([0, 0]) == 0
    assert overall([0, 2, 0]) == 2
    assert overall([2, 1]) == overall([2, -9]) == overall([1]) == 1


def test_report_renders_finished_runs_again_and_an_index(tally, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    tally.icml("tally", "reproduce", "--out", str(first))
    shutil.copytree(first, second)
    for folder in (first, second):
        (folder / "report.html").unlink()
    index = tmp_path / "new" / "index.html"
    done = tally.icml("report", str(first), str(second), "--index", str(index))
    assert done.returncode == 0, done.stderr
    pages = [first / "report.html", second / "report.html", index]
    assert done.stdout.splitlines() == [str(page.resolve()) for page in pages]
    assert all(page.is_file() for page in pages)


def test_report_of_one_run_writes_no_index(tally, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    tally.icml("tally", "reproduce", "--out", "one")
    assert tally.icml("report", "one").returncode == 0
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("args", [["nowhere"], []])
def test_report_of_no_run_is_one_sentence(site, tmp_path: Path, monkeypatch, args) -> None:
    monkeypatch.chdir(tmp_path)
    done = site.icml("report", *args)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.glob("nowhere*"))


def test_report_with_one_bad_folder_renders_none(tally, tmp_path: Path) -> None:
    good = tmp_path / "good"
    tally.icml("tally", "reproduce", "--out", str(good))
    (good / "report.html").unlink()
    assert tally.icml("report", str(good), str(tmp_path / "bad")).returncode == 2
    assert not (good / "report.html").exists()
