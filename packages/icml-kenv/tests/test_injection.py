"""Bugs made by taking a fix out of a newer source, and hunks that such a fix may be."""

import pytest

from icml.core.errors import UserError
from icml.core.testing import run_icml
from icml.kenv.bugs import load_bug
from icml.kenv.injection import bug_tree, derive_bug_patch, inject, injected_fix, write_bug
from icml.kenv.mine import built_as_modules, mine, reasons
from icml.kenv.models import Bug
from icml.kenv.patch import parse_diff
from icml.kenv.sources import derive_fix

OLD = """\
#include <linux/fs.h>

int first(int a)
{
	return a;
}

int middle(int a)
{
	return a;
}

int count(int a, int b)
{
	return a % b;
}

int last(int a)
{
	return a;
}
"""
FIXED = OLD.replace("\treturn a % b;", "\tif (b <= 0)\n\t\treturn -EINVAL;\n\treturn a % b;")
NEW = FIXED.replace("int first(int a)", "int first(long a)")
"""The fix, and a change that has nothing to do with it."""


@pytest.fixture
def releases(private_cache, monkeypatch, tmp_path):
    """Put two small releases where fetched ones lie, and return a bug of the older one."""
    monkeypatch.setenv("ICML_CACHE", str(tmp_path))
    for version, text in (("1", OLD), ("2", NEW)):
        folder = tmp_path / "icml-kenv/sources" / version / "fs/x"
        folder.mkdir(parents=True)
        (folder / "x.c").write_text(text)
    monkeypatch.setattr("os.geteuid", lambda: 1)  # root wants a cache that nobody may enter
    return Bug.model_validate(
        {
            "id": "x", "title": "divide error in count", "crash_type": "divide error",
            "source": {"kind": "deb", "ref": "linux", "version": "1"}, "directory": "fs/x",
            "crash_report": "divide error: 0000", "reproducers": [{"text": "int main;"}],
            "fix_source": {
                "source": {"kind": "deb", "ref": "linux", "version": "2"},
                "hunks": {"fs/x/x.c": [2]},
            },
        }
    )  # fmt: skip


def test_an_injected_bug_is_the_newer_release_less_exactly_the_fix(releases, tmp_path) -> None:
    bug = inject(releases)
    assert (bug.id, bug.source.version, bug.baselines) == ("x-injected", "2", [])
    crashing = (bug_tree(bug) / "fs/x/x.c").read_text()
    assert crashing == OLD.replace("int first(int a)", "int first(long a)")
    fix = derive_fix(bug)
    assert (fix.added, fix.removed) == (2, 0)
    assert (tmp_path / "icml-kenv/sources/2/fs/x/x.c").read_text() == NEW  # nothing touched
    # Putting the fix back gives the newer release, byte for byte.
    from icml.kenv.apply import patched_files

    assert patched_files(bug_tree(bug), fix.changes)["fs/x/x.c"].new == NEW
    assert injected_fix(bug) == fix


def test_agents_see_nothing_of_how_a_bug_was_injected(releases) -> None:
    bug = inject(releases)
    public = bug.public().model_dump_json()
    assert "bug_source" not in public
    assert "bug_patch" not in public
    assert bug.bug_source.sha256 not in public


def test_another_source_than_the_recorded_one_is_noticed(releases, tmp_path) -> None:
    bug = inject(releases)
    file = tmp_path / "icml-kenv/sources/1/fs/x/x.c"
    file.write_text(OLD.replace("a % b", "a % (b)"))
    with pytest.raises(UserError, match="not the recorded patch"):
        derive_bug_patch(bug)


def test_a_bug_without_recorded_hunks_cannot_be_injected(releases) -> None:
    with pytest.raises(UserError, match="nothing to revert"):
        inject(releases.model_copy(update={"fix_source": None}))
    with pytest.raises(UserError, match="nothing to revert"):
        inject(inject(releases))
    with pytest.raises(UserError, match="no injected bug"):
        injected_fix(releases)


def test_an_injected_bug_is_written_and_read_like_any_other(releases, tmp_path) -> None:
    bug = inject(releases)
    write_bug(bug, tmp_path / "shelf")
    assert load_bug("x-injected", tmp_path / "shelf") == bug
    with pytest.raises(UserError, match="there already"):
        write_bug(bug, tmp_path / "shelf")


