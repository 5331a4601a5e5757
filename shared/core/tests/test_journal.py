"""Journals and atomic writes keep what was finished."""

import errno
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from icml.core.errors import UserError
from icml.core.journal import (
    Journal,
    cache_dir,
    no_room,
    remove_drafts,
    replace_folder,
    room_for,
    to_json,
    whole_folder,
    write_atomic,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
records = st.lists(st.dictionaries(st.text(max_size=5), json_values, max_size=3), max_size=5)
in_folder = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None
)


def filled(path: Path, content: list) -> Journal:
    path.unlink(missing_ok=True)
    journal = Journal(path)
    for record in content:
        journal.append(record)
    return journal


@in_folder
@given(content=records)
def test_records_come_back_bit_for_bit(tmp_path, content):
    journal = filled(tmp_path / "j", content)
    # As text, since NaN differs from itself.
    assert json.dumps(journal.read()) == json.dumps(content)


@in_folder
@given(content=records, data=st.data())
def test_a_journal_cut_at_any_byte_keeps_the_records_before_it(tmp_path, content, data):
    path = tmp_path / "j"
    filled(path, content)
    whole = path.read_bytes() if content else b""
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    kept = whole[:cut].count(b"\n")  # json.dumps writes no newline inside a record
    journal = Journal(path)
    assert json.dumps(journal.read()) == json.dumps(content[:kept])
    journal.append({"next": 1})
    assert json.dumps(Journal(path).read()) == json.dumps([*content[:kept], {"next": 1}])


def test_a_missing_file_is_an_empty_journal(tmp_path):
    assert Journal(tmp_path / "none").read() == []


def test_a_damaged_line_in_the_middle_is_refused_by_its_number(tmp_path):
    path = tmp_path / "j"
    path.write_text('{"a":1}\n{"a":\n{"a":3}\n')
    with pytest.raises(UserError, match=r"j is damaged in line 2"):
        Journal(path).read()
    with pytest.raises(UserError, match=r"line 2"):
        Journal(path).append({})


def test_a_record_of_somebody_else_is_refused_by_its_number(tmp_path):
    path = tmp_path / "j"
    path.write_text('{"key":1}\n{"a":2}\n')
    with pytest.raises(UserError, match=r"j is damaged in line 2"):
        Journal(path, needs=("key",)).read()


def test_a_last_line_of_zeros_with_its_newline_is_cut_off_like_a_torn_one(tmp_path):
    path = tmp_path / "j"
    path.write_bytes(b'{"a":1}\n\0\0\0\0}\n')
    assert Journal(path).read() == [{"a": 1}]
    Journal(path).append({"a": 2})
    assert path.read_text() == '{"a":1}\n{"a":2}\n'


def test_a_record_that_is_not_json_leaves_the_file_as_it_was(tmp_path):
    journal = filled(tmp_path / "j", [{"a": 1}])
    with pytest.raises(TypeError):
        journal.append({"a": object()})
    assert journal.read() == [{"a": 1}]


def test_json_values_lose_tuples_and_numpy_types_only():
    value = {"a": (1, np.float64(0.1), np.int32(3)), "b": np.bool_(True), "c": [None, "x"]}
    stored = to_json(value)
    assert stored == {"a": [1, 0.1, 3], "b": True, "c": [None, "x"]}
    assert [type(item) for item in stored["a"]] == [int, float, int]
    assert type(stored["b"]) is bool


@settings(deadline=None)  # a busy machine is no failure
@given(json_values)
def test_a_json_value_is_what_reading_its_text_gives(value):
    assert repr(to_json(value)) == repr(json.loads(json.dumps(value)))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, {2}]}, r"value\['a'\]\[1\] is of type set"),
        ({"a": np.zeros(2)}, r"value\['a'\] is of type ndarray"),
        ({1: 2}, "keys that are not strings"),
        (b"x", "of type bytes"),
    ],
)
def test_other_values_are_refused_with_their_place(value, message):
    with pytest.raises(TypeError, match=message):
        to_json(value)


def test_an_atomic_write_makes_folders_and_replaces_text_or_bytes(tmp_path):
    path = tmp_path / "a" / "b"
    write_atomic(path, "é")
    assert path.read_bytes() == "é".encode()
    write_atomic(path, b"\0")
    assert path.read_bytes() == b"\0"
    assert os.listdir(path.parent) == ["b"]


def test_a_refused_atomic_write_keeps_the_old_content(tmp_path):
    (tmp_path / "file").write_text("old")
    with pytest.raises(UserError, match=r"cannot write .*x: "):
        write_atomic(tmp_path / "file" / "x", "new")
    assert (tmp_path / "file").read_text() == "old"


