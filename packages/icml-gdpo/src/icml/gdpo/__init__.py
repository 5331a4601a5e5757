"""GDPO (arXiv:2601.05242): normalise each reward within its group before summing."""

from importlib.metadata import version
from typing import TYPE_CHECKING

from icml.core.lazy import exports

if TYPE_CHECKING:
    from icml.gdpo.advantages import GDPOResult as GDPOResult
    from icml.gdpo.advantages import gdpo_advantages as gdpo_advantages
    from icml.gdpo.advantages import grpo_advantages as grpo_advantages

_NAMES = {
    "advantages": ["GDPOResult", "gdpo_advantages", "grpo_advantages"],
}

__getattr__, __dir__ = exports(__name__, _NAMES)
__version__ = version("icml-gdpo")
__all__ = [
    "GDPOResult",
    "__version__",
    "gdpo_advantages",
    "grpo_advantages",
]
