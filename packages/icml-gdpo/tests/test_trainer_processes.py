"""Two processes of torchrun get the advantages of one, also where tokens are counted."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from torch.testing import assert_close

WORKER = Path(__file__).with_name("gdpo_worker.py")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:You are using 'rollout_func'")
def test_two_processes_give_the_advantages_and_the_log_of_one(tmp_path):
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    runpy.run_path(str(WORKER))["main"](one, 1)
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2",
        "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1",
        str(WORKER), str(two), "2",
    ]  # fmt: skip
    env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        output, _ = process.communicate(timeout=300)
    finally:
        process.terminate()  # torchrun then ends its children; nothing if it has ended
        process.wait(timeout=60)
    assert process.returncode == 0, output.decode()[-4000:]
    alone, together = json.loads(one.read_text()), json.loads(two.read_text())
    assert len(set(alone["advantages"])) > 2
    assert together["advantages"] == alone["advantages"]
    # the average over a log's one batch is exact; its sums are float32
    assert_close(together["numbers"], alone["numbers"], rtol=1e-6, atol=0)
