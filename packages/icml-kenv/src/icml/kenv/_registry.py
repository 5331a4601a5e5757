"""What inspect-ai finds in this distribution (entry point ``inspect_ai``)."""

from icml.kenv.tasks import kenv, kenv_scorer, kenv_worktree
from icml.kenv.tools import edit_source, find_text, read_source, run_kernel, submit

__all__ = [
    "edit_source",
    "find_text",
    "kenv",
    "kenv_scorer",
    "kenv_worktree",
    "read_source",
    "run_kernel",
    "submit",
]
