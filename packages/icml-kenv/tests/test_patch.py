import os
import subprocess

import pytest
from unidiff import PatchSet

from icml.kenv.models import Patch
from icml.kenv.patch import PatchRejected, parse_diff

EDIT = "--- a/net/x.c\n+++ b/net/x.c\n@@ -1,3 +1,3 @@ int f(void)\n a\n-b\n+c\n d\n"
GIT = f"""From 1234 Mon Sep 17 00:00:00 2001
Subject: [PATCH] a message

--- it has a line like this
---
 net/x.c | 2 +-

diff --git a/net/x.c b/net/x.c
index 111..222 100644
{EDIT}diff --git a/net/new.c b/net/new.c
new file mode 100644
index 000..111
--- /dev/null
+++ b/net/new.c
@@ -0,0 +1 @@
+int n;
diff --git a/net/gone.c b/net/gone.c
deleted file mode 100644
index 111..000
--- a/net/gone.c
+++ /dev/null
@@ -1,2 +0,0 @@
-one
-two
diff --git a/net/old.c b/net/moved.c
similarity index 100%
rename from net/old.c
rename to net/moved.c
-- 
2.39.5
"""


def refused(diff: str) -> PatchRejected:
    with pytest.raises(PatchRejected) as caught:
        parse_diff(diff)
    return caught.value


def test_a_patch_mail_gives_every_kind_of_change() -> None:
    names = [(change.old_path, change.new_path) for change in parse_diff(GIT)]
    assert names == [
        ("net/x.c", "net/x.c"),
        (None, "net/new.c"),
        ("net/gone.c", None),
        ("net/old.c", "net/moved.c"),
    ]


def test_counts_agree_with_gits_own(tmp_path) -> None:
    (tmp_path / "p.diff").write_text(GIT)
    # The temporary folder may lie in a repository: there git would skip files of other folders.
    outside = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
    command = ["git", "apply", "--numstat", "p.diff"]
    listed = subprocess.run(command, cwd=tmp_path, env=outside, check=True, capture_output=True)
    # git prints "added removed path", for a renamed file its new name
    wanted = [line.split("\t") for line in listed.stdout.decode().splitlines()]
    found = [
        [str(len(c.added_lines)), str(len(c.removed_lines)), c.paths[-1]] for c in parse_diff(GIT)
    ]
    assert found == wanted


def test_files_and_counts_agree_with_unidiff() -> None:
    patch, peer = Patch(diff=GIT), PatchSet(GIT)
    assert set(patch.files) == {file.path for file in peer} | {"net/old.c"}
    assert (patch.added, patch.removed) == (peer.added, peer.removed)
    assert patch.hunks == sum(len(file) for file in peer)


def test_a_plain_diff_without_prefixes_and_with_times_is_read() -> None:
    plain = "--- net/x.c\t2026-01-01 00:00\n+++ net/x.c\t2026-01-02\n@@ -1 +1 @@\n-a\n+b\n"
    (change,) = parse_diff(plain)
    assert change.paths == ("net/x.c",)


def test_the_mark_for_a_missing_newline_belongs_to_the_line_above() -> None:
    text = "--- a/x.c\n+++ b/x.c\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n"
    (change,) = parse_diff(text)
    assert change.hunks[0].lines == (("-", "a"), ("+", "b\n"))


def test_a_blank_line_in_a_hunk_is_an_empty_line_of_context() -> None:
    (change,) = parse_diff("--- a/x.c\n+++ b/x.c\n@@ -1,3 +1,3 @@\n a\n\n-b\n+c")
    assert change.hunks[0].old == ["a\n", "\n", "b\n"]


@pytest.mark.parametrize("diff", ["", "\n", " \n\t\n"])
def test_an_empty_patch_has_a_kind_of_its_own(diff) -> None:
    assert refused(diff).kind == "patch_empty"


@pytest.mark.parametrize(
    ("diff", "reason", "line"),
    [
        ("I could not find the bug, sorry.", "no file header", 1),
        (EDIT.replace("\n", "\r\n"), "write LF line ends", 1),
        (EDIT.replace("+c", "+c\0"), "NUL", 6),
        (EDIT.replace("+c", "+\ud800"), "not UTF-8", None),
        (EDIT + "+d\n", "after the end of the hunk", 8),
        (EDIT.replace(" d\n", ""), "ends before", 6),
        (EDIT.replace("+c\n", ""), "ends before", 6),
        (EDIT.replace("+c\n", "+c\n+e\n"), "other lines than its header", 8),
        (EDIT.replace(" a\n", "?a\n"), "other lines than its header", 4),
        ("--- a/x.c\n+++ b/x.c\n", "no hunk follows", 3),
        ("--- a/x.c\n+++ b/x.c\n@@ -1 +1\n-a\n+b\n", "no hunk follows|broken", 3),
        ("@@ -1 +1 @@\n-a\n+b\n", "without a file header", 1),
        ("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", "both sides", 1),
        ("--- a/x.c\n+++ b/x.c\n@@ -1,2 +1,2 @@\n a\n b\n", "changes nothing", 5),
        ("diff --git a/x.c b/x.c\n", "nothing after it", 1),
        ('diff --git "a/\\303.c" "b/\\303.c"\n', "quotes and blanks", 1),
        (f"diff --git a/other.c b/other.c\n{EDIT}", "name others", 2),
        (f"diff --git a/net/x.c b/net/x.c\nsurprise\n{EDIT}", "cannot read 'surprise'", 2),
    ],
)
def test_what_is_no_diff_is_refused_with_its_line(diff, reason, line) -> None:
    error = refused(diff)
    assert error.kind == "patch_invalid"
    assert error.line == line
    with pytest.raises(PatchRejected, match=reason):
        raise error


def test_a_lenient_reader_would_drop_a_line_that_ours_refuses() -> None:
    # why unidiff is the peer of a test and not the reader: it skips the line without a word
    surplus = "--- a/x.c\n+++ b/x.c\n@@ -1 +1 @@\n-a\n+b\n+evil\n"
    assert "evil" not in str(PatchSet(surplus))
    assert refused(surplus).line == 6
