"""A run goes on after any end, and says the same as one that was never interrupted."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
import psutil
import pytest

from icml.core.errors import UserError
from icml.core.experiment import CellError, Run, Summary
from icml.core.journal import Journal, replace_folder, whole_folder

TOY = Path(__file__).parent / "experiments" / "toy.py"


@dataclass(frozen=True)
class Loop:
    rate: float = 0.1
    steps: int = 10


@dataclass(frozen=True)
class Config:
    seeds: int = 2
    loop: Loop = field(default_factory=Loop)
    sizes: tuple[int, ...] = (1, 2)


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.syspath_prepend(TOY.parent)
    return import_module("toy")


@pytest.fixture(scope="module")
def script(tmp_path_factory) -> Path:
    """A copy of the experiment outside any repository, so that commits here don't matter."""
    return Path(shutil.copy(TOY, tmp_path_factory.mktemp("code")))


OPTIONS = ("--cells", "6", "--pause", "0.02", "--pad", "4000")


@pytest.fixture(scope="module")
def uninterrupted(script, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    done = start(script, folder)
    assert done.wait() == 0
    return folder


def start(script, folder, *options) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, script, folder, *(options or OPTIONS)])


def assert_same_run(folder, other):
    """All but times agree: the summary, the metrics and the figures."""
    one, two = (json.loads((path / "summary.json").read_text()) for path in (folder, other))
    assert one.pop("timing").keys() == two.pop("timing").keys()
    assert one == two
    for name in ("metrics.jsonl", "config.json", "figures/loss.csv", "checkpoints/last/state"):
        assert (folder / name).read_bytes() == (other / name).read_bytes()
    assert {path.name for path in folder.iterdir()} == {path.name for path in other.iterdir()}


def wait_for_bytes(folder, size, process):
    journal = folder / "cells.jsonl"
    while process.poll() is None and not (journal.exists() and journal.stat().st_size >= size):
        time.sleep(0.001)


def finished_cells(folder):
    return [cell["key"] for cell in Journal(folder / "cells.jsonl").read()]


def test_kill_9_at_random_moments_changes_nothing_but_times(script, uninterrupted, tmp_path):
    folder, rng = tmp_path / "run", random.Random(1)
    total = (uninterrupted / "cells.jsonl").stat().st_size
    for part in (0.2, 0.5, 0.8):
        process = start(script, folder)
        wait_for_bytes(folder, (part + rng.uniform(-0.15, 0.15)) * total, process)
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        assert psutil.wait_procs(children, timeout=5)[1] == []
        # What a kill in the middle of a write leaves: a torn line, and drafts of files.
        with (folder / "cells.jsonl").open("ab") as journal:
            journal.write(b'{"key":"seed=0","value":{"sc')
        (folder / ".summary.json.0.tmp").write_text("{")
        (folder / "checkpoints" / ".last.0.tmp").mkdir(parents=True)
    assert start(script, folder).wait() == 0
    assert len(finished_cells(folder)) == len(set(finished_cells(folder))) == 7
    assert_same_run(folder, uninterrupted)


