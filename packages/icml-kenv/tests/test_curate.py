"""Saved JSON of syzbot, made here in its format: what is kept, and why the rest is not."""

import json
import sys
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from icml.core.errors import UserError
from icml.core.testing import run_icml
from icml.kenv.curate import curate
from icml.kenv.syzbot import SyzBug, Unreadable, linked_text, parse_json, read_folder

FIX = "a" * 40
BASE = "b" * 40


def crash(**changes) -> dict:
    return {
        "title": "KASAN: slab-use-after-free Read in f",
        "syz-reproducer": "/text?tag=ReproSyz&x=1",
        "c-reproducer": "/text?tag=ReproC&x=1",
        "kernel-config": "/text?tag=KernelConfig&x=1",
        "kernel-source-git": "git://example.org/linux.git",
        "kernel-source-commit": BASE,
        "syzkaller-commit": "c" * 40,
        "compiler-description": "gcc 12",
        "architecture": "amd64",
        "crash-report-link": "/text?tag=CrashReport&x=1",
        **changes,
    }


def bug(name: str, **changes) -> dict:
    return {
        "version": 1,
        "title": "KASAN: slab-use-after-free Read in f",
        "id": name,
        "status": "fixed on 2025/03/04",
        "first-crash": "2025-01-02T03:04:05Z",
        "fix-time": "2025-03-04T00:00:00Z",
        "fix-commits": [{"title": "net: fix f", "hash": FIX, "repo": "git://example.org/net.git"}],
        "crashes": [crash()],
        **changes,
    }


OPEN = {"status": "open", "fix-time": None, "fix-commits": []}


@pytest.fixture
def saved(tmp_path):
    texts = {
        "text?tag=ReproSyz&x=1": "syz_open()\n",
        "text?tag=ReproC&x=1": "int main(void) {}\n",
        "text?tag=KernelConfig&x=1": "#\n# Linux/x86_64 6.1.0 Kernel Configuration\n#\n",
        "text@tag=KernelConfig&x=2": "# Linux/arm64 6.1.0 Kernel Configuration\n",
        "text?tag=CrashReport&x=1": "BUG: KASAN: slab-use-after-free in f\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)

    def save(*records, name="bugs"):
        for n, record in enumerate(records):
            text = record if isinstance(record, str) else json.dumps(record)
            (tmp_path / f"{name}{n}.json").write_text(text)
        return tmp_path

    return save


def test_a_fixed_bug_builds_at_the_parent_of_its_fix_and_an_open_one_at_its_crash(saved) -> None:
    found = curate(saved(bug("fixed1"), bug("open1", **OPEN)))
    assert found.dropped == []
    fixed, unfixed = found.kept
    assert (fixed.status, fixed.base, fixed.fix_commits) == ("fixed", f"{FIX}~1", [FIX])
    assert (unfixed.status, unfixed.base, unfixed.fix_time) == ("open", BASE, None)
    assert fixed.c_reproducer.startswith("int main")
    assert fixed.syz_reproducer == "syz_open()\n"
    assert fixed.reported.isoformat() == "2025-01-02T03:04:05+00:00"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"crashes": []}, "no_crashes"),
        ({"crashes": [crash(**{"syz-reproducer": "", "c-reproducer": ""})]}, "no_reproducer"),
        ({"crashes": [crash(**{"syz-reproducer": "/lost", "c-reproducer": ""})]}, "no_reproducer"),
        ({"crashes": [crash(**{"kernel-config": ""})]}, "no_config"),
        ({"crashes": [crash(**{"kernel-config": "/text?tag=KernelConfig&x=2"})]},
         "other_architecture"),
        ({"crashes": [crash(**{"crash-report-link": ""})]}, "no_report"),
        ({"fix-commits": [{"title": "net: fix f"}]}, "fix_commit_unknown"),
        ({"fix-commits": [{"hash": "HEAD; rm -rf /"}]}, "fix_commit_unknown"),
        ({**OPEN, "crashes": [crash(**{"kernel-source-commit": "v6.1"})]}, "no_kernel_commit"),
        ({**OPEN, "status": "invalid on 2025/01/01"}, "neither_open_nor_fixed"),
        ({**OPEN, "close-time": "2025-01-01T00:00:00Z"}, "neither_open_nor_fixed"),
        ({"id": "../up"}, "bad_id"),
        ({"id": ""}, "bad_id"),
        ({"crashes": [crash(**{"c-reproducer": "/../secret"})]}, "link_refused"),
        ({"crashes": [crash(**{"c-reproducer": "https://example.org/x"})]}, "link_refused"),
        ({"crashes": "many"}, "unreadable"),
        ({"first-crash": "long ago"}, "unreadable"),
    ],
)  # fmt: skip
def test_each_dropped_bug_has_its_reason(saved, changes, reason) -> None:
    found = curate(saved(bug("b1", **changes)))
    assert found.kept == []
    assert [dropped.reason for dropped in found.dropped] == [reason]


