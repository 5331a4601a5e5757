from icml.core.testing import check_help_is_light, run_icml


def test_help_is_light_and_names_the_experiment() -> None:
    check_help_is_light("brokenmath")
    assert "reproduce" in run_icml("brokenmath", "--help").stdout
