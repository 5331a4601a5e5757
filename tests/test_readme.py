import subprocess
import sys

from tools import readme, workspace

from icml.core.summary import Claim, Summary, Timing


def claim(**changes) -> Claim:
    base = {"statement": "a | b", "value": 1.2345, "interval": (1, 2), "holds": True}
    return Claim(id="id", **{**base, "kind": "required", **changes})


def test_every_claim_of_a_shipped_run_is_shown_with_its_interval_and_outcome(tmp_path) -> None:
    shipped = Summary(
        paper="a", title="", command="icml a reproduce", config={}, seeds=[], versions={},
        hardware={}, git=None, tables=[], figures=[], notes=[],
        claims=[claim(), claim(holds=False, interval=None), claim(holds=False, kind="reported")],
        timing=Timing(started="", finished="", wall_seconds=90.0, peak_memory_mb=812.3),
    )  # fmt: skip
    for run in (readme.SHIPPED.name, "slow"):
        folder = tmp_path / "results" / run
        folder.mkdir(parents=True)
        (folder / "summary.json").write_text(shipped.model_dump_json())
        summary = readme.shipped_summary(tmp_path, run)
    assert summary is not None
    assert summary == readme.shipped_summary(tmp_path)
    assert readme.claims_table(summary) == [
        "| claim | value | interval | outcome |",
        "| --- | --- | --- | --- |",
        r"| a \| b | 1.23 | 1 to 2 | holds |",
        r"| a \| b | 1.23 | exact | FAILED |",
        r"| a \| b | 1.23 | 1 to 2 | not supported at this scale |",
        "",
        "`icml a reproduce`: 90 s, 812 MB at most.",
    ]


def test_a_package_without_a_shipped_run_has_no_summary(tmp_path) -> None:
    assert readme.shipped_summary(tmp_path) is None
    assert readme.shipped_summary(tmp_path, "slow") is None


def test_python_blocks_are_found_and_others_left_out(tmp_path) -> None:
    file = tmp_path / "README.md"
    file.write_text("```bash\nls\n```\n\n```python\nx = 1\ny = 2\n```\n```python\nz = 3\n```\n")
    assert readme.python_blocks(file) == ["x = 1\ny = 2\n", "z = 3\n"]


def test_a_figure_typed_by_hand_between_the_markers_turns_the_check_red(tmp_path) -> None:
    workspace.copy_tree(tmp_path)
    check = [sys.executable, "-m", "nox", "-f", str(tmp_path / "noxfile.py"), "-s", "readmes"]
    assert subprocess.run(check, capture_output=True).returncode == 0
    file = tmp_path / "README.md"
    text = file.read_text(encoding="utf-8").replace("not measured yet |", "9 of 9 claims hold |")
    file.write_text(text.replace(" claims hold, in ", " claims hold, nearly in "))
    assert subprocess.run(check, capture_output=True).returncode == 1
