"""Every hostile patch is refused by name."""

import time
from contextlib import suppress

import pytest

from icml.kenv.models import Patch
from icml.kenv.patch import PatchRejected
from icml.kenv.policy import Policy


def edit(path: str, line: str = "c", *, head: str = "") -> Patch:
    return Patch(diff=f"{head}--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-a\n+{line}\n")


def rejection(patch: Patch, **policy) -> PatchRejected:
    with pytest.raises(PatchRejected) as caught:
        Policy(**policy).check(patch)
    assert caught.value.kind == "patch_rejected"
    return caught.value


def test_an_honest_patch_passes() -> None:
    (change,) = Policy(scope=("net/phonet",)).check(edit("net/phonet/socket.c"))
    assert change.paths == ("net/phonet/socket.c",)


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/net/x.c",
        "../x.c",
        "net/../../x.c",
        "net/./x.c",
        ".git/hooks/x.c",
        "net/.GIT/x.c",
        "net\\x.c",
        "net/x\x1b.c",
        "net/é.c",
        "net//x.c",
        "net/x.c;rm",
        "$(id).c",
    ],
)
def test_a_path_that_could_leave_the_tree_is_refused(path) -> None:
    assert "path" in rejection(edit(path)).reason


@pytest.mark.parametrize(
    "path",
    [
        "Makefile",
        "net/phonet/Makefile",
        "net/Kconfig",
        "net/Kbuild",
        "Kbuild.include",
        "scripts/mod/modpost.c",
        "tools/objtool/check.c",
        "usr/gen_init_cpio.c",
        "net/run.sh",
        "net/gen.py",
        "net/x.mk",
    ],
)
def test_a_file_that_runs_on_the_host_is_refused(path) -> None:
    assert "runs on the host" in rejection(edit(path)).reason


@pytest.mark.parametrize("path", ["README", "net/x.txt", "net/x.o", "net/x.c.orig", "net/x.rs"])
def test_a_file_that_is_no_source_is_refused(path) -> None:
    assert ".c, .h, .S" in rejection(edit(path)).reason


def test_a_patch_out_of_scope_is_refused_with_the_scope() -> None:
    error = rejection(edit("net/phonetx/socket.c"), scope=("net/phonet",))
    assert "only net/phonet is built" in error.reason
    assert error.path == "net/phonetx/socket.c"


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        ("new file mode 120000\n", "symbolic links"),
        ("new file mode 160000\n", "submodules"),
        ("index 111..222 120000\n", "symbolic links"),
        ("index 111..222 160000\n", "submodules"),
        ("new file mode 100755\n", "100755"),
        ("old mode 100644\nnew mode 100755\n", "mode"),
        ("old mode 100755\nnew mode 100644\n", "mode"),
        ("copy from net/y.c\n", "copies"),
        ("GIT binary patch\nliteral 3\nabc\n", "binary"),
        ("Binary files a/net/x.c and b/net/x.c differ\n", "binary"),
    ],
)
def test_what_is_no_plain_change_of_text_is_refused(head, reason) -> None:
    git = f"diff --git a/net/x.c b/net/x.c\n{head}"
    assert reason in rejection(edit("net/x.c", head=git)).reason


def test_a_bare_binary_change_is_refused() -> None:
    assert "binary" in rejection(Patch(diff="Binary files a/x.c and b/x.c differ\n")).reason


@pytest.mark.parametrize(
    "line",
    [
        '#include "/etc/passwd"',
        "#include </etc/passwd>",
        '# include "/etc/passwd"',
        '#/**/include/**/"/etc/passwd"',
        '/**/#include "/etc/passwd"',
        '%:include "/etc/passwd"',
        '#include "../../etc/passwd"',
        "#include <../etc/passwd>",
        '#include_next "/etc/passwd"',
        '#import "/etc/passwd"',
        "#include SECRET",
        '#embed "/etc/passwd"',
        'asm(".incbin \\"/etc/passwd\\"");',
        'asm(".inc" "bin \\"/etc/passwd\\"");',
        'asm(".include \\"/etc/passwd\\"");',
        '#pragma GCC dependency "/etc/passwd"',
        "# /* a directive in two lines",
        '*/ #include "/etc/passwd"',
    ],
)
def test_a_line_that_makes_the_compiler_read_a_file_is_refused(line) -> None:
    assert "read a file" in rejection(edit("net/x.c", line)).reason


def test_a_directive_continued_on_the_next_line_is_seen() -> None:
    diff = '--- a/x.c\n+++ b/x.c\n@@ -1 +1,2 @@\n-a\n+#inc\\\n+lude "/etc/passwd"\n'
    assert "read a file" in rejection(Patch(diff=diff)).reason


@pytest.mark.parametrize(
    "line",
    [
        "#include <linux/slab.h>",
        '#include "socket.h"',
        '#include "../core/dev.h" /* for x */',
        "#define STR(x) #x",
        "#define include_it 1",
        "#ifdef CONFIG_X",
        "/* include # of things */ int included;",
        "pn->incbin = 1;",
    ],
)
def test_ordinary_code_is_let_through(line) -> None:
    assert Policy().check(edit("net/phonet/socket.c", line))


def test_a_request_that_was_there_before_is_no_fault_of_the_patch() -> None:
    diff = '--- a/x.S\n+++ b/x.S\n@@ -1,2 +1,2 @@\n .incbin "y"\n-a\n+b\n'
    assert Policy().check(Patch(diff=diff))


def test_sizes_are_bounded() -> None:
    assert "bytes" in rejection(edit("x.c", "c" * 2**20)).reason
    assert "bytes" in rejection(edit("x.c", "é" * 2**19)).reason
    many = "".join(edit(f"f{i}.c").diff for i in range(51))
    assert "51 files" in rejection(Patch(diff=many)).reason
    hunks = "".join(f"@@ -{i} +{i} @@\n-a\n+b\n" for i in range(1, 1002))
    assert "hunks" in rejection(Patch(diff=f"--- a/x.c\n+++ b/x.c\n{hunks}")).reason


def test_a_file_changed_twice_is_refused() -> None:
    assert "twice" in rejection(Patch(diff=edit("x.c").diff * 2)).reason


def test_either_name_of_a_renamed_file_is_checked() -> None:
    moved = "diff --git a/x.c b/Makefile\nrename from x.c\nrename to Makefile\n"
    assert "host" in rejection(Patch(diff=moved)).reason


@pytest.mark.parametrize("unit", ["/*", '"', "#", "# include", "*/ #", '" "', "\\", "%:", ". inc"])
def test_a_megabyte_of_traps_is_judged_within_two_seconds(unit) -> None:
    start = time.process_time()
    for text in (unit * (900_000 // len(unit)), f"{unit}\n+" * (900_000 // (len(unit) + 2))):
        count = text.count("\n") + 1
        diff = f"--- a/x.c\n+++ b/x.c\n@@ -1 +1,{count} @@\n-a\n+{text}\n"
        with suppress(PatchRejected):
            Policy().check(Patch(diff=diff))
    assert time.process_time() - start <= 4
