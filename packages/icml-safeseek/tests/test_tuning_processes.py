"""Safety Circuit Tuning in two processes of torchrun: what one does, and equal in both."""

from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from icml.core.errors import UserError
from icml.safeseek.circuit import Circuit
from icml.safeseek.tuning import CircuitTuner, SafetyCircuitCallback
from icml.safeseek.units import Site

WORKER = Path(__file__).with_name("tuning_worker.py")


@pytest.mark.slow
@pytest.mark.parametrize("tune", ["circuit", "complement"])
def test_two_processes_keep_the_entries_and_hold_the_weights_of_one(tmp_path, tune):
    pytest.importorskip("trl")
    from icml.core.testing.trl import run_worker

    folder = tmp_path / tune
    folder.mkdir()
    alone = run_worker(WORKER, folder / "one.json", 1)
    together = run_worker(WORKER, folder / "two.json", 2)
    for found in (alone, together):
        assert found["steps"] == 3
        assert found["kept in all"]
        assert found["equal"]
        assert found["moved"] > 0.9
    assert_close(together["weights"], alone["weights"], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_two_processes_that_spread_the_weights_are_refused_before_training(tmp_path):
    pytest.importorskip("trl")
    from icml.core.testing.trl import run_worker

    (tmp_path / "fsdp").mkdir()
    refused = run_worker(WORKER, tmp_path / "fsdp" / "two.json", 2)["refused"]
    assert refused is not None
    assert "spread over processes (FSDP)" in refused


@pytest.fixture
def group(tmp_path):
    """A process group of this process alone."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1
    )
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("group")
def test_weights_that_lie_in_pieces_are_refused(build):
    from torch.distributed.fsdp import fully_shard

    model = build("llama")
    circuit = Circuit.of(model, {Site(0, "head"): [1]})
    fully_shard(model)
    with pytest.raises(UserError, match="spread over processes"):
        CircuitTuner(model, circuit, tune="complement")
    with pytest.raises(UserError, match="spread over processes"):
        SafetyCircuitCallback(circuit).on_train_begin(None, None, None, model=model)


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("wrap", [torch.nn.parallel.DistributedDataParallel, torch.compile])
def test_wrapped_models_are_tuned_as_what_they_wrap(build, wrap):
    model = build("llama")
    circuit = Circuit.of(model, {Site(0, "mlp-channel"): [1, 5]})
    before = model.model.layers[0].mlp.down_proj.weight.detach().clone()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    tuner = CircuitTuner(wrap(model), circuit, tune="complement")
    ids = torch.tensor([[4, 5, 6]])
    model(ids, labels=ids).loss.backward()
    optimizer.step()
    tuner.restore()
    same = (model.model.layers[0].mlp.down_proj.weight == before).all(0)
    assert same.nonzero().flatten().tolist() == [1, 5]
