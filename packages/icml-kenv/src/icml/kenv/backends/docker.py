"""The module backend's steps inside of containers, through docker's own client library.

No engine was at hand where this was written: it is tried against a stand-in of the engine's HTTP
interface, and each verdict says "unverified backend".
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from icml.core.errors import MissingExtra, UserError, require
from icml.core.process import NOBODY, ChildResult
from icml.kenv.backends.module import ModuleBackend
from icml.kenv.models import Availability
from icml.kenv.sources import cache_folder

IMAGE = "icml-kenv"
"""Has gcc, make, qemu and the libraries that Debian's headers need; see the Dockerfile in data."""

BUILD_IMAGE = f"docker build -t {IMAGE} {Path(__file__).parents[1] / 'data' / 'docker'}"


class DockerBackend(ModuleBackend):
    """Builds and boots in containers without network, as nobody, with a memory limit."""

    name = "docker"
    verified = False

    def __init__(self) -> None:
        """Run each program in a container of its own."""
        super().__init__(run_in_container)

    def available(self) -> Availability:
        """Ask the engine whether it is there and has the image."""
        try:
            client = _client()
        except MissingExtra as error:
            return Availability(ok=False, reason=str(error), hint="pip install 'icml-kenv[docker]'")
        except UserError as error:
            return Availability(ok=False, reason=str(error), hint="install and start docker")
        docker = require("docker", extra="icml-kenv[docker]")
        try:
            client.images.get(IMAGE)
        except docker.errors.DockerException as error:
            return Availability(ok=False, reason=f"no image {IMAGE}: {error}", hint=BUILD_IMAGE)
        finally:
            client.close()
        return Availability(ok=True, reason="an engine answers; unverified backend")


def _client() -> Any:
    docker = require("docker", extra="icml-kenv[docker]")
    try:
        client = docker.from_env(timeout=30)
        client.ping()
    except docker.errors.DockerException as error:
        raise UserError(f"docker's engine does not answer: {error}") from error
    return client


def run_in_container(
    argv: Sequence[str | os.PathLike[str]],
    *,
    timeout_s: float,
    memory_mb: float | None = None,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    output_limit: int = 8 * 2**20,
    foreign: bool = True,
) -> ChildResult:
    """Run a program in a container, as `icml.core.process.run_child` runs it here.

    The cache folder is mounted under its own path; the user is nobody where we are root, else our
    own, so that files belong to whom they belong to here.

    Raises:
        UserError: If the engine refuses or does not answer.
    """
    docker = require("docker", extra="icml-kenv[docker]")
    client = _client()
    user = NOBODY if foreign and os.geteuid() == 0 else os.geteuid()
    home = str(cache_folder())
    started = time.monotonic()
    try:
        container = client.containers.create(
            IMAGE,
            [os.fspath(part) for part in argv],
            environment=dict(env or {}),
            working_dir=os.fspath(cwd or home),
            user=f"{user}:{user}",
            network_mode="none",
            mem_limit=None if memory_mb is None else int(memory_mb * 2**20),
            pids_limit=512,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            volumes={home: {"bind": home, "mode": "rw"}},
            detach=True,
        )
        try:
            container.start()
            status, reason = _wait(container, timeout_s)
            stdout = container.logs(stdout=True, stderr=False)
            stderr = container.logs(stdout=False, stderr=True)
        finally:
            container.remove(force=True)
    except docker.errors.DockerException as error:
        raise UserError(f"docker's engine refused: {error}") from error
    finally:
        client.close()
    return ChildResult(
        exit=status,
        stdout=_cut(stdout, output_limit),
        stderr=_cut(stderr, output_limit),
        seconds=time.monotonic() - started,
        max_rss_mb=0.0,
        reason=reason,
        isolation="container",
    )


def _wait(container: Any, timeout_s: float) -> tuple[int | None, Any]:
    requests = require("requests", extra="icml-kenv[docker]")
    try:
        answer = container.wait(timeout=timeout_s)
    except (requests.exceptions.ConnectionError, requests.exceptions.Timeout):
        return None, "timeout"  # the client's word for an answer that took too long
    return int(answer["StatusCode"]), "exit"


def _cut(data: bytes, limit: int) -> str:
    if len(data) > limit:
        half = limit // 2
        data = data[:half] + b"\n[... cut ...]\n" + data[-half:]
    return data.decode(errors="replace")
