"""The other doors to Lean, each with the real library, answered by the wheel's Lean behind it."""

import inspect
import json
import runpy
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest

from icml.core.errors import MissingExtra, UserError
from icml.wzllm.kernel import (
    KiminaKernel,
    LeanDojoKernel,
    LeanInteractKernel,
    WheelKernel,
)
from icml.wzllm.kernel.wheel import HEADER

STAND_IN = Path(__file__).with_name("lake_stand_in.py")
wheel_says = runpy.run_path(str(STAND_IN))["wheel_says"]

SAME = "theorem same (n : Nat) : Eq n n := Eq.refl"
SAYS = "(n : Nat) → Eq n n"
FALSE = "(n : Nat) → Eq n (Nat.succ n)"


# --- Kimina ---------------------------------------------------------------------------------


class LeanServer(BaseHTTPRequestHandler):
    """Speaks Kimina's POST /api/check."""

    mode = "answer"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).seen = (self.path, dict(self.headers), request)
        (snippet,) = request["snippets"]
        replies = {
            "answer": lambda: {"response": {"messages": wheel_says(snippet["code"])}},
            "error": lambda: {"error": "Lean REPL command timed out"},
            "refuse": lambda: {"response": {"message": "unknown environment"}},
            "other": lambda: {"id": "another", "response": {"messages": []}},
            "sleep": lambda: threading.Event().wait(3) or {},
        }
        body = json.dumps({"results": [{"id": snippet["id"], **replies[self.mode]()}]}).encode()
        self.send_response(200)
        self.end_headers()
        with suppress(BrokenPipeError):
            self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), LeanServer) as running:
        running.daemon_threads = True
        LeanServer.mode = "answer"
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


def kimina(url, **options):
    return KiminaKernel(url, header=HEADER, trusted_axioms=(), **options)


def test_kimina_accepts_a_true_statement(server):
    verdict = kimina(server, api_key="key").check(SAME, "same", SAYS, 60)
    assert verdict.accepted
    assert verdict.backend == "kimina"
    path, headers, request = LeanServer.seen
    assert path == "/api/check"
    assert headers["Authorization"] == "Bearer key"
    assert request["timeout"] == 60


def test_kimina_rejects_another_statement(server):
    assert not kimina(server).check(SAME, "same", FALSE, 60).accepted


def test_kimina_never_sees_forbidden_text(server):
    LeanServer.seen = None
    verdict = kimina(server).check("import Lean", "same", SAYS, 60)
    assert verdict.messages[0].startswith("refused before Lean saw it")
    assert LeanServer.seen is None


@pytest.mark.parametrize(
    ("mode", "words"),
    [("error", "Lean REPL command timed out"), ("refuse", "unknown environment")],
)
def test_kimina_server_error_is_a_rejection_in_its_words(server, mode, words):
    LeanServer.mode = mode
    verdict = kimina(server).check(SAME, "same", SAYS, 60)
    assert not verdict.accepted
    assert verdict.messages[0] == words


def test_kimina_answer_to_another_question_is_refused(server):
    LeanServer.mode = "other"
    with pytest.raises(UserError, match="doesn't answer as a Kimina Lean server"):
        kimina(server).check(SAME, "same", SAYS, 60)


def test_kimina_that_is_silent_is_a_rejection(server, monkeypatch):
    monkeypatch.setattr("icml.wzllm.kernel.kimina.GRACE_S", 0.0)
    LeanServer.mode = "sleep"
    verdict = kimina(server).check(SAME, "same", SAYS, 1)
    assert verdict.messages[0] == "no answer within 1 s"


def test_missing_server_is_one_sentence():
    with pytest.raises(UserError, match="doesn't answer"):
        kimina("http://127.0.0.1:1").check(SAME, "same", SAYS, 5)


# --- LeanInteract ---------------------------------------------------------------------------

LAKE = f"""#!/bin/sh
exec {sys.executable} {STAND_IN} "$0" "$@"
"""


