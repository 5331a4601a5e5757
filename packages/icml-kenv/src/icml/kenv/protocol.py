"""What a backend is: something that turns a patch into a kernel, and a kernel into runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from icml.kenv.models import (
    Availability,
    Bug,
    BuildResult,
    Image,
    Patch,
    Reproducer,
    RunResult,
)


@dataclass(frozen=True)
class Limits:
    """How much one evaluation may use; `Limits()` is what the paper's bugs need and more."""

    build_s: float = 600
    """Wall time of a build."""
    boot_s: float = 120
    """Wall time from the emulator's start to the boot marker."""
    run_s: float = 60
    """Wall time from the boot marker to the end."""
    console_bytes: int = 8 * 2**20
    """Console kept, head and tail."""
    memory_mb: float = 2048
    """Resident size of the emulator or of a build, all processes together (MiB)."""

    def __post_init__(self) -> None:
        """Refuse limits that nothing could meet."""
        for name, value in vars(self).items():
            if not value > 0:
                raise ValueError(f"{name} must be positive, got {value}")


@dataclass(frozen=True)
class Prepared:
    """A bug's unpatched source, laid out for building."""

    bug: Bug
    tree: Path
    """Root of the source that a patch's paths refer to; never written to by a build."""
    work: Path
    """Folder of this bug's builds."""
    key: str
    """Digest of source, configuration and compiler."""
    scope: tuple[str, ...] = ()
    """Folders of the tree that a patch may touch with this backend; none stands for all."""


class Backend(Protocol):
    """Builds a bug's kernel with a patch and boots it."""

    name: str
    recorded: bool
    """It answers from recorded consoles."""
    verified: bool
    """Our own tests run it for real."""

    def available(self) -> Availability:
        """Probe whether it works here; a device that opens has not booted yet."""
        ...

    def prepare(self, bug: Bug) -> Prepared:
        """Lay out the source; raises `UserError` that names what is missing."""
        ...

    def build(self, prepared: Prepared, patch: Patch | None, *, limits: Limits) -> BuildResult:
        """Build the kernel with a patch that has passed the policy, None for the unpatched one.

        A failed build leaves no image, above all not that of an earlier build.
        """
        ...

    def run(self, image: Image, reproducer: Reproducer, *, limits: Limits) -> RunResult:
        """Boot the image once and run the reproducer, with markers that it can't forge."""
        ...
