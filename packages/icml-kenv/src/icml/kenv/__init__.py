"""Live-kBench and kEnv (arXiv:2602.02690): patches for kernel crashes, built, booted, judged."""

from importlib.metadata import version
from typing import TYPE_CHECKING

from icml.core.lazy import exports

__version__ = version("icml-kenv")
__all__ = [
    "Agent",
    "Backend",
    "Bug",
    "CommandAgent",
    "CrashReport",
    "Equivalence",
    "Evidence",
    "Feedback",
    "Limits",
    "Outcome",
    "Patch",
    "PatchRejected",
    "Policy",
    "PublicBug",
    "Session",
    "Verdict",
    "__version__",
    "apply_changes",
    "compare_patches",
    "contains_crash",
    "cutoff_gap",
    "evaluate",
    "feedback_gain",
    "load_bug",
    "normalise_title",
    "parse_diff",
    "parse_report",
    "pass_at",
    "plan_runs",
    "rate",
]

if TYPE_CHECKING:
    from icml.kenv.agents import Agent, CommandAgent
    from icml.kenv.apply import apply_changes
    from icml.kenv.bugs import load_bug
    from icml.kenv.equivalence import Evidence, compare_patches
    from icml.kenv.models import Bug, CrashReport, Equivalence, Patch, PublicBug, Verdict
    from icml.kenv.patch import PatchRejected, parse_diff
    from icml.kenv.policy import Policy
    from icml.kenv.protocol import Backend, Limits
    from icml.kenv.report import contains_crash, parse_report
    from icml.kenv.runner import evaluate
    from icml.kenv.session import Feedback, Session
    from icml.kenv.stats import Outcome, cutoff_gap, feedback_gain, pass_at, rate
    from icml.kenv.titles import normalise_title
    from icml.kenv.verdict import plan_runs
else:
    __getattr__, __dir__ = exports(
        __name__,
        {
            "agents": ["Agent", "CommandAgent"],
            "apply": ["apply_changes"],
            "bugs": ["load_bug"],
            "equivalence": ["Evidence", "compare_patches"],
            "models": ["Bug", "CrashReport", "Equivalence", "Patch", "PublicBug", "Verdict"],
            "patch": ["PatchRejected", "parse_diff"],
            "policy": ["Policy"],
            "protocol": ["Backend", "Limits"],
            "report": ["contains_crash", "parse_report"],
            "runner": ["evaluate"],
            "session": ["Feedback", "Session"],
            "stats": ["Outcome", "cutoff_gap", "feedback_gain", "pass_at", "rate"],
            "titles": ["normalise_title"],
            "verdict": ["plan_runs"],
        },
    )
