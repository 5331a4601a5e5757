"""BrokenMath: does a model prove what is false? With statements decided by a computer."""

from importlib.metadata import version
from typing import TYPE_CHECKING

from icml.core.lazy import exports

__all__ = [
    "Certificate", "Item", "RuleJudge", "__version__", "build_sft", "compare_paired",
    "correct_for_judge", "generate", "load_items", "rates", "rule_verdict", "save_jsonl",
    "validate", "verify",
]  # fmt: skip

__version__ = version("icml-brokenmath")

if TYPE_CHECKING:
    from icml.brokenmath.items import Item, load_items, save_jsonl
    from icml.brokenmath.judge_error import correct_for_judge
    from icml.brokenmath.metrics import compare_paired, rates
    from icml.brokenmath.rule_judge import RuleJudge, rule_verdict
    from icml.brokenmath.sft import build_sft
    from icml.brokenmath.validator import validate
    from icml.brokenmath.verified import Certificate, generate, verify
else:
    __getattr__, __dir__ = exports(
        __name__,
        {
            "items": ["Item", "load_items", "save_jsonl"],
            "judge_error": ["correct_for_judge"],
            "metrics": ["compare_paired", "rates"],
            "rule_judge": ["RuleJudge", "rule_verdict"],
            "sft": ["build_sft"],
            "validator": ["validate"],
            "verified": ["Certificate", "generate", "verify"],
        },
    )
