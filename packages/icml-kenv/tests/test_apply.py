import difflib
import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml.kenv.apply import apply_changes, apply_hunks, patched_files, reverse
from icml.kenv.patch import PatchRejected, parse_diff

lines = st.lists(st.sampled_from(["a", "b", "c", "", "{", "\ta"]), max_size=14)
texts = st.builds(lambda ls, end: "\n".join(ls) + end, lines, st.sampled_from(["\n", "", "\n\n"]))


def difference(old: str, new: str, *, context: int = 3) -> str:
    """What ``diff -u`` prints, by the standard library."""
    out = []
    for line in difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), "a/x.c", "b/x.c", n=context
    ):
        out.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(out)


@given(texts, texts, st.integers(0, 3))
def test_a_diff_turns_the_old_text_into_the_new_and_its_reverse_back(old, new, context) -> None:
    if old == new:
        return
    (change,) = parse_diff(difference(old, new, context=context))

    assert apply_hunks(old, change.hunks).new == new
    (back,) = reverse([change])
    assert apply_hunks(new, back.hunks).new == old


@given(texts, texts)
def test_touched_lines_are_those_that_difflib_removes_and_adds(old, new) -> None:
    if old == new:
        return
    (change,) = parse_diff(difference(old, new))
    found = apply_hunks(old, change.hunks)

    old_lines, new_lines = old.splitlines(), new.splitlines()
    assert [old_lines[n - 1] for n in found.removed] == change.removed_lines
    assert [new_lines[n - 1] for n in found.added] == change.added_lines


@pytest.mark.parametrize("line", [2, 20, 22, 23, 24, 25, 26, 32, 58, 90])
def test_a_hunk_with_a_wrong_line_number_lands_where_git_puts_it(tmp_path, line) -> None:
    old = "".join(f"{n % 6}\n" for n in range(60))  # two equal distances at 23
    moved = f"--- a/x.c\n+++ b/x.c\n@@ -{line},3 +{line},3 @@\n 1\n-2\n+X\n 3\n"
    (tmp_path / "x.c").write_text(old)
    (tmp_path / "p").write_text(moved)
    environment = {"GIT_CEILING_DIRECTORIES": str(tmp_path.parent), "PATH": os.environ["PATH"]}
    subprocess.run(["git", "apply", "p"], cwd=tmp_path, check=True, env=environment)

    (change,) = parse_diff(moved)
    assert apply_hunks(old, change.hunks).new == (tmp_path / "x.c").read_text()


TREE = {"net/x.c": "one\ntwo\nthree\n", "net/gone.c": "bye\n", "net/old.c": "stay\n"}
ALL_KINDS = """--- a/net/x.c
+++ b/net/x.c
@@ -1,3 +1,3 @@
 one
-two
+2
 three
--- /dev/null
+++ b/net/new.c
@@ -0,0 +1 @@
+hello
--- a/net/gone.c
+++ /dev/null
@@ -1 +0,0 @@
-bye
diff --git a/net/old.c b/net/moved.c
rename from net/old.c
rename to net/moved.c
"""


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    for path, text in TREE.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def contents(root) -> dict[str, bytes]:
    return {
        str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()
    }


def failure(tree, diff: str) -> PatchRejected:
    before = contents(tree)
    with pytest.raises(PatchRejected) as caught:
        apply_changes(tree, parse_diff(diff))
    assert caught.value.kind == "apply_failed"
    assert contents(tree) == before
    return caught.value


def test_applying_and_reversing_restores_the_tree_byte_for_byte(tree) -> None:
    before = contents(tree)
    changes = parse_diff(ALL_KINDS)

    apply_changes(tree, changes)
    assert contents(tree) == {
        "net/x.c": b"one\n2\nthree\n",
        "net/new.c": b"hello\n",
        "net/moved.c": b"stay\n",
    }
    apply_changes(tree, reverse(changes))
    assert contents(tree) == before


def test_a_source_that_is_not_utf8_keeps_its_bytes(tree) -> None:
    (tree / "net/x.c").write_bytes(b"one\ntwo\nthree\n\xe9\x0c\x85 end")
    apply_changes(tree, parse_diff(ALL_KINDS))
    assert (tree / "net/x.c").read_bytes() == b"one\n2\nthree\n\xe9\x0c\x85 end"


