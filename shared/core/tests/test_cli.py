import subprocess
import sys
from importlib.metadata import version

import pytest

from icml.core.cli import main
from icml.core.reproduce_all import ICML
from icml.core.testing import check_is_light, measure_icml


def test_bare_command_lists_papers_and_own_commands(tiny) -> None:
    done = tiny.icml()
    assert done.returncode == 0
    assert "  tiny  Tiny: a paper of one page.\n" in done.stdout
    for command in ("doctor", "report", "reproduce"):
        assert f"\n  {command} " in done.stdout


def test_help_says_the_same_as_the_bare_command(tiny) -> None:
    assert tiny.icml("--help").stdout == tiny.icml("-h").stdout == tiny.icml().stdout


def test_every_own_command_in_the_help_exists() -> None:
    from icml.core.cli import CORE_COMMANDS
    from icml.core.commands import app

    assert CORE_COMMANDS.keys() == app.keys()


def test_help_without_papers_says_how_to_install_one(site) -> None:
    assert "pip install icml-gdpo" in site.icml().stdout


def test_help_is_light(tiny) -> None:
    check_is_light(["--help"], seconds=0.15, env=tiny.env)  # DESIGN.md, section 1


def test_help_imports_no_paper_and_no_parser(tiny) -> None:
    modules = measure_icml("--help", env=tiny.env).modules
    assert not modules & {"tyro", "dataclasses", "icml.tiny"}


def test_help_of_a_paper_is_light(tiny) -> None:
    check_is_light(["tiny", "--help"], seconds=0.5, env=tiny.env)


