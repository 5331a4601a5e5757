"""Two processes of torchrun do what one does."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch
from torch.testing import assert_close

WORKER = Path(__file__).with_name("trl_worker.py")
LIMIT = 300  # seconds; most of them are two processes importing TRL


def torchrun(*script):
    """Run a script in two processes that must end within the limit; no child is left behind."""
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2",
        "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1", *script,
    ]  # fmt: skip
    env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        output, _ = process.communicate(timeout=LIMIT)
    finally:
        if process.poll() is None:
            parent = psutil.Process(process.pid)
            for child in [*parent.children(recursive=True), parent]:
                child.kill()
            process.wait()
    assert process.returncode == 0, output.decode()[-4000:]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:You are using 'rollout_func'")
def test_two_processes_give_the_advantages_and_the_update_of_one(tmp_path):
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    runpy.run_path(str(WORKER))["main"](one, 1)
    torchrun(str(WORKER), str(two), "2")
    alone, together = json.loads(one.read_text()), json.loads(two.read_text())
    assert together["standardised"] == alone["standardised"]
    assert len(set(alone["standardised"])) > 2
    # float32, and each process pads and averages its half on its own
    assert_close(together["logged"], alone["logged"], rtol=1e-6, atol=1e-6)
    update, expected = torch.tensor(together["update"]), torch.tensor(alone["update"])
    assert expected.norm() > 1e-3
    assert (update - expected).norm() <= 1e-6 * expected.norm()