@pytest.fixture
def project(tmp_path):
    """A REPL project whose ``lake`` is a stand-in that answers through the wheel's Lean."""
    from lean_interact import LeanREPLConfig

    lake = tmp_path / "lake"
    lake.write_text(LAKE)
    lake.chmod(0o755)
    repl = tmp_path / "repl"
    repl.mkdir()
    (repl / "lean-toolchain").write_text("leanprover/lean4:v4.35.0\n")
    config = LeanREPLConfig(
        local_repl_path=repl,
        build_repl=False,
        lake_path=lake,
        enable_incremental_optimization=False,
        enable_parallel_elaboration=False,
    )
    return tmp_path, config


@pytest.fixture
def interact(project):
    folder, config = project
    with LeanInteractKernel(config, header=HEADER, trusted_axioms=()) as kernel:
        yield folder, kernel


def test_lean_interact_judges_through_the_real_server(interact):
    _, kernel = interact
    verdict = kernel.check(SAME, "same", SAYS, 60)
    assert verdict.messages == ()
    assert verdict.accepted
    assert verdict.backend == "lean-interact"
    assert verdict.max_rss_mb is not None
    assert not kernel.check(SAME, "same", FALSE, 60).accepted


def test_lean_interact_starts_again_after_a_crash(interact):
    folder, kernel = interact
    (folder / "trap").write_text("die")
    verdict = kernel.check(SAME, "same", SAYS, 60)
    assert "the Lean server ended" in verdict.messages[0]
    assert kernel.check(SAME, "same", SAYS, 60).accepted


def test_lean_interact_starts_again_after_a_timeout(interact):
    folder, kernel = interact
    assert kernel.check(SAME, "same", SAYS, 60).accepted
    (folder / "trap").write_text("sleep")
    verdict = kernel.check(SAME, "same", SAYS, 2.0)
    assert verdict.messages[0] == "stopped after 2 s"
    assert kernel.check(SAME, "same", SAYS, 60).accepted


def test_lean_interact_starts_anew_after_many_files(interact, monkeypatch):
    monkeypatch.setattr("icml.wzllm.kernel.lean_interact.COMMANDS_PER_SERVER", 1)
    _, kernel = interact
    assert kernel.check(SAME, "same", SAYS, 60).accepted
    first = kernel._server
    assert kernel.check(SAME, "same", SAYS, 60).accepted
    assert kernel._server is not first
    assert not first.is_alive()


def test_lean_interact_that_cannot_start_is_one_sentence(project):
    folder, config = project
    (folder / "lake").unlink()
    with pytest.raises(UserError, match="can't be started"):
        LeanInteractKernel(config).check(SAME, "same", SAYS, 5)


# --- LeanDojo -------------------------------------------------------------------------------


@pytest.mark.skipif(find_spec("lean_dojo") is not None, reason="lean-dojo is installed")
def test_missing_lean_dojo_names_its_extra():
    with pytest.raises(MissingExtra, match=r"pip install 'icml-wzllm\[lean-dojo\]'"):
        LeanDojoKernel(None, "File.lean", 1)


@pytest.mark.skipif(find_spec("lean_dojo") is None, reason="lean-dojo is not installed")
def test_lean_dojo_still_has_the_signatures_that_we_call():
    import lean_dojo

    opened = list(inspect.signature(lean_dojo.Dojo).parameters)
    assert opened[:2] == ["entry", "timeout"]
    assert list(inspect.signature(lean_dojo.Dojo.run_cmd).parameters)[1:] == ["state", "command"]
    assert {"error"} <= set(lean_dojo.LeanError.__dataclass_fields__)
    assert {"id", "message"} <= set(lean_dojo.CommandState.__dataclass_fields__)


# --- all ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [WheelKernel, KiminaKernel, LeanInteractKernel, LeanDojoKernel])
def test_every_kernel_is_asked_in_the_same_way(kernel):
    names = list(inspect.signature(kernel.check).parameters)
    assert names == ["self", "lean", "theorem", "statement", "timeout_s"]
    assert isinstance(kernel.backend, str)
