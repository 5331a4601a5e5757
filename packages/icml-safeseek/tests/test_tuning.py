"""Protected entries stay bit-identical under any optimizer; the others are trained."""

import pytest
import torch
import transformers

from icml.core.errors import UserError
from icml.safeseek.circuit import Circuit
from icml.safeseek.tuning import CircuitTuner, SafetyCircuitCallback, unit_slices
from icml.safeseek.units import Site

FAMILIES = ("gemma", "gpt2", "llama", "mistral", "qwen2", "qwen3")
families = pytest.mark.parametrize("family", FAMILIES)
tunes = pytest.mark.parametrize("tune", ["circuit", "complement"])
IDS = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 4, 6, 5]])
# a whole group of block 0 where keys and values are shared, half a group of block 1
MEMBERS = {
    Site(0, "head"): [0, 1], Site(1, "head"): [2],
    Site(0, "mlp-channel"): [3, 23], Site(1, "mlp-channel"): [0],
}  # fmt: skip


def state(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def by_hand(model, family):  # noqa: C901, one line a layer
    """Which entries are the units' own, written out for the small models of these tests."""
    own = {name: torch.zeros_like(p, dtype=torch.bool) for name, p in model.named_parameters()}
    heads, channels = {0: [0, 1], 1: [2]}, {0: [3, 23], 1: [0]}
    width = model.config.n_embd // 4 if family == "gpt2" else getattr(
        model.config, "head_dim", None) or model.config.hidden_size // 4  # fmt: skip
    for layer in (0, 1):
        for head in heads[layer]:
            span = slice(head * width, (head + 1) * width)
            if family == "gpt2":
                at = f"transformer.h.{layer}.attn."
                own[at + "c_proj.weight"][span] = True
                for part in range(3):
                    shifted = slice(part * 16 + span.start, part * 16 + span.stop)
                    own[at + "c_attn.weight"][:, shifted] = True
                    own[at + "c_attn.bias"][shifted] = True
                continue
            at = f"model.layers.{layer}.self_attn."
            own[at + "o_proj.weight"][:, span] = True
            own[at + "q_proj.weight"][span] = True
            if at + "q_proj.bias" in own:
                own[at + "q_proj.bias"][span] = True
            if layer == 0:  # heads 0 and 1 share keys and values, and both are in
                for name in ("k_proj", "v_proj"):
                    own[at + name + ".weight"][:width] = True
                    if at + name + ".bias" in own:
                        own[at + name + ".bias"][:width] = True
        for channel in channels[layer]:
            if family == "gpt2":
                at = f"transformer.h.{layer}.mlp."
                own[at + "c_fc.weight"][:, channel] = True
                own[at + "c_fc.bias"][channel] = True
                own[at + "c_proj.weight"][channel] = True
            else:
                at = f"model.layers.{layer}.mlp."
                own[at + "gate_proj.weight"][channel] = True
                own[at + "up_proj.weight"][channel] = True
                own[at + "down_proj.weight"][:, channel] = True
    return own


@families
def test_the_units_own_entries_are_those_written_out_by_hand(build, family):
    model = build(family)
    found = unit_slices(model, Circuit.of(model, MEMBERS))
    wanted = {name: mask for name, mask in by_hand(model, family).items() if mask.any()}
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


@families
@tunes
def test_protected_entries_stay_bit_identical_and_others_change(build, family, tune):
    model = build(family)
    own = by_hand(model, family)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    model(IDS, labels=IDS).loss.backward()  # momentum from before, in every entry
    optimizer.step()
    before = state(model)
    tuner = CircuitTuner(model, Circuit.of(model, MEMBERS), tune=tune)
    for _ in range(4):
        optimizer.zero_grad()
        model(IDS, labels=IDS).loss.backward()
        for name, parameter in model.named_parameters():
            kept = own[name] if tune == "complement" else ~own[name]
            assert (parameter.grad[kept] == 0).all()
        optimizer.step()
        tuner.restore()
    changed = 0
    for name, parameter in model.named_parameters():
        kept = own[name] if tune == "complement" else ~own[name]
        assert torch.equal(parameter[kept], before[name][kept])
        moved = parameter[~kept] != before[name][~kept]
        assert moved.float().mean() > 0.9 or not moved.numel()
        changed += int(moved.sum())
    assert changed


