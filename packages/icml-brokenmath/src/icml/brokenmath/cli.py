"""``icml brokenmath …``: thin sub-commands, each calls one public function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from icml.brokenmath.items_cli import generate, validate
from icml.brokenmath.results_cli import compare, likelihood, report
from icml.brokenmath.sft_cli import sft
from icml.core.reproduce import ReproduceOptions


def reproduce(options: ReproduceOptions) -> int:
    """Run the experiment on a CPU and write its report."""
    from icml.brokenmath.reproduce import SIZES, TITLE, run_experiment
    from icml.core.reproduce import reproduce as run

    return run("brokenmath", title=TITLE, sizes=SIZES, experiment=run_experiment, options=options)


app: Mapping[str, Callable[[Any], int | None]] = {
    "generate": generate,
    "validate": validate,
    "compare": compare,
    "likelihood": likelihood,
    "report": report,
    "sft": sft,
    "reproduce": reproduce,
}