def test_a_file_keeps_its_mode(tree) -> None:
    (tree / "net/x.c").chmod(0o640)
    apply_changes(tree, parse_diff(ALL_KINDS))
    assert (tree / "net/x.c").stat().st_mode & 0o777 == 0o640


def test_one_hunk_that_does_not_fit_leaves_every_file_as_it_was(tree) -> None:
    error = failure(tree, ALL_KINDS.replace("-bye", "-byes"))
    assert error.path == "net/gone.c"


@pytest.mark.parametrize(
    ("diff", "reason"),
    [
        ("--- a/net/no.c\n+++ b/net/no.c\n@@ -1 +1 @@\n-a\n+b\n", "no such file"),
        ("--- /dev/null\n+++ b/net/x.c\n@@ -0,0 +1 @@\n+b\n", "there already"),
        ("--- /dev/null\n+++ b/new/x.c\n@@ -0,0 +1 @@\n+b\n", "folder is not there"),
        ("--- a/net/x.c\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n", "more lines"),
        ("--- a/net/x.c/y.c\n+++ b/net/x.c/y.c\n@@ -1 +1 @@\n-a\n+b\n", "no folder"),
        ("--- a/net\n+++ b/net\n@@ -1 +1 @@\n-a\n+b\n", "no regular file"),
        (
            "--- a/net/x.c\n+++ b/net/x.c\n@@ -1 +1 @@\n-one\n+b\n\\ No newline at end of file\n",
            "without newline inside",
        ),
    ],
)
def test_a_patch_that_does_not_fit_the_tree_says_why(tree, diff, reason) -> None:
    assert reason in failure(tree, diff).reason


def test_a_symbolic_link_in_the_tree_is_never_followed(tree, tmp_path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "x.c").write_text("one\ntwo\nthree\n")
    (tree / "link").symlink_to(secret)
    (tree / "net/file.c").symlink_to(secret / "x.c")
    edit = "@@ -1,2 +1,2 @@\n one\n-two\n+2\n"

    assert "symbolic link" in failure(tree, f"--- a/link/x.c\n+++ b/link/x.c\n{edit}").reason
    assert "no regular file" in failure(tree, f"--- a/net/file.c\n+++ b/net/file.c\n{edit}").reason
    assert (secret / "x.c").read_text() == "one\ntwo\nthree\n"
    new = "--- /dev/null\n+++ b/link/new.c\n@@ -0,0 +1 @@\n+b\n"
    assert "symbolic link" in failure(tree, new).reason


def test_a_path_out_of_the_tree_is_never_looked_at(tree, tmp_path) -> None:
    outside = tmp_path / "outside.c"
    os.mkfifo(outside)  # whoever reads it waits for ever
    for path in (str(outside), f"../../../../../..{outside}"):
        edit = f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-one\n+two\n"
        assert "out of the tree" in failure(tree, edit).reason
        new = f"--- /dev/null\n+++ b/{path}.new\n@@ -0,0 +1 @@\n+b\n"
        assert "out of the tree" in failure(tree, new).reason


def test_a_link_to_nowhere_is_in_the_way_of_a_new_file(tree) -> None:
    (tree / "net/dangling.c").symlink_to("/nowhere")
    new = "--- /dev/null\n+++ b/net/dangling.c\n@@ -0,0 +1 @@\n+b\n"
    assert "there already" in failure(tree, new).reason


def test_a_full_disk_leaves_the_tree_as_it_was(tree, monkeypatch) -> None:
    before = contents(tree)

    def full(descriptor: int, mode: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("icml.kenv.apply.os.fchmod", full)
    with pytest.raises(OSError, match="No space"):
        apply_changes(tree, parse_diff(ALL_KINDS))
    assert contents(tree) == before


def test_looking_at_a_patch_writes_nothing(tree) -> None:
    before = contents(tree)
    found = patched_files(tree, parse_diff(ALL_KINDS))
    assert contents(tree) == before
    assert found["net/x.c"].new == "one\n2\nthree\n"
    assert (found["net/gone.c"].new, found["net/moved.c"].old) == (None, None)
    assert found["net/old.c"].removed == [1]
