"""``icml kenv serve`` and ``icml kenv trees``: this machine at the service of others."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

# Spelled out: the backends' module would make each --help load pydantic.
BackendName = Literal["auto", "module", "uml", "docker", "replay"]


@dataclass(frozen=True)
class TreesOptions:
    """Nothing to choose: every tree that is built is told."""


def trees(options: TreesOptions) -> None:
    """Print the trees that this machine has built, for: ray start --resources "$(...)"."""
    from icml.kenv.ray_executor import cached_trees

    print(json.dumps(cached_trees()))


@dataclass(frozen=True)
class ServeOptions:
    """What to serve, where, and how it is evaluated."""

    host: str = "127.0.0.1"
    """Address to serve on; others than this machine's own need --allow-remote."""
    port: int = 8300
    """Port to serve on; 0 takes one that is free and prints it."""
    allow_remote: bool = False
    """Serve other machines too: tokens travel in clear unless a proxy brings TLS."""
    out: Path = Path("runs/kenv/service")
    """Folder of sessions, runs and the operator's token; the same folder goes on with them."""
    bugs: Path | None = None
    """A folder of bugs; None is those of the package."""
    frozen: str = ""
    """Name of the snapshot that these bugs are, for agents that ask for one."""
    backend: BackendName = "auto"
    """auto takes uml where a tree is built, else module, else replay."""
    executor: Literal["local", "ray"] = "local"
    """local uses processes here; ray a cluster, or a local Ray that it starts and ends."""
    address: str | None = None
    """Of a Ray cluster, for example 10.0.0.1:6379 or auto; None starts a local Ray."""
    slots: int | None = None
    """Evaluations at a time on this machine; None is one per two processors."""


def serve(options: ServeOptions) -> None:
    """Serve the bugs to agents over HTTP, until Ctrl-C."""
    from icml.core.errors import UserError, require

    for module in ("fastapi", "uvicorn"):
        require(module, extra="icml-kenv[server]")
    from icml.kenv.bugs import BUGS, bug_ids, load_bug
    from icml.kenv.many import executor_named
    from icml.kenv.server import bind
    from icml.kenv.server import serve as run_server
    from icml.kenv.service import OPERATOR_FILE, Service

    shelf = (options.bugs or BUGS).resolve()
    bugs = {name: load_bug(name, shelf) for name in bug_ids(shelf)}
    if not bugs:
        raise UserError(f"there are no bugs in {shelf}: wanted a folder a bug, with bug.json in it")
    opened = bind(options.host, options.port, allow_remote=options.allow_remote)
    executor = executor_named(options.executor, address=options.address, slots=options.slots)
    out = options.out.resolve()
    try:
        service = Service(
            out, executor, bugs=bugs, backend=options.backend, shelf=shelf, frozen=options.frozen
        )
    except BaseException:
        executor.close()
        raise
    host, port = opened.getsockname()[:2]
    print(f"{len(bugs)} bugs with {service.backend}; sessions in {out}")
    print(f"the operator's token is in {out / OPERATOR_FILE}")
    print(f"serving on http://{f'[{host}]' if ':' in host else host}:{port}", flush=True)
    run_server(service, opened)
