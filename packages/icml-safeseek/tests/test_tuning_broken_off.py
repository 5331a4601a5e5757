"""What is left of a training that an exception broke off: nothing that another one would feel."""

import pytest
import torch
import transformers

from icml.safeseek.circuit import Circuit
from icml.safeseek.tuning import CircuitTuner, SafetyCircuitCallback, unit_slices
from icml.safeseek.units import Site

IDS = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 4, 6, 5]])
HERE = {Site(0, "head"): [0, 1], Site(1, "mlp-channel"): [0, 3]}
THERE = {Site(1, "head"): [2, 3]}


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        return {"input_ids": IDS[index % 2], "labels": IDS[index % 2]}


class Broken(transformers.TrainerCallback):
    """Ctrl-C between the backward pass and the end of a step."""

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        if state.global_step == 1:
            raise KeyboardInterrupt


class DecaysThenBreaks(torch.optim.SGD):
    """Ctrl-C in the middle of the second step, when weight decay has moved every entry."""

    steps = 0

    @torch.no_grad()
    def step(self, closure=None):
        self.steps += 1
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.mul_(0.5)
        if self.steps == 2:
            raise KeyboardInterrupt


@pytest.fixture
def trainer(tmp_path):
    def make(model, *callbacks, optimizer=None):
        args = transformers.TrainingArguments(
            str(tmp_path), max_steps=3, per_device_train_batch_size=2, learning_rate=1e-2,
            weight_decay=0.1, save_strategy="no", use_cpu=True, disable_tqdm=True, report_to=[],
        )  # fmt: skip
        return transformers.Trainer(
            model, args, train_dataset=Rows(), callbacks=list(callbacks),
            optimizers=(optimizer, None),
        )  # fmt: skip

    return make


def state(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def moved(model, before, own):
    """How many of the entries that ``own`` marks have changed."""
    return sum(int((p != before[n])[own[n]].sum()) for n, p in model.named_parameters() if n in own)


def broken_off(model, trainer, tune="complement"):
    callback = SafetyCircuitCallback(Circuit.of(model, HERE), tune)
    broken = trainer(model, callback, Broken())
    with pytest.raises(KeyboardInterrupt):
        broken.train()
    return callback, broken


@pytest.mark.parametrize("tune", ["complement", "circuit"])
def test_a_plain_trainer_afterwards_trains_everything(build, trainer, tune):
    model, plain = build("llama"), build("llama")
    own = unit_slices(model, Circuit.of(model, HERE))
    broken_off(model, trainer, tune)
    plain.load_state_dict(model.state_dict())
    before = state(model)
    trainer(model).train()
    trainer(plain).train()
    assert moved(model, before, own)
    for name, parameter in plain.named_parameters():  # as if there had never been a callback
        assert torch.equal(parameter, model.get_parameter(name))
    assert not any(p._backward_hooks for p in model.parameters())


def test_another_circuits_callback_afterwards_keeps_its_own_entries_alone(build, trainer):
    model = build("llama")
    broken_off(model, trainer)
    here, there = (unit_slices(model, Circuit.of(model, c)) for c in (HERE, THERE))
    before = state(model)
    trainer(model, SafetyCircuitCallback(Circuit.of(model, THERE))).train()
    assert not moved(model, before, there)
    assert moved(model, before, here)
    assert not any(p._backward_hooks for p in model.parameters())


def test_the_same_trainer_again_goes_on_protecting(build, trainer):
    model = build("llama")
    own, before = unit_slices(model, Circuit.of(model, HERE)), state(model)
    _, broken = broken_off(model, trainer)
    broken.pop_callback(Broken)
    broken.train()
    assert not moved(model, before, own)
    assert not any(p._backward_hooks for p in model.parameters())


@pytest.mark.parametrize("how", ["detach", "same", "other"])
def test_entries_moved_by_half_a_step_are_put_back(build, trainer, how):
    model = build("llama")
    circuit = Circuit.of(model, HERE)
    own, before = unit_slices(model, circuit), state(model)
    callback = SafetyCircuitCallback(circuit)
    broken = trainer(model, callback, optimizer=DecaysThenBreaks(model.parameters(), lr=1e-2))
    with pytest.raises(KeyboardInterrupt):
        broken.train()
    assert moved(model, before, own)  # that is what must not stay
    if how == "detach":
        callback.detach()
    else:
        again = callback if how == "same" else SafetyCircuitCallback(circuit.transfer(model))
        trainer(model, again).train()
    assert not moved(model, before, own)
    assert not any(p._backward_hooks for p in model.parameters())


def test_two_circuits_can_be_kept_at_once(build, trainer):
    model = build("llama")
    both = [SafetyCircuitCallback(Circuit.of(model, c)) for c in (HERE, THERE)]
    own = [unit_slices(model, each.circuit) for each in both]
    before = state(model)
    trainer(model, *both).train()
    assert not any(moved(model, before, each) for each in own)


def test_a_tuner_of_a_loop_of_ones_own_stays_until_it_is_removed(build):
    model = build("llama")
    tuner = CircuitTuner(model, Circuit.of(model, HERE), tune="complement")
    CircuitTuner(model, Circuit.of(model, THERE), tune="complement").remove()
    model(IDS, labels=IDS).loss.backward()
    assert not model.model.layers[0].self_attn.o_proj.weight.grad[:, :12].any()
    tuner.remove()
