import pytest

from icml.core.errors import UserError
from icml.kenv import worktree
from icml.kenv.models import KernelSource, PublicBug, Reproducer, Verdict
from icml.kenv.session import Session

SOURCE = b"int f(void)\n{\n\treturn 0; /* caf\xe9 */\n}\nint g(void);\n"


@pytest.fixture
def session(tmp_path):
    (tmp_path / "tree/net/x").mkdir(parents=True)
    (tmp_path / "tree/net/x/x.c").write_bytes(SOURCE)
    (tmp_path / "tree/net/x/Makefile").write_text("obj-m := x.o\n")
    bug = PublicBug(
        id="x-bug",
        title="kernel BUG in f",
        crash_type="BUG",
        source=KernelSource(kind="deb", ref="linux-source-6.1", version="6.1.170-3"),
        directory="net/x",
        crash_report="",
        reproducers=[Reproducer(text="int main(void) { return 0; }")],
    )
    return Session(
        bug,
        tmp_path / "tree",
        tmp_path / "worktree",
        evaluate=lambda patch: Verdict(kind="crash_same", backend="module"),
    )


def test_lines_are_read_with_their_numbers(session) -> None:
    told = worktree.read_lines(session, "net/x/x.c", 2, 2).split("\n")
    assert told[0] == "net/x/x.c, lines 2-3 of 6"
    assert told[1] == "    2 {"
    assert told[2].startswith("    3 \treturn 0;")
    assert len(told) == 3


def test_a_text_is_found_with_file_and_line(session) -> None:
    assert worktree.find(session, "int g") == "net/x/x.c:5: int g(void);"
    assert worktree.find(session, "nowhere") == "'nowhere' is in no source"
    with pytest.raises(UserError, match="not empty"):
        worktree.find(session, " ")


def test_only_so_many_hits_are_told(session) -> None:
    (session.worktree / "net/x/x.c").write_text("int a;\n" * 100)
    lines = worktree.find(session, "int a").split("\n")
    assert (len(lines), lines[-1]) == (worktree.MOST_HITS + 1, "and 40 more")


def test_an_edit_changes_one_place_and_keeps_foreign_bytes(session) -> None:
    worktree.edit(session, "net/x/x.c", "return 0;", "return -1; /* é */")
    now = (session.worktree / "net/x/x.c").read_bytes()
    assert now == SOURCE.replace(b"return 0;", "return -1; /* é */".encode())


def test_a_new_source_can_be_made(session) -> None:
    worktree.edit(session, "net/x/new/n.h", "", "int n;\n")
    assert (session.worktree / "net/x/new/n.h").read_text() == "int n;\n"
    assert "net/x/new/n.h" in session.diff()


@pytest.mark.parametrize(
    ("old", "reason"),
    [("void", "occurs 2 times"), ("nowhere", "occurs 0 times"), ("", "is there")],
)
def test_an_edit_that_is_not_clear_is_refused(session, old, reason) -> None:
    with pytest.raises(UserError, match=reason):
        worktree.edit(session, "net/x/x.c", old, "y")
    assert (session.worktree / "net/x/x.c").read_bytes() == SOURCE


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd.c",
        "../outside.c",
        "net/../../outside.c",
        "net/x/link.c",
        "net/gate/x.c",
        "a\0.c",
    ],
)
def test_nothing_outside_of_the_worktree_is_read_or_written(session, tmp_path, path) -> None:
    (tmp_path / "outside.c").write_text("secret")
    (tmp_path / "elsewhere").mkdir()
    (session.worktree / "net/x/link.c").symlink_to(tmp_path / "outside.c")
    (session.worktree / "net/gate").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="not in the worktree"):
        worktree.read_lines(session, path)
    with pytest.raises(UserError, match="not in the worktree"):
        worktree.edit(session, path, "", "x")
    assert (tmp_path / "outside.c").read_text() == "secret"
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_other_files_are_neither_read_nor_edited(session) -> None:
    for call in (worktree.read_lines, lambda s, p: worktree.edit(s, p, "obj", "x")):
        with pytest.raises(UserError, match=r"only \.c, \.h, \.S files"):
            call(session, "net/x/Makefile")


def test_a_file_or_line_that_is_not_there_is_told(session) -> None:
    with pytest.raises(UserError, match=r"no net/x/y\.c; the sources are net/x/x\.c"):
        worktree.read_lines(session, "net/x/y.c")
    with pytest.raises(UserError, match="lines 1 to 6, got start 9"):
        worktree.read_lines(session, "net/x/x.c", 9)
