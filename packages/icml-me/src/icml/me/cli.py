"""``icml me …``: thin sub-commands, each calls one public function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from icml.core.reproduce import ReproduceOptions
from icml.me.options import BenchOptions, CheckOptions, GenerateOptions


def reproduce(options: ReproduceOptions) -> int:
    """Run the experiment on a CPU and write its report."""
    from icml.core.reproduce import reproduce as run
    from icml.me.reproduce import SIZES, TITLE, run_experiment

    return run("me", title=TITLE, sizes=SIZES, experiment=run_experiment, options=options)


def generate(options: GenerateOptions) -> int:
    """Answer a prompt with several models that write as one, word by word."""
    from icml.me.terminal import write

    return write(options)


def bench(options: BenchOptions) -> None:
    """Time ME against averaging all members, in turn in one process."""
    from icml.me.bench import measure

    print(measure(options))


def check(options: CheckOptions) -> None:
    """Say how the tokenizers of two models can be aligned."""
    from icml.me.alignment.levels import compare_members
    from icml.me.members import load_members

    print(compare_members(*load_members([options.one, options.other])))


app: Mapping[str, Callable[[Any], int | None]] = {
    "reproduce": reproduce,
    "generate": generate,
    "bench": bench,
    "check": check,
}
