"""A folder of paper packages that only the test's processes can see."""

import importlib
import io
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import entry_points
from pathlib import Path
from subprocess import CompletedProcess
from textwrap import dedent
from typing import Any

import pytest

from icml.core.cli import main
from icml.core.installed import GROUP
from icml.core.testing import run_icml, trl


class Site:
    """Packages put where Python finds them, with the metadata that pip would write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # A distribution that comes first on sys.path hides one of the same name behind it.
        for point in entry_points(group=GROUP):
            assert point.dist is not None
            self._metadata(point.dist.name, "hidden", {})

    def add(self, name: str, source: str, *, summary: str = "", distribution: str = "") -> None:
        """Install a paper whose cli module holds ``source``."""
        distribution = distribution or f"icml-{name}"
        module = distribution.removeprefix("icml-").replace("-", "_")
        package = self.folder / "icml" / module
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        (package / "cli.py").write_text(dedent(source))
        self._metadata(distribution, summary, {name: f"icml.{module}.cli:app"})

    def _metadata(self, distribution: str, summary: str, points: Mapping[str, str]) -> None:
        info = self.folder / f"{distribution.replace('-', '_')}-0.3.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0.3.0\nSummary: {summary}\n"
        )
        lines = [f"[{GROUP}]", *(f"{key} = {value}" for key, value in points.items())]
        (info / "entry_points.txt").write_text("\n".join(lines) if points else "")

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.folder), "OMP_NUM_THREADS": "1"}

    def icml(self, *args: str) -> CompletedProcess[str]:
        """Run ``icml`` in this process, which saves half a second a call."""
        out, err = io.StringIO(), io.StringIO()
        before = set(sys.modules)
        sys.path.insert(0, str(self.folder))
        importlib.invalidate_caches()
        try:
            with redirect_stdout(out), redirect_stderr(err):
                status = main(args)
        finally:
            sys.path.remove(str(self.folder))
            for name in set(sys.modules) - before:
                if str(self.folder) in str(getattr(sys.modules[name], "__file__", "")):
                    del sys.modules[name]
        return CompletedProcess(args, status, out.getvalue(), err.getvalue())

    def spawn(self, *args: str, cwd: Path | None = None) -> CompletedProcess[str]:
        """Run ``icml`` in a process of its own."""
        return run_icml(*args, cwd=cwd, env=self.env)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    folder = tmp_path / "site"
    folder.mkdir()
    return Site(folder)


@pytest.fixture
def tiny_trainer(tmp_path: Path) -> Callable[..., Any]:
    """Builds a TRL trainer of the given class over a random 4 k-parameter Llama."""
    return lambda trainer, **options: trl.tiny_trainer(trainer, tmp_path, **options)


@pytest.fixture
def tiny(site: Site) -> Site:
    """A site with one paper, whose commands do what their names say."""
    site.add("tiny", TINY, summary="Tiny: a paper of one page.")
    return site


@pytest.fixture
def tally(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A site with one paper, whose experiment counts; child processes see it as well."""
    site.add("tally", TALLY, summary="Tally: counting, slowly.")
    monkeypatch.setenv("PYTHONPATH", str(site.folder))
    return site


TINY = '''
    from __future__ import annotations

    import errno
    from dataclasses import dataclass
    from pathlib import Path

    from icml.core.errors import UserError, require


    @dataclass(frozen=True)
    class Count:
        """Options of count."""

        steps: int = 3
        """Steps to count (steps)."""
        out: Path | None = None
        """Where the count goes."""
        aloud: bool = False
        """Say the numbers."""

        def __post_init__(self) -> None:
            if self.steps < 0:
                raise ValueError(f"steps must be >= 0, got {self.steps}")


    @dataclass(frozen=True)
    class Nothing:
        """No options."""


    def count(options: Count) -> int:
        """Count the steps."""
        print(f"counted {options.steps}")
        return 0


    def fail(options: Nothing) -> int:
        """Fail."""
        return 1


    def mend(options: Nothing) -> None:
        """Refuse."""
        raise UserError("the file is upside down: turn it")


    def need(options: Nothing) -> None:
        """Need a library."""
        require("a_library_of_dreams", extra="icml-tiny[dreams]")


    def fill(options: Nothing) -> None:
        """Write to a full disk."""
        with open("/dev/full", "w") as file:
            file.write("x" * 100_000)


    def read(options: Count) -> None:
        """Read a file."""
        print(options.out.read_text())


    def lose(options: Nothing) -> None:
        """Read a file of ours that is not there."""
        Path("/nowhere/ours.json").read_text()


    def value(options: Nothing) -> None:
        """Hit a bug."""
        raise ValueError("the wrong sign in Eq. 4")


    def shout(options: Nothing) -> None:
        """Print a character that few encodings have."""
        print("\\N{GREATER-THAN OR EQUAL TO} 1")


    def chat(options: Nothing) -> None:
        """Print a lot."""
        for number in range(100_000):
            print(number)


    def interrupt(options: Nothing) -> None:
        """Be interrupted."""
        raise KeyboardInterrupt


    app = {
        "count": count, "fail": fail, "mend": mend, "need": need, "fill": fill, "read": read,
        "lose": lose, "value": value, "shout": shout, "chat": chat, "interrupt": interrupt,
    }
'''

# `broken` and `crash` in the environment make the required claim fail and the run crash.
TALLY = '''
    from __future__ import annotations

    import os
    import time
    from dataclasses import dataclass
    from typing import TYPE_CHECKING

    from icml.core.reproduce import ReproduceOptions, reproduce as drive

    if TYPE_CHECKING:
        from icml.core.experiment import Run


    @dataclass(frozen=True)
    class Config:
        cells: int
        seconds: float = 0.0


    SIZES = {"quick": Config(2), "default": Config(3), "slow": Config(30, 0.1)}


    def count(config: Config, run: Run) -> None:
        def one(number: int) -> int:
            time.sleep(config.seconds)
            return number

        total = sum(run.cell(f"number={n}", lambda n=n: one(n)) for n in range(config.cells))
        if "crash" in os.environ:
            raise RuntimeError("the abacus broke")
        run.table("total", [{"cells": config.cells, "total": total}], caption="The sum.")
        expected = config.cells * (config.cells - 1) / 2
        holds = total == expected and "broken" not in os.environ
        run.claim(
            "fast", "Counting is fast", value=0.5, interval=(-1, 2), holds=False, kind="reported"
        )
        run.claim("gauss", "The sum is Gauss's", value=total, interval=None, holds=holds)


    def reproduce(options: ReproduceOptions) -> int:
        """Count and compare with Gauss."""
        return drive("tally", title="Tally", sizes=SIZES, experiment=count, options=options)


    app = {"reproduce": reproduce}
'''
