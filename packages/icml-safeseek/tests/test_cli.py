import pytest

from icml.core.testing import check_help_is_light, run_icml


def test_help_is_light_and_names_the_verbs() -> None:
    check_help_is_light("safeseek")
    told = run_icml("safeseek", "--help").stdout
    for verb in ("plant", "find", "ablate", "tune", "report", "reproduce"):
        assert verb in told


def test_a_command_says_what_circuits_of_refusals_are_for(tmp_path) -> None:
    done = run_icml("safeseek", "ablate", "nowhere", str(tmp_path / "none"))
    assert done.returncode == 2
    assert "models of your own" in done.stderr
    assert "holds no circuit" in done.stderr


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["tune", "m", "c", "d", "--steps", "-1"], "--steps must be >= 1, got -1"),
        (["tune", "m", "c", "d", "--seed", "-2"], "--seed must be >= 0, got -2"),
        (["report", "m", "c", "d", "--max-len", "1"], "--max-len must be >= 2, got 1"),
    ],
)
def test_numbers_out_of_range_are_refused(command, reason) -> None:
    done = run_icml("safeseek", *command)
    assert done.returncode == 2
    assert reason in done.stderr
