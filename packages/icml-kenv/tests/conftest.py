"""What the tests of real kernels need: they are skipped without it, or fail where it is promised.

`.ci/run` fetches the packages and sets ICML_REQUIRE_KERNEL=1.
"""

import os

import pytest

from icml.kenv.backends.module import ModuleBackend
from icml.kenv.models import Availability
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
