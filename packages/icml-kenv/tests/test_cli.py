import json
from pathlib import Path

import pytest

from icml.core.testing import check_help_is_light, run_icml
from icml.kenv import Bug
from icml.kenv.bugs import bug_ids, load_bug

CONSOLES = Path(__file__).parent / "consoles"
OLD = "int f(int a)\n{\n\tBUG_ON(a);\n\treturn 0;\n}\n"
HEAD = "--- a/net/x.c\n+++ b/net/x.c\n@@ -3 +3 @@\n-\tBUG_ON(a);\n"


def test_help_is_light_and_names_the_commands() -> None:
    check_help_is_light("kenv")
    shown = run_icml("kenv", "--help").stdout
    assert all(name in shown for name in ("reproduce", "bugs", "parse", "compare"))


def test_parse_shows_a_crash_as_text_and_as_json() -> None:
    log = str(CONSOLES / "phonet-unpatched.txt")
    shown = run_icml("kenv", "parse", log).stdout
    assert shown.startswith("1. kernel BUG in pn_socket_autobind\n")
    assert "in repro (process 86)" in shown
    assert "it ended in a panic" in shown
    assert "pn_socket_autobind [phonet] < pn_socket_sendmsg [phonet] < __sock_sendmsg" in shown

    found = json.loads(run_icml("kenv", "parse", log, "--json").stdout)
    assert found["title"] == "kernel BUG in pn_socket_autobind"


def test_parse_tells_a_console_without_a_crash_by_its_exit() -> None:
    ended = run_icml("kenv", "parse", str(CONSOLES / "phonet-fixed.txt"))
    assert (ended.returncode, ended.stdout) == (1, "no crash\n")


def test_a_log_that_is_not_there_is_one_sentence() -> None:
    ended = run_icml("kenv", "parse", "/no/such/log")
    assert ended.returncode == 2
    assert "cannot read /no/such/log: No such file" in ended.stderr


@pytest.fixture
def compared(tmp_path):
    (tmp_path / "net").mkdir()
    (tmp_path / "net/x.c").write_text(OLD)

    def run(patch: str, fix: str):
        for name, text in (("patch", patch), ("fix", fix)):
            (tmp_path / name).write_text(text)
        names = [str(tmp_path / name) for name in ("patch", "fix")]
        return run_icml("kenv", "compare", *names, "--tree", str(tmp_path))

    return run


def test_compare_proves_equal_text_and_scores_the_rest(compared) -> None:
    fix = f"{HEAD}+\tif (a) return -22;\n"
    same = compared(f"{HEAD}+\tif ( a ) return -22; /* x */\n", fix)
    assert same.stdout.splitlines()[0] == "equivalent (identical text)"
    other = compared(f"{HEAD}+\tWARN_ON(a);\n", fix)
    assert other.stdout.splitlines()[:3] == [
        "unknown (structural)",
        "  file iou          1.00",
        "  function iou      1.00",
    ]


def test_compare_refuses_what_is_no_diff(compared) -> None:
    ended = compared("sorry", f"{HEAD}+\treturn 1;\n")
    assert ended.returncode == 2
    assert "no file header" in ended.stderr


def test_an_unknown_bug_is_one_sentence_with_the_known_ones() -> None:
    ended = run_icml("kenv", "bugs", "nonsense")
    assert ended.returncode == 2
    assert "no bug 'nonsense': there are" in ended.stderr


@pytest.mark.parametrize("runs", ["0", "-3"])
def test_a_number_of_boots_that_shows_nothing_is_refused(runs) -> None:
    ended = run_icml("kenv", "eval", "phonet-autobind", "--fix", "--runs", runs)
    assert ended.returncode == 2
    assert f"--runs must be at least 1, got {runs}" in ended.stderr


def test_one_command_fetches_and_the_doctor_only_looks() -> None:
    ended = run_icml("kenv", "doctor", "--fetch")
    assert ended.returncode == 2
    assert "Unrecognized options: --fetch" in ended.stdout + ended.stderr


def test_packages_from_a_folder_that_is_not_there_are_refused() -> None:
    ended = run_icml("kenv", "fetch", "--debs", "/no/such/folder")
    assert ended.returncode == 2
    assert "/no/such/folder is no folder" in ended.stderr


@pytest.fixture
def shelf(tmp_path):
    home = tmp_path / "x-bug"
    home.mkdir()
    record = {
        "id": "x-bug",
        "title": "kernel BUG in f",
        "crash_type": "BUG",
        "source": {"kind": "deb", "ref": "linux-source-6.1", "version": "6.1.1"},
        "directory": "net/x",
        "reproducers": [{"repeat": 2}],
    }
    (home / "bug.json").write_text(json.dumps(record))
    (home / "reproducer.c").write_text("int main(void) { return 0; }\n")
    (home / "report.txt").write_text("kernel BUG at net/x/x.c:1!\n")
    return tmp_path


def test_a_bug_is_read_from_its_folder(shelf) -> None:
    assert bug_ids(shelf) == ["x-bug"]
    found = load_bug("x-bug", shelf)
    assert isinstance(found, Bug)
    assert found.reproducers[0].repeat == 2
    assert found.reproducers[0].text.startswith("int main")
    assert found.crash_report.startswith("kernel BUG")


@pytest.mark.parametrize("name", ["bug.json", "reproducer.c", "report.txt"])
def test_a_broken_bug_is_a_sentence_that_names_its_folder(shelf, name) -> None:
    path = shelf / "x-bug" / name
    if name == "bug.json":
        path.write_text("{")
    else:
        path.unlink()
    with pytest.raises(ValueError, match=r"cannot read the bug in .*x-bug"):
        load_bug("x-bug", shelf)


def test_a_bug_that_calls_itself_otherwise_is_refused(shelf) -> None:
    (shelf / "x-bug").rename(shelf / "y-bug")
    with pytest.raises(ValueError, match="calls itself 'x-bug'"):
        load_bug("y-bug", shelf)


@pytest.mark.parametrize("name", ["   ", "a" * 121])
def test_a_name_that_no_row_takes_is_refused_before_a_boot(name, tmp_path) -> None:
    options = ["--results", str(tmp_path / "rows.jsonl"), "--agent", name]
    ended = run_icml("kenv", "eval", "phonet-autobind", "--fix", *options)
    assert ended.returncode == 2
    assert "--agent must have 1 to 120 letters" in ended.stderr