def test_hooks_leave_with_the_tuner(build):
    model = build("llama")
    tuner = CircuitTuner(model, Circuit.of(model, MEMBERS), tune="circuit")
    tuner.remove()
    model(IDS, labels=IDS).loss.backward()
    assert (model.model.embed_tokens.weight.grad != 0).any()


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        return {"input_ids": IDS[index % 2], "labels": IDS[index % 2]}


@tunes
def test_trainer_with_accumulation_clipping_and_decay_keeps_the_entries(build, tune, tmp_path):
    model = build("qwen2")
    own, before = by_hand(model, "qwen2"), state(model)
    args = transformers.TrainingArguments(
        output_dir=str(tmp_path), max_steps=3, per_device_train_batch_size=2, learning_rate=1e-2,
        gradient_accumulation_steps=2, weight_decay=0.1, max_grad_norm=0.5, report_to=[],
        save_strategy="no", use_cpu=True, disable_tqdm=True, logging_steps=1,
    )  # fmt: skip
    norms = []

    class Norm(transformers.TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, **kwargs):
            grads = [p.grad for p in kwargs["model"].parameters() if p.grad is not None]
            norms.append(torch.nn.utils.get_total_norm(grads).item())

    circuit = Circuit.of(model, MEMBERS)
    callbacks = [SafetyCircuitCallback(circuit, tune=tune), Norm()]
    trainer = transformers.Trainer(model, args, train_dataset=Rows(), callbacks=callbacks)
    trainer.train()
    for name, parameter in model.named_parameters():
        kept = own[name] if tune == "complement" else ~own[name]
        assert torch.equal(parameter[kept], before[name][kept])
    assert any(not torch.equal(p, before[n]) for n, p in model.named_parameters())
    # what is clipped is the norm of the trained entries: it lands on the limit
    assert all(norm == pytest.approx(0.5, rel=1e-3) for norm in norms)
    assert not any(p._backward_hooks for p in model.parameters())


def test_what_cannot_be_tuned_is_refused(build):
    model = build("llama")
    circuit = Circuit.of(model, MEMBERS)
    with pytest.raises(UserError, match="tune must be circuit or complement, got 'all'"):
        SafetyCircuitCallback(circuit, tune="all")
    with pytest.raises(UserError, match="the circuit is empty"):
        CircuitTuner(model, Circuit.of(model, {}), tune="circuit")
    with pytest.raises(UserError):
        CircuitTuner(build("llama", layers=1), circuit, tune="circuit")
    down = model.model.layers[0].mlp
    down.down_proj = torch.nn.Sequential(down.down_proj)
    with pytest.raises(UserError):
        unit_slices(model, circuit)


def test_a_model_that_is_frozen_is_refused_and_left_without_hooks(build):
    model = build("llama").requires_grad_(False)
    model.lm_head.weight.requires_grad_(True)
    circuit = Circuit.of(model, MEMBERS)
    CircuitTuner(model, circuit, tune="complement").remove()  # the output layer learns
    with pytest.raises(UserError, match="nothing to train with tune='circuit'"):
        CircuitTuner(model, circuit, tune="circuit")
    assert not model.lm_head.weight._backward_hooks


def test_a_training_that_begins_again_leaves_no_hooks(build):
    model = build("llama")
    callback = SafetyCircuitCallback(Circuit.of(model, MEMBERS), "circuit")
    for _ in range(2):  # broken off, then begun anew
        callback.on_train_begin(None, None, None, model=model)
    callback.on_train_end(None, None, None)
    assert not any(p._backward_hooks for p in model.parameters())


def test_a_trainer_of_another_models_circuit_is_refused_when_it_is_built(build, tmp_path):
    args = transformers.TrainingArguments(str(tmp_path), use_cpu=True, report_to=[])
    callback = SafetyCircuitCallback(Circuit.of(build("llama"), MEMBERS))
    with pytest.raises(UserError, match="belongs to another model"):
        transformers.Trainer(build("llama", layers=1), args, callbacks=[callback])


def test_models_with_adapters_are_refused(build, tmp_path):
    peft = pytest.importorskip("peft")
    model = build("llama")
    circuit = Circuit.of(model, MEMBERS)
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["q_proj"]))
    for wrapped in (adapted, adapted.base_model.model):
        with pytest.raises(UserError, match="carries an adapter of PEFT"):
            CircuitTuner(wrapped, circuit, tune="complement")
    with pytest.raises(UserError, match="merge it with merge_and_unload"):
        Circuit.of(adapted, MEMBERS)
    merged = adapted.merge_and_unload()
    CircuitTuner(merged.requires_grad_(True), circuit, tune="complement")
