"""Agent-Omit (arXiv:2602.04284): agents that leave out thoughts and observations."""

from importlib.metadata import version
from typing import TYPE_CHECKING

from icml.core.lazy import exports

__version__ = version("icml-agent-omit")
__all__ = [
    "KeepLast",
    "NoThought",
    "OmitContext",
    "OmitResult",
    "Oracle",
    "Random",
    "Turn",
    "TurnSizes",
    "__version__",
    "analyse",
    "chat_transcript",
    "ledger_of",
    "omissions",
    "parse_turn",
    "synthesise",
    "write_turn",
]

if TYPE_CHECKING:
    from icml.agent_omit.coldstart import synthesise
    from icml.agent_omit.context import OmitContext, OmitResult
    from icml.agent_omit.format import Turn, parse_turn, write_turn
    from icml.agent_omit.ledger import TurnSizes, ledger_of
    from icml.agent_omit.necessity import analyse
    from icml.agent_omit.rules import KeepLast, NoThought, Oracle, Random, omissions
    from icml.agent_omit.templates import chat_transcript
else:
    __getattr__, __dir__ = exports(
        __name__,
        {
            "coldstart": ["synthesise"],
            "context": ["OmitContext", "OmitResult"],
            "format": ["Turn", "parse_turn", "write_turn"],
            "ledger": ["TurnSizes", "ledger_of"],
            "necessity": ["analyse"],
            "rules": ["KeepLast", "NoThought", "Oracle", "Random", "omissions"],
            "templates": ["chat_transcript"],
        },
    )
