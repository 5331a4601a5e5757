import json
from pathlib import Path

import pytest

from icml.core.reproduce import ReproduceOptions, conclusion, continuing_command
from icml.core.summary import Claim, Summary, Timing


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "a run"


def summary_of(*claims: Claim) -> Summary:
    timing = Timing(started="", finished="", wall_seconds=0.0, peak_memory_mb=0.0)
    return Summary(
        paper="tally", title="", command="", config={}, seeds=[], versions={}, hardware={},
        git=None, claims=list(claims), tables=[], figures=[], notes=[], timing=timing,
    )  # fmt: skip


def test_run_ends_with_its_claims_and_the_absolute_path_of_its_report(tally, folder: Path) -> None:
    done = tally.icml("tally", "reproduce", "--out", str(folder))
    assert done.returncode == 0
    assert done.stdout.startswith(f"tally, default size, in {folder}\n")
    assert "- holds: The sum is Gauss's (3)\n" in done.stdout
    assert (
        "- not supported at this scale: Counting is fast (0.5 [\N{MINUS SIGN}1.0, 2.0])\n"
        in done.stdout
    )
    assert done.stdout.endswith(f"\nreport: {folder.resolve() / 'report.html'}\n")
    assert (folder / "report.html").is_file()


def test_required_claims_come_first(tally, folder: Path) -> None:
    done = tally.icml("tally", "reproduce", "--out", str(folder))
    assert done.stdout.index("Gauss") < done.stdout.index("fast")


def test_default_folder_is_named_after_paper_and_size(tally, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert tally.icml("tally", "reproduce", "--quick").returncode == 0
    assert (tmp_path / "runs" / "tally" / "quick" / "summary.json").is_file()


def test_finished_run_is_told_again_and_not_computed(tally, folder: Path) -> None:
    first = tally.icml("tally", "reproduce", "--out", str(folder))
    written = (folder / "summary.json").stat().st_mtime_ns
    (folder / "report.html").unlink()
    again = tally.icml("tally", "reproduce", "--out", str(folder))
    assert again.returncode == 0
    assert again.stdout == first.stdout.replace("size, in", "size, already finished in")
    assert (folder / "summary.json").stat().st_mtime_ns == written
    assert (folder / "report.html").is_file()


def test_failed_required_claim_is_said_without_strict(tally, folder: Path, monkeypatch) -> None:
    monkeypatch.setenv("broken", "yes")
    done = tally.icml("tally", "reproduce", "--out", str(folder))
    assert done.returncode == 0
    assert "- FAILED: The sum is Gauss's (3)\n" in done.stdout
    assert "\n1 of 1 required claims FAILED: gauss\n" in done.stdout


def test_failed_required_claim_exits_1_with_strict(tally, folder: Path, monkeypatch) -> None:
    monkeypatch.setenv("broken", "yes")
    command = ["tally", "reproduce", "--strict", "--out", str(folder)]
    assert tally.icml(*command).returncode == 1
    assert tally.icml(*command).returncode == 1  # the finished run says so again
    assert (folder / "report.html").is_file()


def test_strict_ignores_reported_claims(tally, folder: Path) -> None:
    assert tally.icml("tally", "reproduce", "--strict", "--out", str(folder)).returncode == 0


def test_fresh_computes_again_and_keeps_the_old_run(tally, folder: Path) -> None:
    tally.icml("tally", "reproduce", "--out", str(folder))
    done = tally.icml("tally", "reproduce", "--fresh", "--out", str(folder))
    assert done.returncode == 0
    assert "already finished" not in done.stdout
    assert len(list(folder.parent.glob("a run*/summary.json"))) == 2


def test_quick_and_slow_exclude_each_other(tally) -> None:
    done = tally.icml("tally", "reproduce", "--quick", "--slow")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "--quick and --slow exclude each other" in done.stderr


def test_size_that_a_paper_lacks_is_one_sentence(site, folder: Path) -> None:
    source = """
    from icml.core.reproduce import ReproduceOptions, reproduce as drive

    def reproduce(options: ReproduceOptions) -> int:
        return drive("short", title="", sizes={"quick": 1, "default": 2}, experiment=print,
                     options=options)

    app = {"reproduce": reproduce}
    """
    site.add("short", source)
    done = site.icml("short", "reproduce", "--slow", "--out", str(folder))
    assert done.returncode == 2
    assert done.stderr == "icml: short has no --slow run; its sizes: quick, default\n"
    assert not folder.exists()


def test_other_config_in_the_folder_is_one_sentence(tally, folder: Path) -> None:
    tally.icml("tally", "reproduce", "--out", str(folder))
    done = tally.icml("tally", "reproduce", "--quick", "--out", str(folder))
    assert done.returncode == 2
    assert "cells" in done.stderr
    assert done.stderr.count("\n") == 1


def test_damaged_summary_is_one_sentence(tally, folder: Path) -> None:
    tally.icml("tally", "reproduce", "--out", str(folder))
    (folder / "summary.json").write_text(json.dumps({"schema_version": 9}))
    done = tally.icml("tally", "reproduce", "--out", str(folder))
    assert done.returncode == 2
    assert "summary.json" in done.stderr
    assert done.stderr.count("\n") == 1


def test_folder_that_is_a_file_is_one_sentence(tally, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = tally.icml("tally", "reproduce", "--out", str(tmp_path / "file" / "run"))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_crash_is_a_bug_and_the_run_continues(tally, folder: Path, monkeypatch) -> None:
    monkeypatch.setenv("crash", "yes")
    crashed = tally.icml("tally", "reproduce", "--out", str(folder))
    assert crashed.returncode == 1
    assert "the abacus broke" in crashed.stderr
    monkeypatch.delenv("crash")
    assert tally.icml("tally", "reproduce", "--out", str(folder)).returncode == 0


def test_continuing_command_keeps_all_options_but_fresh() -> None:
    options = ReproduceOptions(slow=True, out=Path("my runs"), fresh=True, strict=True)
    command = continuing_command("gdpo", options)
    assert command == "icml gdpo reproduce --slow --strict --out 'my runs'"


def test_run_without_claims_says_so() -> None:
    assert conclusion(summary_of()) == ["This run makes no claim."]


def test_long_statements_are_wrapped_below_their_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    claim = Claim(
        id="a", statement="word " * 20, value=1.0, interval=None, holds=True, kind="required"
    )
    first, *rest = conclusion(summary_of(claim))
    assert first.startswith("- holds: word")
    assert len(rest) > 1
    assert all(line.startswith("  ") and len(line) <= 40 for line in rest)


def test_infinite_and_tiny_numbers_are_shown_as_they_are() -> None:
    claim = Claim(
        id="a", statement="S", value=1e-9, interval=(0.0, float("inf")), holds=True, kind="reported"
    )
    assert conclusion(summary_of(claim)) == ["- supported: S (1e\N{MINUS SIGN}9 [0, \N{INFINITY}])"]