def hunk(*lines: str):
    body = "\n".join(lines)
    old = sum(line[0] != "+" for line in lines)
    new = sum(line[0] != "-" for line in lines)
    (change,) = parse_diff(f"--- a/x.c\n+++ b/x.c\n@@ -1,{old} +1,{new} @@\n{body}\n")
    return change.hunks[0]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (("+\tif (len > max)", "+\t\treturn -EINVAL;", " \tcopy();"), ("bound check",)),
        (("+\tif (!p)", "+\t\tgoto out;", " \tuse(p);"), ("NULL check",)),
        (("+\tif (p == NULL)", "+\t\tbreak;", " \tuse(p);"), ("NULL check",)),
        (("+\tsock_hold(sk);", " \tuse(sk);"), ("reference count",)),
        (("+\tif (!refcount_inc_not_zero(&p->users))", "+\t\treturn;", " \tuse(p);"),
         ("NULL check", "reference count")),
        (("-\tBUG_ON(!p);", "+\tuse(p);"), ("assertion removed",)),
        (("-\tif (a > b)", "-\t\treturn;", " \tx();", "+\tif (a > b)", "+\t\treturn;"), ()),
        (("+\tp->x = q->y;", " \tuse(p);"), ()),
        (("+\tif (a > b)", "+\t\ta = b;", " \tuse(a);"), ()),
        (("-\told();", "+\tnew();"), ()),
    ],
)  # fmt: skip
def test_hunks_are_candidates_for_what_they_add(lines, why) -> None:
    assert reasons(hunk(*lines)) == why


@pytest.fixture
def trees(tmp_path):
    for name, text in (("old", OLD), ("new", NEW)):
        for directory, option in (("fs/x", "CONFIG_X"), ("fs/y", "CONFIG_Y")):
            folder = tmp_path / name / directory
            folder.mkdir(parents=True)
            (folder / "Makefile").write_text(f"obj-$({option}) += x.o\n")
            (folder / "x.c").write_text(text)
    (tmp_path / "config").write_text("CONFIG_X=m\nCONFIG_Y=y\n# CONFIG_Z is not set\n")
    return tmp_path


def test_mining_looks_at_small_changes_of_modules(trees) -> None:
    modules = built_as_modules(trees / "config")
    assert modules == {"CONFIG_X"}
    (found,) = mine(trees / "old", trees / "new", modules=modules)
    assert found == ("fs/x/x.c", 2, "count", ("bound check",), 2, 0)
    assert len(mine(trees / "old", trees / "new")) == 2
    assert mine(trees / "old", trees / "new", most_lines=3) == []


def test_the_command_lists_candidates(trees) -> None:
    done = run_icml("kenv", "bugs", "mine", str(trees / "old"), str(trees / "new"),
                    "--config", str(trees / "config"))  # fmt: skip
    assert done.stdout.splitlines()[0].split() == [
        "fs/x/x.c", "hunk", "2", "bound", "check", "+2", "-0", "count"
    ]  # fmt: skip
    ended = run_icml("kenv", "bugs", "mine", "7.7", str(trees / "new"), "--config",
                     str(trees / "config"))  # fmt: skip
    assert ended.returncode == 2
    assert "neither a folder nor a version" in ended.stderr


@pytest.mark.kernel
@pytest.mark.slow
def test_an_injected_bug_crashes_and_its_fix_is_plausible_and_equivalent(module, tmp_path) -> None:
    from icml.kenv.models import Patch
    from icml.kenv.runner import evaluate
    from icml.kenv.templates import diff_text

    bug = inject(load_bug("omfs-sysblock"))
    text = (bug_tree(bug) / "fs/omfs/inode.c").read_text()
    comment = Patch(diff=diff_text("fs/omfs/inode.c", text, f"{text}/* nothing else */\n"))
    # Without a frozen baseline the unpatched kernel is booted five times first.
    same = evaluate(bug, comment, backend=module, folder=tmp_path)
    assert (same.kind, same.crash.title) == ("crash_same", "divide error in omfs_get_bucket")
    fixed = evaluate(bug, derive_fix(bug), backend=module, folder=tmp_path)
    assert (fixed.kind, fixed.equivalence.answer) == ("plausible", "equivalent")
    assert fixed.false_plausible_bound <= 0.01
