"""What a run was made with: versions without imports, and the commit of its code."""

import mmap
import subprocess
from importlib.metadata import version

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.core.differences import first_difference
from icml.core.provenance import changes, git_state, hardware, provenance, versions
from icml.core.sittings import tree_memory


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with one commit, of code.py and a .gitignore that names wheel.py."""
    for name in ("author", "committer"):
        monkeypatch.setenv(f"GIT_{name.upper()}_NAME", "A")
        monkeypatch.setenv(f"GIT_{name.upper()}_EMAIL", "a@example.org")
    (tmp_path / "code.py").write_text("1")
    (tmp_path / "wheel.py").write_text("1")
    (tmp_path / ".gitignore").write_text("wheel.py")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run(["git", "-C", tmp_path, *command], check=True)
    return tmp_path


def commit_of(folder):
    done = subprocess.run(
        ["git", "-C", folder, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_tracked_code_has_its_commit(repository):
    assert git_state(repository / "code.py") == commit_of(repository)


def test_each_uncommitted_change_gives_another_state(repository):
    states: list[str] = []
    for text in ("2", "3"):
        (repository / "code.py").write_text(text)
        states.append(git_state(repository / "code.py") or "")
    assert all(state.startswith(f"{commit_of(repository)}+") for state in states)
    assert states[0] != states[1]


def test_code_that_no_repository_tracks_has_no_commit(repository, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "code.py"
    outside.write_text("1")
    assert git_state(repository / "wheel.py") is None
    assert git_state(outside) is None
    assert git_state(None) is None


def test_without_git_there_is_no_commit(repository, monkeypatch):
    monkeypatch.setenv("PATH", str(repository))
    assert git_state(repository / "code.py") is None


def test_versions_are_those_of_the_metadata():
    found = versions()
    assert found["icml-core"] == version("icml-core")
    assert found["numpy"] == version("numpy")
    assert "trl2" not in found


def test_hardware_is_plain_values():
    assert hardware().keys() == {"cpu", "cores", "memory_gb", "platform", "python"}
    assert hardware() == hardware()


def test_changes_name_versions_commit_and_processor():
    one = provenance(None)
    two = provenance(None)
    assert changes(one, two) == []
    two["versions"] = {**one["versions"], "numpy": "9"}
    two["git"] = "abc"
    two["hardware"] = {**one["hardware"], "cpu": "Abacus", "memory_gb": 1}
    assert changes(one, two) == [
        "commit none -> abc",
        f"numpy {version('numpy')} -> 9",
        f"processor {one['hardware']['cpu']} -> Abacus",
    ]


def test_memory_of_the_tree_counts_what_this_process_holds():
    before = tree_memory()
    # Fresh pages: a bytearray may get memory that this process has freed and still occupies.
    with mmap.mmap(-1, 50_000_000) as held:
        held.write(b"x" * len(held))
        # 5 MB for whatever else the interpreter frees meanwhile.
        assert tree_memory() - before > 45_000_000


configs = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@settings(deadline=None)  # a busy machine is no failure
@given(configs)
def test_a_config_does_not_differ_from_itself(config):
    assert first_difference(config, config) is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ({"a": 1, "b": 1}, {"b": 2, "a": 2}, "b was 1, now 2"),
        ({"a": {"b": [1]}}, {"a": {"b": [2]}}, "a.b was [1], now [2]"),
        ({"a": True}, {"a": 1}, "a was true, now 1"),
        ({"a": 1}, {"a": 1, "b": None}, "b was absent, now null"),
        ({"a": 1, "b": 2}, {"a": 1}, "b was 2, now absent"),
        ({"a": {"b": 1}}, {"a": 3}, 'a was {"b": 1}, now 3'),
    ],
)
def test_the_first_different_field_is_named_in_the_new_configs_order(old, new, message):
    assert first_difference(old, new) == message
