"""Two processes of torchrun do what one does."""

from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from icml.core.testing.trl import run_worker

WORKER = Path(__file__).with_name("trl_worker.py")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:You are using 'rollout_func'")
def test_two_processes_give_the_advantages_and_the_update_of_one(tmp_path):
    alone = run_worker(WORKER, tmp_path / "one.json", 1)
    together = run_worker(WORKER, tmp_path / "two.json", 2)
    assert together["standardised"] == alone["standardised"]
    assert len(set(alone["standardised"])) > 2
    # float32, and each process pads and averages its half on its own
    assert_close(together["logged"], alone["logged"], rtol=1e-6, atol=1e-6)
    update, expected = torch.tensor(together["update"]), torch.tensor(alone["update"])
    assert expected.norm() > 1e-3
    assert (update - expected).norm() <= 1e-6 * expected.norm()
