from icml.core.testing import check_help_is_light, run_icml


def test_help_is_light_and_names_the_commands() -> None:
    check_help_is_light("empg")
    text = run_icml("empg", "--help").stdout
    assert all(name in text for name in ("reproduce", "explain", "train"))
