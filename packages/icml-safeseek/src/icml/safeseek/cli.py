"""``icml safeseek …``: thin sub-commands, each calls one public function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from icml.core.reproduce import ReproduceOptions


def reproduce(options: ReproduceOptions) -> int:
    """Run the experiment on a CPU and write its report."""
    from icml.core.reproduce import reproduce as run
    from icml.safeseek.reproduce import SIZES, TITLE, run_experiment

    return run("safeseek", title=TITLE, sizes=SIZES, experiment=run_experiment, options=options)


app: Mapping[str, Callable[[Any], int | None]] = {"reproduce": reproduce}
