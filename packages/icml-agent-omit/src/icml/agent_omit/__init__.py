"""Agent-Omit (arXiv:2602.04284): agents that leave out thoughts and observations."""

from importlib.metadata import version
from typing import TYPE_CHECKING

from icml.core.lazy import exports

__version__ = version("icml-agent-omit")
__all__ = [
    "OmitContext",
    "OmitResult",
    "Turn",
    "__version__",
    "parse_turn",
    "write_turn",
]

if TYPE_CHECKING:
    from icml.agent_omit.context import OmitContext, OmitResult
    from icml.agent_omit.format import Turn, parse_turn, write_turn
else:
    __getattr__, __dir__ = exports(
        __name__,
        {
            "context": ["OmitContext", "OmitResult"],
            "format": ["Turn", "parse_turn", "write_turn"],
        },
    )
