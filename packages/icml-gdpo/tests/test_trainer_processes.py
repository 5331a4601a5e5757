"""Two processes of torchrun get the advantages of one, also where tokens are counted."""

from pathlib import Path

import pytest
from torch.testing import assert_close

from icml.core.testing.trl import run_worker

WORKER = Path(__file__).with_name("gdpo_worker.py")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:You are using 'rollout_func'")
def test_two_processes_give_the_advantages_and_the_log_of_one(tmp_path):
    alone = run_worker(WORKER, tmp_path / "one.json", 1)
    together = run_worker(WORKER, tmp_path / "two.json", 2)
    assert len(set(alone["advantages"])) > 2
    assert together["advantages"] == alone["advantages"]
    # the average over a log's one batch is exact; its sums are float32
    assert_close(together["numbers"], alone["numbers"], rtol=1e-6, atol=0)
