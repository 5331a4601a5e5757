"""Suites that the packages' tests share; only tests import this.

Here: every ``reproduce`` and every command line, run as the real ``icml`` in a process of its own.
`icml.core.testing.text_env` tries any text environment, `icml.core.testing.trl` builds trainers
small enough to train in a test.
"""

from icml.core.testing.commands import (
    HEAVY,
    IDLE_START,
    Measured,
    check_finished_run_is_kept,
    check_help_is_light,
    check_interrupted_run_continues,
    check_is_light,
    check_report,
    check_reproduce,
    comparable,
    measure_icml,
    run_icml,
)

__all__ = [
    "HEAVY",
    "IDLE_START",
    "Measured",
    "check_finished_run_is_kept",
    "check_help_is_light",
    "check_interrupted_run_continues",
    "check_is_light",
    "check_report",
    "check_reproduce",
    "comparable",
    "measure_icml",
    "run_icml",
]
