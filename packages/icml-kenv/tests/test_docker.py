"""The docker backend against a stand-in for the engine's HTTP interface, which runs commands."""

import json
import struct
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import urlsplit

import pytest

from icml.kenv.backends.docker import DockerBackend, run_in_container
from icml.kenv.bugs import load_bug
from icml.kenv.protocol import Limits


class Engine(BaseHTTPRequestHandler):
    """As much of the interface (version 1.44) as the client library asks for."""

    protocol_version = "HTTP/1.1"
    asked: ClassVar[dict] = {}
    images = ("icml-kenv",)
    running: ClassVar[dict] = {}
    removed: ClassVar[list] = []

    def log_message(self, *args) -> None:
        pass

    def _send(self, body, status=200, kind="application/json") -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        path = parts.path
        if path.endswith("/_ping"):
            self._send(b"OK", kind="text/plain")
        elif path.endswith("/version"):
            self._send({"ApiVersion": "1.44", "MinAPIVersion": "1.24"})
        elif "/images/" in path:
            name = path.split("/images/")[1].removesuffix("/json")
            known = name in self.images
            self._send(
                {"Id": name} if known else {"message": "no such image"}, 200 if known else 404
            )
        elif path.endswith("/logs"):
            done = self.running.get("done")  # none yet of a container that still runs
            out = "stdout=1" in parts.query
            data = (done.stdout if out else done.stderr) if done else b""
            head = struct.pack(">BxxxL", 1 if out else 2, len(data))
            self._send(head + data if data else b"", kind="application/vnd.docker.raw-stream")
        else:
            self._send(
                {
                    "Id": "c1",
                    "Config": {"Tty": False},
                    "HostConfig": {"LogConfig": {"Type": "json-file"}},
                }
            )

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urlsplit(self.path).path
        if path.endswith("/containers/create"):
            type(self).asked = json.loads(body)
            self._send({"Id": "c1", "Warnings": []}, 201)
        elif path.endswith("/start"):
            self._send(b"", 204)
        elif path.endswith("/wait"):
            asked = self.asked
            done = subprocess.run(
                asked["Cmd"], cwd=asked["WorkingDir"], capture_output=True, check=False,
                env=dict(pair.split("=", 1) for pair in asked["Env"]),
            )  # fmt: skip
            self.running["done"] = done
            self._send({"StatusCode": done.returncode})

    def do_DELETE(self) -> None:
        self.removed.append(self.path)
        self._send(b"", 204)


@pytest.fixture
def engine(monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.server_port}")
    Engine.removed.clear()
    Engine.running.clear()
    yield server
    server.shutdown()
    server.server_close()


def test_a_command_runs_in_a_container_without_network_or_rights(engine, tmp_path) -> None:
    done = run_in_container(
        ["sh", "-c", "echo out; echo err >&2; exit 3"],
        timeout_s=30,
        memory_mb=64,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert (done.exit, done.reason, done.isolation) == (3, "exit", "container")
    assert (done.stdout, done.stderr) == ("out\n", "err\n")
    host = Engine.asked["HostConfig"]
    assert (host["NetworkMode"], host["Memory"]) == ("none", 64 * 2**20)
    assert host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert Engine.asked["User"] not in ("", "0:0")
    assert Engine.removed  # whatever happened, no container is left


def test_a_command_that_takes_too_long_is_removed(engine, tmp_path) -> None:
    started = time.monotonic()
    done = run_in_container(
        ["sleep", "5"], timeout_s=1, cwd=tmp_path, env={"PATH": "/usr/bin:/bin"}
    )
    assert (done.exit, done.reason) == (None, "timeout")
    assert time.monotonic() - started < 5
    assert any("c1" in path for path in Engine.removed)


def test_an_engine_without_the_image_names_the_command_that_builds_it(engine, monkeypatch) -> None:
    monkeypatch.setattr(Engine, "images", ())
    state = DockerBackend().available()
    assert not state.ok
    assert state.hint.startswith("docker build -t icml-kenv ")


def test_no_engine_is_told_and_nothing_is_verified(monkeypatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    state = DockerBackend().available()
    assert (state.ok, DockerBackend().verified) == (False, False)
    assert "does not answer" in state.reason


@pytest.mark.kernel
@pytest.mark.slow
def test_the_same_steps_build_and_boot_a_real_kernel(module, engine) -> None:
    backend = DockerBackend()
    bug = load_bug("phonet-autobind")
    prepared = backend.prepare(bug)
    build = backend.build(prepared, None, limits=Limits())
    assert build.ok, build.log_tail
    found = backend.run(build.image, bug.reproducers[0], limits=Limits())
    assert found.crash.title == bug.title
    assert found.isolation == "container, vm"