def test_a_journal_cut_in_its_last_record_is_continued(script, uninterrupted, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(uninterrupted, folder)
    for name in ("summary.json", "metrics.jsonl"):
        (folder / name).unlink()
    os.truncate(folder / "cells.jsonl", (folder / "cells.jsonl").stat().st_size - 2500)
    assert start(script, folder).wait() == 0
    assert_same_run(folder, uninterrupted)


def test_ctrl_c_ends_a_run_at_once_and_it_goes_on(script, uninterrupted, tmp_path):
    folder = tmp_path / "run"
    process = start(script, folder)
    wait_for_bytes(folder, 10_000, process)
    children = psutil.Process(process.pid).children(recursive=True)
    before, started = finished_cells(folder), time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert time.monotonic() - started < 2
    assert psutil.wait_procs(children, timeout=2)[1] == []
    assert finished_cells(folder)[: len(before)] == before != []
    assert "seconds" in Journal(folder / "sittings.jsonl").read()[-1]
    assert start(script, folder).wait() == 0
    assert_same_run(folder, uninterrupted)


def test_a_second_process_in_the_folder_gets_one_sentence_at_once(script, tmp_path):
    toy_config = import_toy().Config()
    with Run.open("toy", toy_config, out=tmp_path / "run"):
        done = subprocess.run(
            [sys.executable, script, tmp_path / "run"], capture_output=True, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr == (
        f"another process is running in {tmp_path / 'run'}; "
        "wait for it or use another --out folder\n"
    )


def import_toy():
    sys.path.insert(0, str(TOY.parent))
    try:
        return import_module("toy")
    finally:
        sys.path.pop(0)


def opened(folder, config=None, **options) -> Run:
    return Run.open("toy", config or Config(), out=folder, command="toy", **options)


def test_another_config_is_refused_by_its_first_different_field(tmp_path):
    opened(tmp_path).close()
    other = Config(loop=Loop(rate=0.2, steps=11), sizes=(3,))
    with pytest.raises(UserError, match=r"another config \(loop\.rate was 0\.1, now 0\.2\)"):
        opened(tmp_path, other)
    with pytest.raises(UserError, match=r'paper was "toy", now "other"'):
        Run.open("other", Config(), out=tmp_path)
    opened(tmp_path).close()  # the refusals let go of the folder


def test_fresh_moves_the_old_run_aside(tmp_path):
    folder = tmp_path / "run"
    for number in range(3):
        with opened(folder, Config(seeds=number), fresh=True) as run:
            run.cell("number", lambda number=number: number)
    assert sorted(os.listdir(tmp_path)) == ["run", "run.old-1", "run.old-2"]
    assert finished_value(tmp_path / "run.old-1") == 0
    assert finished_value(tmp_path / "run.old-2") == 1
    assert finished_value(folder) == 2


def finished_value(folder):
    return Journal(folder / "cells.jsonl").read()[0]["value"]


@pytest.mark.parametrize("fresh", [False, True])
def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path, fresh):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(UserError, match=r"holds no run \(thesis\.tex is in it\)"):
        opened(tmp_path, fresh=fresh)
    assert (tmp_path / "thesis.tex").read_text() == "x"


def test_a_finished_run_returns_its_summary_and_computes_nothing(tmp_path):
    with opened(tmp_path) as run:
        run.cell("a", lambda: 1)
        first = run.finish()
        assert run.finish() == first
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with opened(tmp_path) as run:
        assert run.finished
        assert run.finish() == first
        assert run.cell("a", lambda: 1 / 0) == 1
        with pytest.raises(UserError, match="finished without the cell 'b'"):
            run.cell("b", lambda: 2)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files


def test_a_cell_gives_the_same_value_at_once_and_after_continuing(tmp_path):
    values = []
    for _ in range(2):
        with opened(tmp_path) as run:
            values.append(run.cell("a", lambda: {"pair": (1, np.float64(2.5)), "n": float("inf")}))
    assert values == [{"pair": [1, 2.5], "n": float("inf")}] * 2


def test_the_number_of_processes_changes_nothing(tmp_path, toy):
    jobs = {f"seed={seed}": (seed,) for seed in (3, 1, 2)}
    results = []
    for workers in (1, 2):
        with opened(tmp_path / str(workers)) as run:
            train = partial(toy.train, config=toy.Config(pause=0.0))
            values = run.cells(jobs, train, workers=workers)
            results.append((list(values.items()), run.metrics()))
    assert results[0] == results[1]
    assert [key for key, _ in results[0][0]] == ["seed=3", "seed=1", "seed=2"]
    assert [row["seed"] for row in results[0][1]] == [3, 3, 3, 1, 1, 1, 2, 2, 2]


def test_a_failing_cell_stops_the_run_and_keeps_the_finished_ones(tmp_path, toy):
    jobs = {"good": (7, 0.0), "bad": ("x", "no seconds"), "late": (8, 0.0)}
    with opened(tmp_path) as run, pytest.raises(CellError, match="cell 'bad': TypeError"):
        run.cells(jobs, toy.give_late, workers=1)
    assert finished_cells(tmp_path) == ["good"]
    with opened(tmp_path) as run:
        assert run.cells({"good": (7, 0.0)}, toy.fail) == {"good": 7}


def test_rows_of_a_cell_that_failed_are_gone_and_those_of_a_finished_one_stay(tmp_path):
    with opened(tmp_path) as run:
        run.cell("good", lambda: run.log(0, arm="a", seed=0, loss=0.5))
        with pytest.raises(CellError, match="cell 'bad': ZeroDivisionError"):
            run.cell("bad", lambda: [run.log(1, arm="a", seed=0, loss=0.1), 1 / 0])
        rows = run.metrics()
        run.finish()
    assert rows == [{"cell": "good", "step": 0, "arm": "a", "seed": 0, "loss": 0.5}]
    with opened(tmp_path) as run:
        assert run.metrics() == rows


def test_misuse_of_cells_is_told_at_once(tmp_path, toy):
    with opened(tmp_path) as run:
        run.cell("a", lambda: 0)
        with pytest.raises(ValueError, match="cell 'a' is asked for twice"):
            run.cells({"a": (1,)}, toy.give)
        with pytest.raises(CellError, match="cell 'c' is asked for inside another cell"):
            run.cell("b", lambda: run.cell("c", lambda: 0))
        with pytest.raises(ValueError, match="log inside a cell"):
            run.log(0, arm="a", seed=0, loss=1.0)
        with pytest.raises(ValueError, match="workers must be at least 1, got 0"):
            run.cells({}, toy.give, workers=0)
        with pytest.raises(CellError, match="cell 'd': TypeError: its result is of type object"):
            run.cell("d", object)
    with pytest.raises(TypeError, match="config must be a dataclass instance"):
        Run.open("toy", {"seeds": 1}, out=tmp_path)


def test_the_config_file_says_what_the_run_was_made_with(tmp_path):
    with opened(tmp_path, size="quick", title="A toy") as run:
        run.seeds(range(3))
    stored = json.loads((tmp_path / "config.json").read_text())
    assert stored["config"] == {"seeds": 2, "loop": {"rate": 0.1, "steps": 10}, "sizes": [1, 2]}
    assert [stored[key] for key in ("paper", "size", "title")] == ["toy", "quick", "A toy"]
    assert (stored["seeds"], stored["command"]) == ([0, 1, 2], "toy")
    assert {"icml-core", "python", "numpy"} <= stored["versions"].keys()
    assert stored["hardware"]["cores"] >= 1


def test_the_default_folder_is_named_after_the_paper_and_the_size(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Run.open("toy", Config(), size="quick"):
        assert (tmp_path / "runs" / "toy" / "quick" / "config.json").is_file()


def test_times_are_added_up_over_sittings_and_a_killed_one_counts_to_its_last_cell(tmp_path):
    with opened(tmp_path) as run:
        run.cell("a", lambda: 0)
    # A sitting of 100 s that was killed 5 s after its last cell.
    sitting = {"sitting": 1, "started": "2026-01-01T00:00:00+00:00", "made_with": made_with(run)}
    Journal(tmp_path / "sittings.jsonl").append(sitting)
    cell = {"key": "b", "value": 0, "rows": [], "sitting": 1, "seconds": 95.0, "memory_mb": 9e5}
    Journal(tmp_path / "cells.jsonl").append(cell)
    with opened(tmp_path) as run:
        timing = run.finish().timing
    assert 95.0 < timing.wall_seconds < 125.0
    assert timing.peak_memory_mb == 9e5


def made_with(run):
    return Journal(run.dir / "sittings.jsonl").read()[0]["made_with"]


def test_changed_code_is_told_and_noted_and_finished_cells_are_kept(tmp_path, capsys):
    with opened(tmp_path) as run:
        run.cell("a", lambda: 1)
    journal = tmp_path / "sittings.jsonl"
    journal.write_text(journal.read_text().replace('"icml-core":"', '"icml-core":"0.0.1.dev'))
    with opened(tmp_path) as run:
        assert run.cell("a", lambda: 2) == 1
        notes = run.finish().notes
    told = capsys.readouterr().err
    assert "has results from before a change (icml-core 0.0.1.dev" in told
    assert told.count("\n") == len(notes) == 1
    assert "before a change between sittings: icml-core 0.0.1.dev" in notes[0]


def test_a_checkpoint_is_there_for_the_next_sitting(tmp_path):
    with opened(tmp_path) as run:
        assert whole_folder(run.checkpoint("gdpo")) is None
        with replace_folder(run.checkpoint("gdpo")) as folder:
            (folder / "step").write_text("7")
    with opened(tmp_path) as run:
        path = whole_folder(run.checkpoint("gdpo"))
        assert path == tmp_path / "checkpoints" / "gdpo"
        assert (path / "step").read_text() == "7"
        with pytest.raises(ValueError, match="cannot be a file name"):
            run.checkpoint("../gdpo")


def test_a_damaged_summary_is_one_sentence(tmp_path):
    with opened(tmp_path) as run:
        run.finish()
    (tmp_path / "summary.json").write_text('{"paper": "toy"}')
    with opened(tmp_path) as run, pytest.raises(UserError, match=r"is not a run's summary: title"):
        run.finish()


def test_a_whole_run_imports_no_torch(tmp_path, script):
    code = (
        "import sys, toy\n"
        "from icml.core.experiment import Run\n"
        "with Run.open('toy', toy.Config(cells=1), out='run') as run:\n"
        "    toy.experiment(run.config, run)\n"
        "    run.finish()\n"
        "assert not {'torch', 'transformers', 'matplotlib'} & sys.modules.keys()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(script).parent)}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)
    assert isinstance(
        Summary.model_validate_json((tmp_path / "run/summary.json").read_bytes()), Summary
    )
