"""A run of an experiment: a folder that fills with cells, metrics, claims, tables and figures.

Cut an experiment into cells. Each is computed once and journalled together with the metrics it
logged; the same call in a later process finds it there. So a run that was interrupted in any way
goes on when the same code is started again, and ends in the same summary but for its timing.

The folder holds::

    config.json     config, command, seeds, versions, hardware, commit of the first sitting
    cells.jsonl     the journal: one finished cell a line, with its metrics
    sittings.jsonl  when each process that worked on the run started and ended, and with what code
    figures/        each figure as SVG and the CSV it was drawn from
    checkpoints/    states of loops that are longer than one cell should be
    metrics.jsonl   the metrics of all cells in job order      (written by finish)
    summary.json    what the run found                         (written by finish)
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from icml.core import progress
from icml.core.errors import MissingExtra, UserError
from icml.core.findings import Findings, file_name
from icml.core.folder import claim_folder, config_json, settle_config, write_config
from icml.core.journal import Journal, to_json, write_atomic
from icml.core.provenance import Provenance, code_file, cores, provenance
from icml.core.sittings import Mark, Sitting, changes_between, timing
from icml.core.summary import Claim, Figure, Summary, Table, read_summary
from icml.core.workers import CellError, cell_error, make_row, run_jobs, sentence

if TYPE_CHECKING:
    from filelock import BaseFileLock

__all__ = ["CellError", "Claim", "Figure", "Run", "Summary", "Table"]

Item = TypeVar("Item")

CELL = ("key", "value", "rows", *Mark.__annotations__)
"""Names in each line of cells.jsonl."""


class Run(Findings):
    """One run of an experiment; open it with :meth:`open` and use it as a context manager.

    Example::

        with Run.open("gdpo", Config(seeds=8)) as run:
            scores = run.cells({f"seed={seed}": (seed,) for seed in range(8)}, train)
            run.claim("learns", "...", value=..., interval=..., holds=...)
            run.finish()
    """

    dir: Path
    config: Any
    finished: bool
    """Whether summary.json is there: then :meth:`finish` returns it and nothing is computed."""

    def __init__(
        self,
        path: Path,
        config: Any,
        *,
        record: dict[str, Any],
        lock: BaseFileLock,
        made_with: Provenance,
    ) -> None:
        """Read what is finished in ``path``; for :meth:`open`, which prepares the folder."""
        super().__init__(path)
        self.dir = path
        self.config = config
        self.finished = (path / "summary.json").exists()
        self._record = record
        self._lock = lock
        self._made_with = made_with
        self._seeds: list[int] = []
        self._journal = Journal(path / "cells.jsonl", needs=CELL)
        self._sittings = Journal(path / "sittings.jsonl", needs=("sitting",))
        self._finished_cells = {cell["key"]: cell for cell in self._journal.read()}
        self._asked: dict[str, None] = {}  # in the order of the experiment
        self._rows: list[dict[str, Any]] | None = None  # of the cell that is being computed
        self._sitting: Sitting | None = None
        if not self.finished:
            self._sitting = Sitting.begin(self._sittings, self._made_with)
        self._tell_changes()

    @classmethod
    def open(
        cls,
        paper: str,
        config: Any,
        *,
        size: str = "default",
        title: str = "",
        out: Path | None = None,
        fresh: bool = False,
        command: str | None = None,
    ) -> Run:
        """Start a run, or go on with the one that is in the folder.

        A run whose code or processor changed between sittings goes on, since most such changes
        leave the results alone: finished cells are kept, and the change is told on stderr and
        noted in the summary.

        Args:
            paper: Short name of the paper.
            config: A frozen dataclass that determines the result.
            size: Name of the config, for the default folder.
            title: Title of the report.
            out: The folder; ``runs/<paper>/<size>`` if None.
            fresh: Rename a run that is there to ``<folder>.old-<n>`` and start anew.
            command: What to type to continue; this process's own arguments if None.

        Raises:
            UserError: If another process has the folder, or it holds something else: another
                config (names the first field that differs) or no run at all.
            TypeError: If ``config`` is not a dataclass.
        """
        path = Path(out) if out is not None else Path("runs") / paper / size
        dumped = config_json(config)
        made_with = provenance(code_file(config))
        lock = claim_folder(path, fresh=fresh)
        try:
            record = {
                "paper": paper,
                "size": size,
                "title": title,
                "command": command or shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
                "config": dumped,
                "seeds": [],
                **made_with,
            }
            record = settle_config(path, record)
            return cls(path, config, record=record, lock=lock, made_with=made_with)
        except BaseException:
            lock.release()
            raise

    def _tell_changes(self) -> None:
        changes = "; ".join(changes_between(self._sittings, self._made_with))
        if changes:
            told = f"{self.dir} has results from before a change ({changes})"
            print(f"{told}; --fresh computes all anew", file=sys.stderr)
            self.note(f"Some results are from before a change between sittings: {changes}.")

    def __enter__(self) -> Run:
        """Return the run itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the run."""
        self.close()

    def close(self) -> None:
        """Let go of the folder; what is finished stays for the next sitting."""
        sitting, self._sitting = self._sitting, None
        try:
            if sitting is not None:
                with suppress(UserError):  # a full disk: the cells' marks count for this sitting
                    sitting.end()
        finally:
            self._lock.release()

    def cell(self, key: str, compute: Callable[[], Any]) -> Any:
        """Return what ``compute()`` gives, computed once in the life of the run, in this process.

        Args:
            key: Names the cell; each key is asked for once in an experiment.
            compute: Gives numbers, strings, lists, dicts (see
                :func:`icml.core.journal.to_json`); may call :meth:`log`.

        Returns:
            The value as JSON gives it back: tuples have become lists.

        Raises:
            CellError: If ``compute`` raises or its value is not JSON.
            UserError: If the cell cannot be stored (a full disk).
        """
        self._ask(key)
        if key not in self._finished_cells:
            self._rows = []
            try:
                value = to_json(compute(), "its result")
                rows = self._rows
            except Exception as error:
                mendable = isinstance(error, UserError | MissingExtra)
                raise cell_error(key, sentence(error), mendable=mendable) from error
            finally:
                self._rows = None
            self._commit(key, value, rows)
        return self._finished_cells[key]["value"]

    def cells(
        self,
        jobs: Mapping[str, tuple[Any, ...]],
        fn: Callable[..., Any],
        *,
        workers: int = 2,
        desc: str = "cells",
    ) -> dict[str, Any]:
        """Return what ``fn(*args, log=log)`` gives for each job, computed in spawned processes.

        Each process has one thread for torch, numpy and scipy, one worker is a spawned process
        as well, and the result is in the order of the jobs: it does not depend on ``workers``.

        Args:
            jobs: Maps the key of each cell to the positional arguments.
            fn: A function at the top of a module, or a ``functools.partial`` of one. It calls
                ``log(step, *, arm, seed, **metrics)`` as it would call :meth:`log`.
            workers: Processes at a time; never more than there are cores.
            desc: What the progress counts.

        Raises:
            CellError: If a job raises, gives something that is not JSON, or its process dies.
                Cells that are finished by then are kept, the others are stopped.
            UserError: If a cell cannot be stored (a full disk).
            ValueError: If a key was asked for before, or ``workers`` < 1.
        """
        if workers < 1:
            raise ValueError(f"workers must be at least 1, got {workers}")
        for key in jobs:
            self._ask(key)
        todo = {key: args for key, args in jobs.items() if key not in self._finished_cells}
        outcomes = run_jobs(todo, fn, workers=min(workers, cores()))
        done = len(jobs) - len(todo)
        with closing(outcomes), progress.meter(len(jobs), desc, done=done) as advance:
            for outcome in outcomes:
                self._commit(*outcome)
                advance()
        return {key: self._finished_cells[key]["value"] for key in jobs}

    def _ask(self, key: str) -> None:
        if self._rows is not None:
            raise ValueError(f"cell {key!r} is asked for inside another cell")
        if key in self._asked:
            raise ValueError(f"cell {key!r} is asked for twice")
        self._asked[key] = None

    def _commit(self, key: str, value: Any, rows: list[dict[str, Any]]) -> None:
        if self._sitting is None:
            raise UserError(f"{self.dir} is finished without the cell {key!r}; --fresh starts anew")
        cell = {"key": key, "value": value, "rows": rows, **self._sitting.mark()}
        self._journal.append(cell)
        self._finished_cells[key] = cell

    def log(self, step: int, *, arm: str, seed: int, **metrics: float) -> None:
        """Add a row of metrics to the cell that is being computed; it is stored with the cell.

        Args:
            step: Position on the curve.
            arm: Name of the curve (a method, say).
            seed: Which repetition.
            **metrics: Numbers; NaN is allowed.

        Raises:
            ValueError: If no cell is being computed in this process.
            TypeError: If a metric is not a number.
        """
        if self._rows is None:
            raise ValueError("log inside a cell: rows are stored when their cell is")
        self._rows.append(make_row(step, arm=arm, seed=seed, **metrics))

    def metrics(self) -> list[dict[str, Any]]:
        """Return the rows of all finished cells, with their ``cell``, in the experiment's order."""
        if self.finished and not self._asked:
            return Journal(self.dir / "metrics.jsonl").read()
        cells = [self._finished_cells[key] for key in self._asked if key in self._finished_cells]
        return [{"cell": cell["key"], **row} for cell in cells for row in cell["rows"]]

    def progress(
        self, items: Iterable[Item], *, total: int | None = None, desc: str = ""
    ) -> Iterator[Item]:
        """Yield the items and show progress on stderr; see :func:`icml.core.progress.track`."""
        return progress.track(items, total=total, desc=desc)

    def seeds(self, seeds: Sequence[int]) -> None:
        """Say which seeds the shown results come from; config.json and the summary list them."""
        self._seeds = [int(seed) for seed in seeds]
        if not self.finished and self._record["seeds"] != self._seeds:
            self._record["seeds"] = self._seeds
            write_config(self.dir, self._record)

    def checkpoint(self, name: str) -> Path:
        """Return the folder for the state of a loop, absolute, so that worker processes can use it.

        It appears with the first state: write with :func:`icml.core.journal.replace_folder`, read
        with :func:`icml.core.journal.whole_folder`, or hand it to ``icml.core.rl.loop.train``,
        which does both.

        Raises:
            ValueError: If ``name`` cannot be a file name.
        """
        return self.dir.absolute() / "checkpoints" / file_name(name)

    def finish(self) -> Summary:
        """Write metrics.jsonl and summary.json; a finished run's stored summary is returned.

        Raises:
            UserError: If the system refuses to write, or a stored summary cannot be read.
        """
        if not self.finished:
            lines = "".join(json.dumps(row) + "\n" for row in self.metrics())
            write_atomic(self.dir / "metrics.jsonl", lines)
            text = self._summary().model_dump_json(indent=2)
            write_atomic(self.dir / "summary.json", text + "\n")
            self.finished = True
        return read_summary(self.dir)

    def _summary(self) -> Summary:
        assert self._sitting is not None, "the run is closed"
        marks = [dict(self._sitting.mark()), *self._finished_cells.values()]
        return Summary(
            paper=self._record["paper"],
            title=self._record["title"],
            command=self._record["command"],
            config=self._record["config"],
            seeds=self._seeds,
            **self._made_with,
            claims=list(self._claims.values()),
            tables=list(self._tables.values()),
            figures=list(self._figures.values()),
            notes=self._notes,
            timing=timing(self._sittings, marks),
        )
