import numpy as np
import pytest

from icml.brokenmath.reproduce import TRUE_RATIO, Config, measure
from icml.core.testing import check_reproduce


def test_the_quick_experiment_supports_its_claims(tmp_path) -> None:
    summary = check_reproduce("brokenmath", tmp_path)

    claims = {claim.id: claim for claim in summary.claims}
    assert all(claim.holds for claim in claims.values())
    # 8 seeds of 500 estimates: the mean ratio's standard error is about 31 * 0.09 / sqrt(8) = 1
    assert claims["variance-ratio"].value == pytest.approx(TRUE_RATIO, abs=5)


def test_the_true_ratio_is_that_of_a_numerical_integration() -> None:
    middles = (np.arange(200_000) + 0.5) / 200_000
    plain = np.exp(middles).var() / 2
    pairs = ((np.exp(middles) + np.exp(1 - middles)) / 2).var()
    assert plain / pairs == pytest.approx(TRUE_RATIO, rel=1e-6)


def test_a_cell_depends_on_its_seed_and_on_nothing_else() -> None:
    def log(step: int, **row: object) -> None:
        pass

    config = Config(estimates=10)
    first, again, other = (measure("plain", s, config=config, log=log) for s in (3, 3, 4))
    assert first == again
    assert first != other


@pytest.mark.parametrize("wrong", [{"values": 3}, {"values": 0}, {"estimates": 1}, {"seeds": (1,)}])
def test_a_size_that_makes_no_sense_is_refused(wrong) -> None:
    with pytest.raises(ValueError, match=r"must be|need"):
        Config(**wrong)
