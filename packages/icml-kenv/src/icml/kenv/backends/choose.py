"""Which backend works here."""

from __future__ import annotations

from typing import Literal

from icml.core.errors import UserError
from icml.kenv.models import Availability
from icml.kenv.protocol import Backend

BackendName = Literal["auto", "module", "uml", "docker", "replay"]


class BackendUnavailable(UserError):
    """A backend can't work here; the message says why and what would help."""


def all_backends() -> list[Backend]:
    """Return the backends, in the order in which ``auto`` prefers them, docker last."""
    from icml.kenv.backends.docker import DockerBackend
    from icml.kenv.backends.module import ModuleBackend
    from icml.kenv.backends.replay import ReplayBackend
    from icml.kenv.backends.uml import UmlBackend

    return [UmlBackend(), ModuleBackend(), ReplayBackend(), DockerBackend()]


def backend_named(name: BackendName) -> Backend:
    """Return a backend that works here.

    ``auto`` takes User-Mode Linux where a tree is built, else the module backend, else recorded
    consoles; docker only where it is asked for.

    Raises:
        BackendUnavailable: If it doesn't work.
    """
    found: dict[str, Availability] = {}
    for backend in all_backends():
        if name not in ("auto", backend.name) or (name == "auto" and backend.name == "docker"):
            continue
        found[backend.name] = backend.available()
        if found[backend.name].ok and (name != "auto" or not _takes_long(backend)):
            return backend
    reasons = "; ".join(f"{n}: {a.reason}. {a.hint}".strip() for n, a in found.items())
    raise BackendUnavailable(f"no backend works here: {reasons}")


def _takes_long(backend: Backend) -> bool:
    """Say whether its first build would take minutes: only who asks for it by name waits."""
    return not getattr(backend, "built", True)