def test_a_later_crash_can_save_a_bug_and_a_c_reproducer_is_enough(saved) -> None:
    bad, good = crash(**{"kernel-config": ""}), crash(**{"syz-reproducer": ""})
    (kept,) = curate(saved(bug("b1", crashes=[bad, good]))).kept
    assert (kept.syz_reproducer, kept.c_reproducer[:8]) == ("", "int main")


def test_the_second_record_of_one_id_is_dropped(saved) -> None:
    found = curate(saved(bug("b1"), bug("b1")))
    assert (len(found.kept), found.dropped[0].reason) == (1, "duplicate")


@pytest.mark.parametrize("key", ["Bugs", "bugs"])
def test_lists_name_bugs_that_nobody_saved(saved, key) -> None:
    lines = [
        {"title": "there", "link": "/bug?extid=b1"},
        {"title": "lost", "link": "/bug?extid=b2"},
    ]
    found = curate(saved({"version": 1, key: lines}, bug("b1")))
    assert [b.id for b in found.kept] == ["b1"]
    assert found.dropped == [("b2", "not_saved", "lost")]


def test_optional_fields_may_be_missing_and_unknown_keys_stay() -> None:
    read = SyzBug.model_validate({"title": "t", "new-key": {"x": [1]}})
    assert (read.crashes, read.fix_time, read.model_extra) == ([], None, {"new-key": {"x": [1]}})


def test_unknown_keys_get_into_the_curated_record(saved) -> None:
    (kept,) = curate(saved(bug("b1", subsystems=["net"]))).kept
    assert kept.extra == {"subsystems": ["net"]}


def test_links_never_leave_the_folder(tmp_path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    (tmp_path / "secret").write_text("secret")
    (inside / "link").symlink_to(tmp_path / "secret")
    (inside / "ok").write_text("fine")
    assert linked_text(inside, "/ok") == "fine"
    assert linked_text(inside, "/lost") is None
    refused = ["../secret", "/x/../../secret", "//host/x", "file:///etc/passwd", "c:\\x", "a\0b",
               "link", "/", "x" * 2000]  # fmt: skip
    for link in refused:
        with pytest.raises(Unreadable, match="link"):
            linked_text(inside, link)


PARTS = ("..", "/", "x", "?", "\\", ":", "secret")


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text(max_size=40) | st.lists(st.sampled_from(["..", "/", "x", "?", "\\", ":"])).map("".join)
)
def test_no_link_reads_the_secret(tmp_path, link) -> None:
    inside = tmp_path / "a" / "x"
    inside.mkdir(parents=True, exist_ok=True)
    for name in (tmp_path / "x", tmp_path / "a" / "secret"):
        name.write_text("secret")
    with suppress(Unreadable):
        assert linked_text(inside, link) is None


@pytest.mark.parametrize(
    "data",
    [b"{", b"[" * 100_000, b'{"a": NaN}', b"1" * 10_000, b"\xff\xfe", b"", b'{"a":' * 50_000],
)
def test_hostile_json_is_one_sentence(data) -> None:
    with pytest.raises(Unreadable) as refused:
        parse_json(data, "x.json")
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


def test_sizes_are_bounded(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys.modules["icml.kenv.syzbot"], "MOST_JSON", 100)
    monkeypatch.setattr(sys.modules["icml.kenv.syzbot"], "MOST_TEXT", 100)
    (tmp_path / "big.json").write_text(json.dumps(bug("b1")))
    (tmp_path / "text").write_text("x" * 101)
    assert "more than 100 bytes" in read_folder(tmp_path)[2]["big.json"]
    with pytest.raises(Unreadable, match="more than 100 bytes"):
        linked_text(tmp_path, "/text")


def test_a_folder_without_json_is_refused(tmp_path) -> None:
    with pytest.raises(UserError, match=r"no \*\.json"):
        curate(tmp_path)
    with pytest.raises(UserError, match="no folder"):
        curate(tmp_path / "none")


def test_the_command_tells_each_reason_and_freezes_the_rest(saved, tmp_path) -> None:
    folder = saved(bug("b1"), bug("b2", crashes=[]), "{")
    out = tmp_path / "frozen"
    done = run_icml(
        "kenv", "bugs", "import-syzbot", str(folder), "-o", str(out), "--day", "2026-01-02"
    )
    assert done.returncode == 0, done.stderr
    assert "1 kept, 2 dropped" in done.stdout
    assert "no_crashes" in done.stdout
    checked = run_icml("kenv", "bugs", "verify", str(out)).stdout
    assert "1 bugs frozen on 2026-01-02" in checked
    assert checked.split()[-1] == done.stdout.split()[-1]
    manifest = json.loads((out / "manifest.json").read_text())
    assert [d[1] for d in manifest["dropped"]] == ["unreadable", "no_crashes"]
