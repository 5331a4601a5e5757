"""Safety Circuit Tuning in TRL's preference trainer: the entries stay, the reference too."""

import copy

import pytest
import torch

from icml.core.models.tiny import word_tokenizer
from icml.safeseek.circuit import Circuit
from icml.safeseek.tuning import SafetyCircuitCallback, unit_slices
from icml.safeseek.units import Site

trl = pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")

# a whole group of block 0 where keys and values are shared, half a group of block 1
MEMBERS = {
    Site(0, "head"): [0, 1], Site(1, "head"): [2],
    Site(0, "mlp-channel"): [3, 23], Site(1, "mlp-channel"): [0],
}  # fmt: skip
WORDS = "abcdefg"
ROWS = [
    {"prompt": f"{a} {b}", "chosen": f" {b} {a}", "rejected": f" {a} {a} {b}"}
    for a in WORDS
    for b in "ab"
]


def dpo(model, reference, folder, callbacks, **options):
    """A trainer of two rows a step and AdamW with weight decay."""
    args = trl.DPOConfig(
        str(folder), max_steps=4, per_device_train_batch_size=2, learning_rate=1e-2,
        weight_decay=0.1, report_to=[], save_strategy="no", use_cpu=True, bf16=False,
        disable_tqdm=True, max_length=16, logging_steps=1,
        **{"gradient_checkpointing": False, "max_grad_norm": 0.0, **options},
    )  # fmt: skip
    return trl.DPOTrainer(
        model, ref_model=reference, args=args, train_dataset=datasets.Dataset.from_list(ROWS),
        processing_class=word_tokenizer(WORDS), callbacks=callbacks,
    )  # fmt: skip


def state(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*:FutureWarning")
@pytest.mark.parametrize("tune", ["circuit", "complement"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gradient_checkpointing": True, "gradient_accumulation_steps": 2, "max_grad_norm": 0.05},
    ],
    ids=["plain", "accumulated, clipped, checkpointed"],
)
def test_protected_entries_and_the_reference_stay_bit_identical(build, tmp_path, tune, options):
    model = build("llama")
    reference = copy.deepcopy(model)
    before = state(model)
    circuit = Circuit.of(model, MEMBERS)
    own = unit_slices(model, circuit)
    trainer = dpo(model, reference, tmp_path, [SafetyCircuitCallback(circuit, tune)], **options)
    trainer.train()
    assert trainer.state.global_step == 4
    for name, parameter in model.named_parameters():
        inside = own.get(name, torch.zeros_like(parameter, dtype=torch.bool))
        kept = inside if tune == "complement" else ~inside
        assert torch.equal(parameter[kept], before[name][kept]), name
        moved = parameter[~kept] != before[name][~kept]
        assert moved.float().mean() > 0.8 or not moved.numel(), name
    for name, parameter in reference.named_parameters():
        assert torch.equal(parameter, before[name]), name
    assert not any(p._backward_hooks for p in model.parameters())


def test_without_the_callback_the_same_entries_move(build, tmp_path):
    model = build("llama")
    before, own = state(model), unit_slices(model, Circuit.of(model, MEMBERS))
    dpo(model, copy.deepcopy(model), tmp_path, []).train()
    for name, parameter in model.named_parameters():
        if name in own:
            assert (parameter[own[name]] != before[name][own[name]]).float().mean() > 0.8, name
