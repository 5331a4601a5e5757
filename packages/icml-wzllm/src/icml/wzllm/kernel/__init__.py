"""Lean kernels behind one protocol: the wheel's, a local Lean, a server, LeanDojo."""

from typing import TYPE_CHECKING

from icml.core.lazy import exports

__all__ = [
    "Kernel",
    "KiminaKernel",
    "LeanDojoKernel",
    "LeanInteractKernel",
    "Verdict",
    "WheelKernel",
]

if TYPE_CHECKING:
    from icml.wzllm.kernel.kimina import KiminaKernel
    from icml.wzllm.kernel.lean_dojo import LeanDojoKernel
    from icml.wzllm.kernel.lean_interact import LeanInteractKernel
    from icml.wzllm.kernel.protocol import Kernel, Verdict
    from icml.wzllm.kernel.wheel import WheelKernel
else:
    __getattr__, __dir__ = exports(
        __name__,
        {
            "kimina": ["KiminaKernel"],
            "lean_dojo": ["LeanDojoKernel"],
            "lean_interact": ["LeanInteractKernel"],
            "protocol": ["Kernel", "Verdict"],
            "wheel": ["WheelKernel"],
        },
    )
