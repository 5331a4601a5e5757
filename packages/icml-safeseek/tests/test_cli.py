from icml.core.testing import check_help_is_light


def test_help_is_light() -> None:
    check_help_is_light("safeseek")
