import os
import subprocess
import sys
import time

import pytest
from huggingface_hub import constants

from icml.core.errors import UserError
from icml.core.models.hub import fetch

OFFLINE = """
import time
from icml.core.errors import UserError
from icml.core.models.load import load
start = time.perf_counter()
try:
    load("nobody/nothing")
except UserError as error:
    print(error)
print(time.perf_counter() - start)
import sys
print("torch" in sys.modules)
"""


def test_offline_a_model_that_is_not_cached_is_refused_fast_without_importing_torch(tmp_path):
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    run = [sys.executable, "-c", OFFLINE]
    start = time.process_time()
    done = subprocess.run(run, env=env, capture_output=True, text=True, check=True)
    message, _, torch = done.stdout.splitlines()
    assert message == (
        "nobody/nothing is not in the hub's cache, and HF_HUB_OFFLINE=1 forbids to download it"
    )
    assert torch == "False"
    assert time.process_time() - start < 1


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


def test_without_a_network_the_message_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    unreachable = "http://127.0.0.1:9"  # the discard port: nothing listens
    monkeypatch.setattr(constants, "ENDPOINT", unreachable)
    monkeypatch.setenv("HF_ENDPOINT", unreachable)
    with pytest.raises(UserError, match=f"no network connection leads to {unreachable}"):
        fetch("owner/name")