WRITER = """
import sys
from icml.core.journal import Journal, replace_folder, write_atomic
journal = Journal("journal")
for number in range(10**6):
    journal.append({"number": number, "pad": "x" * 50_000})
    write_atomic("file", str(number % 10) * 50_000)
    with replace_folder("folder") as folder:
        (folder / "one").write_text(str(number))
        (folder / "two").write_text(str(number))
    if number == 3:
        print("going", flush=True)
"""


def test_after_kill_9_at_random_moments_everything_is_old_or_new(tmp_path):
    rng = random.Random(0)
    for _ in range(5):
        (tmp_path / "journal").unlink(missing_ok=True)
        writer = subprocess.Popen([sys.executable, "-c", WRITER], cwd=tmp_path, stdout=-1)
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(rng.uniform(0, 0.02))
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        numbers = [record["number"] for record in Journal(tmp_path / "journal").read()]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) >= 4
        text = (tmp_path / "file").read_text()
        assert len(text) == 50_000
        assert len(set(text)) == 1
        folder = whole_folder(tmp_path / "folder")
        assert folder is not None
        assert (folder / "one").read_text() == (folder / "two").read_text()
    remove_drafts(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder", "journal"]


def test_a_folder_whose_block_fails_stays_as_it_was(tmp_path):
    with replace_folder(tmp_path / "state") as folder:
        (folder / "weights").write_text("1")
    with suppress(ZeroDivisionError), replace_folder(tmp_path / "state") as folder:
        (folder / "weights").write_text("2")
        raise ZeroDivisionError
    assert (tmp_path / "state" / "weights").read_text() == "1"
    assert os.listdir(tmp_path) == ["state"]


@contextmanager
def small_files():
    """Let no file of this process grow above a KiB.

    No longer than the block: pytest's own output may be a file as well.
    """
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


def python_writes(path):
    path.write_bytes(bytes(2048))


def safetensors_writes(path):
    from safetensors.numpy import save_file

    save_file({"weights": np.zeros(512, np.float32)}, path)


@pytest.mark.parametrize("write", [python_writes, safetensors_writes])
def test_a_disk_without_room_is_told_in_a_sentence(tmp_path, write):
    if write is safetensors_writes:
        pytest.importorskip("safetensors.numpy")
    write(tmp_path / "before")  # imported under the limit, a module would be cached cut off
    (tmp_path / "before").unlink()
    with replace_folder(tmp_path / "state") as folder:
        (folder / "weights").write_text("1")
    told = r"cannot write .*state: File too large; mend that and repeat the command"
    with (
        small_files(),
        pytest.raises(UserError, match=told),
        replace_folder(tmp_path / "state") as folder,
    ):
        write(folder / "weights")
    assert (tmp_path / "state" / "weights").read_text() == "1"
    assert os.listdir(tmp_path) == ["state"]


def test_other_errors_of_the_system_are_not_taken_for_a_full_disk():
    assert no_room(FileNotFoundError(errno.ENOENT, "none")) is None
    assert no_room(ValueError("error 28")) is None
    with pytest.raises(FileNotFoundError), room_for(Path("x")):
        Path("/nowhere/at/all").read_text()


def test_a_folder_between_the_two_renames_is_put_back(tmp_path):
    with replace_folder(tmp_path / "state") as folder:
        (folder / "weights").write_text("1")
    (tmp_path / "state").rename(tmp_path / ".state.old")
    assert whole_folder(tmp_path / "state") == tmp_path / "state"
    assert (tmp_path / "state" / "weights").read_text() == "1"
    assert whole_folder(tmp_path / "other") is None


def test_the_cache_folder_is_chosen_by_the_user_or_the_platform(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("ICML_CACHE", "/data/cache")
    assert cache_dir("icml-core") == Path("/data/cache/icml-core")
    monkeypatch.delenv("ICML_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache")
    assert cache_dir("icml-core") == Path("/var/cache/icml/icml-core")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_dir("icml-core") == Path.home() / ".cache/icml/icml-core"


def test_the_journal_needs_the_standard_library_only():
    code = "import sys, icml.core.journal; print(*{m.split('.')[0] for m in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    foreign = set(done.stdout.split()) - sys.stdlib_module_names - {"icml", "__main__"}
    # The finders of editable installs and .pth files load before any of our code.
    assert {name for name in foreign if not name.startswith(("_", "sitecustomize"))} == set()


def test_infinity_and_nan_are_stored_as_constants(tmp_path):
    journal = filled(tmp_path / "j", [{"a": math.inf, "b": math.nan}])
    assert (tmp_path / "j").read_text() == '{"a":Infinity,"b":NaN}\n'
    assert math.isnan(journal.read()[0]["b"])
