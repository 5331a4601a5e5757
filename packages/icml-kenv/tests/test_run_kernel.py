"""The shell tool in real git trees; its server is asked in test_server and test_real_surfaces."""

import os
import subprocess
from pathlib import Path

import pytest

from icml.core.errors import UserError
from icml.kenv.models import VERDICT_KINDS, Patch
from icml.kenv.run_kernel import EXIT, edited, main
from icml.kenv.session import diff_texts, source_texts

SOURCE = "int f(void)\n{\n\treturn 0;\n}\n"


def git(folder: Path, *command: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *identity, *command], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    root = tmp_path / "tree"
    (root / "net/x").mkdir(parents=True)
    (root / "net/x/x.c").write_text(SOURCE)
    (root / "net/x/y.h").write_text("int y;\n")
    (root / ".gitignore").write_text("*.o\n*.mod.c\n")
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "base")
    return root


def test_what_is_sent_is_what_the_session_would_send(tree) -> None:
    before = source_texts(tree)
    (tree / "net/x/x.c").write_text(SOURCE.replace("0", "1"))
    (tree / "net/x/new.c").write_text("int é;\n")
    (tree / "net/x/y.h").unlink()
    assert edited(tree) == diff_texts(before, source_texts(tree))
    assert Patch(diff=edited(tree)).files == ["net/x/new.c", "net/x/x.c", "net/x/y.h"]


def test_git_reads_what_is_sent_as_the_same_edit(tree, tmp_path) -> None:
    (tree / "net/x/x.c").write_text(SOURCE + "int last;")  # no newline at its end
    (tree / "net/x/z.S").write_text("nop\n")
    diff = edited(tree)
    git(tree, "clone", "-q", str(tree), str(tmp_path / "clone"))
    subprocess.run(["git", "apply", "-"], cwd=tmp_path / "clone", input=diff, text=True, check=True)
    assert source_texts(tmp_path / "clone") == source_texts(tree)


def test_build_products_links_and_other_files_stay_behind(tree) -> None:
    (tree / "net/x/x.o").write_bytes(b"\x7fELF")
    (tree / "net/x/x.mod.c").write_text("generated\n")
    (tree / "net/x/Makefile").write_text("all:\n")
    (tree / "net/x/link.c").symlink_to("/etc/passwd")
    assert edited(tree) == ""


@pytest.mark.parametrize("where", ["net/x", "."])
def test_commits_of_the_agent_count_where_the_base_is_tagged(tree, where) -> None:
    git(tree, "tag", "kenv-base")
    (tree / "net/x/x.c").write_text(SOURCE.replace("0", "1"))
    git(tree, "commit", "-qam", "my fix")
    assert "+\treturn 1;" in edited(tree / where)


def test_a_users_configuration_of_git_changes_nothing(tree) -> None:
    (tree / "net/x/x.c").write_text(SOURCE.replace("0", "1"))
    plain = edited(tree)
    for name, value in {
        "diff.noprefix": "true",
        "color.ui": "always",
        "diff.external": "false",
    }.items():
        git(tree, "config", name, value)
    assert edited(tree) == plain != ""


def test_outside_of_a_tree_it_says_so(tmp_path, monkeypatch) -> None:
    # The temporary folder may lie in a repository.
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(UserError, match="git rev-parse failed in"):
        edited(tmp_path)


def test_every_verdict_has_an_exit_status() -> None:
    assert set(EXIT) == set(VERDICT_KINDS)
    assert [kind for kind, status in EXIT.items() if status == 0] == ["plausible"]


def test_without_its_variables_or_its_server_it_says_what_is_missing(
    tree, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tree)
    for name in ("KENV_URL", "KENV_SESSION", "KENV_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    assert main([]) == 2
    assert "set KENV_URL, KENV_SESSION, KENV_TOKEN" in capsys.readouterr().err
    monkeypatch.setenv("KENV_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("KENV_SESSION", "a")
    monkeypatch.setenv("KENV_TOKEN", "a.b")
    assert main([]) == 30
    assert "no answer from http://127.0.0.1:9" in capsys.readouterr().err


def test_the_diff_can_be_looked_at_without_a_server(tree, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tree)
    (tree / "net/x/x.c").write_text(SOURCE.replace("0", "1"))
    assert main(["--diff"]) == 0
    assert capsys.readouterr().out == edited(Path(os.curdir))
