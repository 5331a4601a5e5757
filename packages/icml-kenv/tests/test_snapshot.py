import json
from datetime import date

import pytest

from icml.core.errors import UserError
from icml.core.testing import run_icml
from icml.kenv.bugs import bug_ids, load_bug
from icml.kenv.curate import CuratedBug
from icml.kenv.snapshot import Tampered, freeze, load_snapshot

DAY = date(2026, 1, 2)


@pytest.fixture
def frozen(tmp_path):
    bugs = [load_bug(name) for name in bug_ids()]
    return freeze(bugs, tmp_path / "s", day=DAY), tmp_path / "s", bugs


def test_a_snapshot_gives_its_bugs_back(frozen) -> None:
    manifest, folder, bugs = frozen
    assert load_snapshot(folder, sha256=manifest.sha256) == (manifest, bugs)
    assert list(manifest.records) == [bug.id for bug in bugs]
    assert manifest.sources == {"linux-source-6.1 6.1.170-3": bugs[0].source.sha256}


def test_the_same_bugs_and_day_give_the_same_bytes(frozen, tmp_path) -> None:
    _, folder, bugs = frozen
    freeze(bugs[::-1], tmp_path / "t", day=DAY)
    for name in ("bugs.jsonl", "manifest.json"):
        assert (folder / name).read_bytes() == (tmp_path / "t" / name).read_bytes()


def change(path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_a_changed_record_is_named_by_its_line(frozen) -> None:
    _, folder, _ = frozen
    change(folder / "bugs.jsonl", "divide error", "divide terror")
    with pytest.raises(Tampered, match=r"line 2 of bugs\.jsonl"):
        load_snapshot(folder)


def test_a_lost_or_repeated_record_is_noticed(frozen) -> None:
    _, folder, _ = frozen
    lines = (folder / "bugs.jsonl").read_text().splitlines(keepends=True)
    for wrong in (lines[1:], [*lines, lines[0]], lines[::-1]):
        (folder / "bugs.jsonl").write_text("".join(wrong))
        with pytest.raises(Tampered, match="not the frozen file"):
            load_snapshot(folder)


def test_a_changed_manifest_is_noticed(frozen) -> None:
    _, folder, _ = frozen
    change(folder / "manifest.json", "2026-01-02", "2025-01-02")
    with pytest.raises(Tampered, match="manifest was changed"):
        load_snapshot(folder)


def test_a_snapshot_that_was_exchanged_as_a_whole_has_another_digest(frozen, tmp_path) -> None:
    manifest, _, bugs = frozen
    freeze(bugs[:1], tmp_path / "t", day=DAY)
    load_snapshot(tmp_path / "t")
    with pytest.raises(Tampered, match="wanted"):
        load_snapshot(tmp_path / "t", sha256=manifest.sha256)


def test_what_is_no_snapshot_is_one_sentence(tmp_path, frozen) -> None:
    with pytest.raises(UserError, match="No such file"):
        load_snapshot(tmp_path / "none")
    (frozen[1] / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match="no snapshot of this version"):
        load_snapshot(frozen[1])


def test_snapshots_do_not_change_and_hold_one_kind(frozen, tmp_path) -> None:
    _, folder, bugs = frozen
    with pytest.raises(UserError, match="does not change"):
        freeze(bugs, folder, day=DAY)
    other = CuratedBug(id="x", title="t", status="open", base="b", config="c", report="r")
    for wrong in ([], [*bugs, other]):
        with pytest.raises(UserError, match="one kind"):
            freeze(wrong, tmp_path / "t", day=DAY)
    with pytest.raises(UserError, match="twice"):
        freeze([bugs[0], bugs[0]], tmp_path / "t", day=DAY)


def test_the_command_freezes_and_refuses_what_was_touched(tmp_path) -> None:
    out = tmp_path / "s"
    done = run_icml("kenv", "bugs", "freeze", str(out), "--day", "2026-01-02")
    digest = done.stdout.split()[-1]
    assert json.loads((out / "manifest.json").read_text())["sha256"] == digest
    assert run_icml("kenv", "bugs", "verify", str(out), "--sha256", digest).returncode == 0
    change(out / "bugs.jsonl", "net/phonet", "net/telephone")
    ended = run_icml("kenv", "bugs", "verify", str(out))
    assert ended.returncode == 2
    assert "is not the frozen one" in ended.stderr
