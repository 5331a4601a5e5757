"""What every kernel is asked, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Verdict:
    """What a kernel said about one proof."""

    accepted: bool
    """The statement as we wrote it has a proof: no error, no axiom that isn't trusted."""
    axioms: tuple[str, ...]
    """Axioms that the re-check of the statement depends on."""
    messages: tuple[str, ...]
    """Why it was not accepted, the most telling first; empty if it was."""
    seconds: float
    """Wall time of the check (s), without compiling the base."""
    max_rss_mb: float | None
    """Largest resident size of the kernel's processes (MiB); None where it can't be watched."""
    backend: str
    """Which kernel this was."""
    isolation: str = ""
    """What contained the kernel's processes, where we started them ourselves."""


class Kernel(Protocol):
    """A Lean kernel behind one of several doors."""

    backend: str
    """Name for reports."""

    def check(self, lean: str, theorem: str, statement: str, timeout_s: float) -> Verdict:
        """Say whether ``lean`` proves ``statement`` under the name ``theorem``.

        Nothing in ``lean`` is trusted. It is scanned, it gets our header and, as the last thing
        in the file, a theorem of ours that states ``statement`` and is proved by ``theorem``.

        Args:
            lean: Declarations alone: no imports, options or commands but theorems and definitions.
            theorem: Name of the theorem in ``lean``.
            statement: The proposition, in the words of the header alone.
            timeout_s: Wall time (s).

        Returns:
            The verdict; bad text, a limit that was exceeded or a crash is one that doesn't accept.

        Raises:
            UserError: If the kernel itself cannot be started.
        """
        ...
