import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from huggingface_hub import close_session, constants
from huggingface_hub.utils import filter_repo_objects

from icml.core.errors import UserError
from icml.core.models.hub import CODE, UNWANTED, WANTED, fetch

OFFLINE = """
import time
from icml.core.errors import UserError
from icml.core.models.load import load
start = time.process_time()
try:
    load("nobody/nothing")
except UserError as error:
    print(error)
print(time.process_time() - start)
import sys
print("torch" in sys.modules)
"""


def test_offline_a_model_that_is_not_cached_is_refused_fast_without_importing_torch(tmp_path):
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    run = [sys.executable, "-c", OFFLINE]
    done = subprocess.run(run, env=env, capture_output=True, text=True, check=True)
    message, seconds, torch = done.stdout.splitlines()
    assert message == (
        "nobody/nothing is not in the hub's cache, and HF_HUB_OFFLINE=1 forbids to download it"
    )
    assert torch == "False"
    assert float(seconds) < 1


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """A cache that holds owner/name at the main branch, laid out by hand."""
    commit = "0" * 40
    repository = tmp_path / "models--owner--name"
    snapshot = repository / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return snapshot


def test_a_cached_model_is_found_offline(cached):
    assert fetch("owner/name") == cached
    assert fetch("owner/name", revision=cached.name) == cached


def test_a_revision_that_is_not_cached_is_named(cached):
    with pytest.raises(UserError, match="owner/name at v2 is not in the hub's cache"):
        fetch("owner/name", revision="v2")


def test_of_a_repository_only_what_loading_needs_is_downloaded():
    needed = [
        "config.json", "generation_config.json", "model.safetensors.index.json", "merges.txt",
        "model-00001-of-00002.safetensors", "model.safetensors", "tokenizer.model",
        "chat_template.jinja",
    ]  # fmt: skip
    rest = [
        "pytorch_model.bin", "model.fp16.safetensors", "model.pt", "custom_generate/generate.py",
        "original/model.safetensors", "onnx/config.json", "model.onnx", "tf_model.h5",
    ]  # fmt: skip
    code = ["modeling_own.py"]
    names = needed + rest + code
    chosen = filter_repo_objects(names, allow_patterns=[*WANTED], ignore_patterns=[*UNWANTED])
    assert list(chosen) == needed
    trusted = [*WANTED, CODE]
    chosen = filter_repo_objects(names, allow_patterns=trusted, ignore_patterns=[*UNWANTED])
    assert list(chosen) == needed + code


@pytest.fixture
def online(tmp_path, monkeypatch):
    """An empty cache, and a hub to be set as the endpoint."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    close_session()  # else one that knows a proxy may be kept
    yield lambda port: monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{port}")
    close_session()


def test_without_a_network_the_message_says_so(online):
    online(9)  # the discard port: nothing listens
    with pytest.raises(UserError, match=r"no connection leads to http://127\.0\.0\.1:9"):
        fetch("owner/name")


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (404, "RepoNotFound", "there is no folder owner/name here, and the hub has no public"),
        (404, "RevisionNotFound", "the hub's owner/name has no revision v2"),
        (403, "GatedRepo", "owner/name at v2 needs a token"),
        (403, "", "cannot download owner/name at v2: .*403"),
    ],
)
def test_the_hubs_answer_is_one_sentence(online, status, code, message):
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.send_header("X-Error-Code", code)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET

        def log_message(self, *args):
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        online(server.server_port)
        with pytest.raises(UserError, match=message) as caught:
            fetch("owner/name", revision="v2")
        server.shutdown()
    assert "\n" not in str(caught.value)
