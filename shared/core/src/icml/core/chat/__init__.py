"""Chat models: scripted ones, a budget and a ledger; all else of models is inspect-ai's.

``inspect_ai.model.get_model("openai/…" | "hf/…" | "vllm/…")`` gives clients, retries, caching and
logs. Added here: a provider whose answers are written down (`scripted`, ``scripted/<name>`` on
inspect's command line), a `Budget` that refuses a call before it is made, and a `Ledger` that sums
usage by what it was for. ``pip install 'icml-core[inspect]'``.

inspect's own ``mockllm`` counts tokens with a vocabulary that it downloads; ours counts by a
regular expression (`count_tokens`), so that costs are exact and nothing is fetched.
"""

from typing import TYPE_CHECKING

from icml.core.lazy import exports

__all__ = [
    "Budget",
    "BudgetExceeded",
    "Call",
    "Ledger",
    "Rule",
    "Usage",
    "count_tokens",
    "error_text",
    "metered",
    "model_named",
    "read_script",
    "scripted",
]

if TYPE_CHECKING:
    from icml.core.chat.budget import Budget, BudgetExceeded
    from icml.core.chat.ledger import Ledger, Usage
    from icml.core.chat.metering import metered
    from icml.core.chat.models import error_text, model_named
    from icml.core.chat.provider import scripted
    from icml.core.chat.rules import Call, Rule, count_tokens, read_script
else:
    __getattr__, __dir__ = exports(
        __name__,
        {
            "budget": ["Budget", "BudgetExceeded"],
            "ledger": ["Ledger", "Usage"],
            "metering": ["metered"],
            "models": ["error_text", "model_named"],
            "rules": ["Call", "Rule", "count_tokens", "read_script"],
            "provider": ["scripted"],
        },
    )