def test_version_is_that_of_core(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"icml-core {version('icml-core')}\n"


def test_unknown_paper_suggests_a_close_name(tiny) -> None:
    done = tiny.icml("tny")
    assert done.returncode == 2
    assert done.stderr == "icml: no paper named 'tny' is installed; did you mean 'tiny'?\n"


def test_unknown_paper_suggests_installing_it(tiny) -> None:
    done = tiny.icml("video-opd", "reproduce")
    assert done.returncode == 2
    assert done.stderr.endswith("is installed; try: pip install icml-video-opd\n")
    assert done.stderr.count("\n") == 1


def test_unknown_option_is_not_taken_for_a_paper(tiny) -> None:
    done = tiny.icml("--fast")
    assert done.returncode == 2
    assert done.stderr == "icml: icml has no option --fast; see `icml --help`\n"


@pytest.mark.parametrize("args", [["tiny"], ["tiny", "--help"], ["tiny", "-h"]])
def test_paper_alone_lists_its_commands(tiny, args: list[str]) -> None:
    done = tiny.icml(*args)
    assert done.returncode == 0
    assert "Tiny: a paper of one page." in done.stdout
    assert "\n  count      Count the steps.\n" in done.stdout


def test_unknown_command_of_a_paper_suggests_a_close_one(tiny) -> None:
    done = tiny.icml("tiny", "cuont")
    assert done.returncode == 2
    assert done.stderr == "icml: icml tiny has no command 'cuont'; did you mean 'count'?\n"


def test_command_runs_with_its_options(tiny) -> None:
    done = tiny.spawn("tiny", "count", "--steps", "7")
    assert (done.returncode, done.stdout, done.stderr) == (0, "counted 7\n", "")


def test_status_of_a_command_is_that_of_icml(tiny) -> None:
    assert tiny.icml("tiny", "fail").returncode == 1


def test_option_that_does_not_exist_exits_2_without_traceback(tiny) -> None:
    done = tiny.icml("tiny", "count", "--stepz", "7")
    assert done.returncode == 2
    assert "--stepz" in done.stderr
    assert "Traceback" not in done.stderr


def test_value_that_the_options_refuse_is_one_sentence(tiny) -> None:
    done = tiny.icml("tiny", "count", "--steps", "-1")
    assert done.returncode == 2
    assert done.stderr == "icml: icml tiny count: steps must be >= 0, got -1\n"


@pytest.mark.parametrize("second", [["--steps", "4"], ["--steps=4"]])
def test_an_option_given_twice_is_refused(tiny, second: list[str]) -> None:
    done = tiny.icml("tiny", "count", "--steps", "3", *second)
    assert done.returncode == 2
    assert "icml tiny count: --steps is given twice; give it once" in done.stderr


def test_user_error_is_one_sentence(tiny) -> None:
    done = tiny.spawn("tiny", "mend")
    assert (done.returncode, done.stderr) == (2, "icml: the file is upside down: turn it\n")


def test_missing_extra_gives_the_install_line(tiny) -> None:
    done = tiny.icml("tiny", "need")
    assert done.returncode == 2
    assert done.stderr.endswith("pip install 'icml-tiny[dreams]'\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "args", [["--debug", "tiny", "mend"], ["tiny", "--debug", "mend"], ["tiny", "mend", "--debug"]]
)
def test_debug_anywhere_shows_the_traceback(tiny, args: list[str]) -> None:
    done = tiny.icml(*args)
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert done.stderr.endswith("icml: the file is upside down: turn it\n")


def test_debug_shows_where_the_options_were_refused(tiny) -> None:
    assert "in __post_init__" in tiny.icml("tiny", "count", "--steps=-1", "--debug").stderr


def test_full_disk_is_one_sentence(tiny) -> None:
    done = tiny.icml("tiny", "fill")
    assert (done.returncode, done.stderr) == (2, "icml: No space left on device\n")


def test_missing_file_that_the_user_named_is_one_sentence(tiny) -> None:
    done = tiny.icml("tiny", "read", "--out", "nowhere.txt")
    assert done.returncode == 2
    assert done.stderr == "icml: No such file or directory: nowhere.txt\n"


@pytest.mark.parametrize("command", ["lose", "value"])
def test_any_other_error_is_our_bug(tiny, command: str) -> None:
    done = tiny.icml("tiny", command)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "this is a bug" in done.stderr
    assert f"icml tiny {command}" in done.stderr


def test_interruption_exits_130_without_traceback(tiny) -> None:
    done = tiny.icml("tiny", "interrupt")
    assert done.returncode == 130
    assert "Traceback" not in done.stderr


def test_reader_that_leaves_early_is_no_error(tiny) -> None:
    command = [*ICML, "tiny", "chat"]
    with subprocess.Popen(
        command, env=tiny.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.readline()
        child.stdout.close()
        assert child.stderr.read() == b""
    assert child.returncode == 141


def test_reader_that_never_reads_the_help_is_no_error(tiny) -> None:
    with subprocess.Popen(
        ICML, env=tiny.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        assert child.stderr.read() == b""
    assert child.returncode == 141


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_stream_is_no_error(tiny, closed: str) -> None:
    shell = ["sh", "-c", f'"$@" {closed}', "sh", *ICML]
    done = subprocess.run(shell, env=tiny.env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_character_that_the_terminal_lacks_does_not_end_a_command(tiny) -> None:
    tiny_env = {**tiny.env, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run([*ICML, "tiny", "shout"], env=tiny_env, capture_output=True, check=True)
    assert done.stdout == b"? 1\n"


def test_broken_paper_stays_in_the_list(tiny) -> None:
    tiny.add("broken", "import a_module_that_is_not_there", summary="Broken: it was once whole.")
    done = tiny.icml("--help")
    assert done.returncode == 0
    assert "broken  Broken: it was once whole." in done.stdout
    assert "tiny    Tiny" in done.stdout


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import a_module_that_is_not_there", "ModuleNotFoundError: No module named 'a_module"),
        ("app = {", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("nothing = 1", "AttributeError"),
    ],
)
def test_broken_paper_says_which_distribution_and_why(site, source: str, reason: str) -> None:
    site.add("broken", source)
    done = site.icml("broken", "reproduce")
    assert done.returncode == 2
    assert done.stderr.startswith("icml: icml-broken 0.3.0 is installed but fails to import")
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1


def test_two_papers_of_one_name_are_listed_once_and_refused(tiny) -> None:
    tiny.add("tiny", "app = {}", distribution="icml-teeny")
    assert tiny.icml().stdout.count("\n  tiny ") == 1
    done = tiny.icml("tiny", "count")
    assert done.returncode == 2
    assert "icml-teeny 0.3.0 and icml-tiny 0.3.0 both claim `icml tiny`" in done.stderr


def test_paper_without_commands_says_so(site) -> None:
    site.add("empty", "app = {}")
    assert "none yet" in site.icml("empty").stdout


def test_words_after_two_dashes_are_left_alone(tiny) -> None:
    assert "Traceback" not in tiny.icml("tiny", "mend", "--", "--debug").stderr


def test_a_command_may_have_two_words(monkeypatch) -> None:
    from icml.core import cli

    called = []
    monkeypatch.setattr(cli, "load_app", lambda name: {"bugs": 1, "bugs mine": 2})
    monkeypatch.setattr(cli, "call", lambda c, args, *, prog: called.append((c, args, prog)))
    for words in (["bugs", "mine", "a"], ["bugs", "omfs"], ["bugs"]):
        cli.dispatch(["kenv", *words])
    assert called == [
        (2, ["a"], "icml kenv bugs mine"),
        (1, ["omfs"], "icml kenv bugs"),
        (1, [], "icml kenv bugs"),
    ]
