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


def test_numbers_out_of_range_are_refused() -> None:
    done = run_icml("safeseek", "tune", "m", "c", "d", "--steps", "0")
    assert done.returncode == 2
    assert "must be >= 1" in done.stderr
