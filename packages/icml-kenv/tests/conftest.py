"""What the tests of real kernels need: they are skipped without it, or fail where it is promised.

`.ci/run` fetches the packages and sets ICML_REQUIRE_KERNEL=1.
"""

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock

from icml.kenv.backends.module import ModuleBackend
from icml.kenv.bugs import BUGS, load_bug
from icml.kenv.executor import Job
from icml.kenv.models import Availability, Patch
from icml.kenv.protocol import Backend
from icml.kenv.sources import cache_folder

# A program that a test starts: as a module whose docstrings are tests it would fuzz at once.
collect_ignore = ["fuzz_text.py"]


def _use(backend: Backend, monkeypatch) -> Backend:
    # The kernels lie in the user's cache: they are too big to fetch, and to build, in each test.
    monkeypatch.delenv("ICML_CACHE", raising=False)
    state: Availability = backend.available()
    if not state.ok:
        reason = f"no real kernel in {cache_folder()}: {state.reason} {state.hint}"
        if os.environ.get("ICML_REQUIRE_KERNEL") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return backend


@pytest.fixture
def module(private_cache, monkeypatch) -> Backend:
    return _use(ModuleBackend(), monkeypatch)


@pytest.fixture
def uml(private_cache, monkeypatch) -> Backend:
    from icml.kenv.backends.uml import UmlBackend

    backend = UmlBackend()
    monkeypatch.delenv("ICML_CACHE", raising=False)
    if not backend.built:  # a tree takes minutes to build: CI has the other backend
        pytest.skip(f"no tree of User-Mode Linux is built in {cache_folder()}")
    return backend


def recorded_patch(name: str) -> Patch:
    """Return a patch of the recorded bug; `shelf` has consoles of ``clean`` and ``crash``."""
    head = "--- a/net/phonet/x.c\n+++ b/net/phonet/x.c\n@@ -1 +1 @@\n-int a;\n"
    return Patch(diff=f"{head}+int {name.replace(' ', '_')};\n")


@pytest.fixture(scope="session")
def shelf(tmp_path_factory) -> Path:
    """Return a folder with a bug whose consoles are recorded for two patches."""
    shelf = tmp_path_factory.mktemp("shelf")
    shutil.copytree(BUGS / "phonet-autobind", shelf / "phonet-autobind")
    (own,) = (shelf / "phonet-autobind/consoles").glob("[0-9a-f]*")
    unpatched = shelf / "phonet-autobind/consoles/unpatched"
    for name, source in (("clean", own), ("crash", unpatched)):
        target = shelf / "phonet-autobind/consoles" / recorded_patch(name).sha256
        shutil.copytree(source, target)
    return shelf


@pytest.fixture
def recorded(shelf, tmp_path):
    """Return jobs whose evaluation takes milliseconds: real consoles, nothing boots."""
    bug = load_bug("phonet-autobind", shelf)

    def make(name: str) -> Job:
        folder = tmp_path / "verdicts"
        patch = recorded_patch(name)
        return Job(bug=bug, patch=patch, backend="replay", folder=folder, bugs=shelf)

    return make


@pytest.fixture
def held():
    """Return what keeps an evaluation in its middle: somebody else holds its journal."""

    @contextmanager
    def hold(job: Job, folder: Path | None = None):
        folder = folder or job.folder
        key = job.model_copy(update={"folder": job.folder / "elsewhere"}).run().key
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f"{key}.lock"):
            yield folder / f"{key}.jsonl"

    return hold
