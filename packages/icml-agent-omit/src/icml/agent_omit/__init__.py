"""Agent-Omit (arXiv:2602.04284): agents that leave out thoughts and observations."""

from importlib.metadata import version
from typing import TYPE_CHECKING

from icml.core.lazy import exports

__version__ = version("icml-agent-omit")
__all__ = [
    "KeepLast",
    "NoThought",
    "OmissionReward",
    "OmitContext",
    "OmitResult",
    "OmitRollout",
    "OmitTranscript",
    "Oracle",
    "Random",
    "Turn",
    "TurnSizes",
    "Vault",
    "__version__",
    "analyse",
    "chat_transcript",
    "deviation_bound",
    "ledger_of",
    "omission_reward",
    "omissions",
    "parse_turn",
    "synthesise",
    "to_segments",
    "train_omission",
    "write_turn",
]

if TYPE_CHECKING:
    from icml.agent_omit.coldstart import synthesise
    from icml.agent_omit.context import OmitContext, OmitResult
    from icml.agent_omit.format import Turn, parse_turn, write_turn
    from icml.agent_omit.ledger import TurnSizes, ledger_of
    from icml.agent_omit.loop import train_omission
    from icml.agent_omit.necessity import analyse
    from icml.agent_omit.reward import OmissionReward
    from icml.agent_omit.rules import KeepLast, NoThought, Oracle, Random, omissions
    from icml.agent_omit.segments import to_segments
    from icml.agent_omit.templates import chat_transcript
    from icml.agent_omit.theory import deviation_bound
    from icml.agent_omit.transcript import OmitTranscript
    from icml.agent_omit.trl_rollout import OmitRollout, omission_reward
    from icml.agent_omit.vault import Vault
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
            "loop": ["train_omission"],
            "reward": ["OmissionReward"],
            "segments": ["to_segments"],
            "theory": ["deviation_bound"],
            "transcript": ["OmitTranscript"],
            "trl_rollout": ["OmitRollout", "omission_reward"],
            "vault": ["Vault"],
        },
    )
