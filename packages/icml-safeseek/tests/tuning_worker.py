"""Safety Circuit Tuning with SFTTrainer, alone or in each process of torchrun.

The name of the folder it writes to says what is tried: circuit, complement or fsdp.
"""

import sys
from pathlib import Path

import torch
import transformers
from datasets import Dataset
from trl import SFTConfig, SFTTrainer

from icml.core.errors import UserError
from icml.core.models.tiny import word_tokenizer
from icml.core.testing.trl import worker_main
from icml.safeseek.circuit import Circuit
from icml.safeseek.tuning import SafetyCircuitCallback, unit_slices
from icml.safeseek.units import Site

WORDS = "abcdefg"
ROWS = [{"prompt": f"{a} {b}", "completion": f" {b} {a}"} for a in WORDS for b in "abc"]
MEMBERS = {Site(0, "head"): [0, 1], Site(1, "head"): [2], Site(0, "mlp-channel"): [3, 23]}


def model():
    """A Llama of two layers whose query heads share keys and values in pairs."""
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=11, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, initializer_range=0.4,
        pad_token_id=0, bos_token_id=1, eos_token_id=2,
    ))  # fmt: skip


def trainer(tuned, circuit, tune, folder, world, **options):
    """Three steps of four rows, each of two parts; Adam's epsilon keeps rounding small."""
    args = SFTConfig(
        str(folder / "trainer"), max_steps=3, per_device_train_batch_size=2 // world,
        gradient_accumulation_steps=2, learning_rate=1e-2, weight_decay=0.1, max_grad_norm=0.5,
        adam_epsilon=1e-3, report_to=[], save_strategy="no", use_cpu=True, bf16=False,
        disable_tqdm=True, gradient_checkpointing=False, max_length=16, seed=7,
        ddp_backend="gloo" if world > 1 else None, **options,
    )  # fmt: skip
    return SFTTrainer(
        tuned, args=args, train_dataset=Dataset.from_list(ROWS),
        processing_class=word_tokenizer(WORDS), callbacks=[SafetyCircuitCallback(circuit, tune)],
    )  # fmt: skip


def ranks_agree(flat, world):
    """Whether all processes hold the same bits."""
    if world == 1:
        return True
    found = [torch.empty_like(flat) for _ in range(world)]
    torch.distributed.all_gather(found, flat)
    return all(torch.equal(other, flat) for other in found)


def step(folder: Path, world: int):
    """Train; return what became of the entries, in every process."""
    tune, tuned = folder.name, model()
    circuit = Circuit.of(tuned, MEMBERS)
    if tune == "fsdp":
        try:
            trainer(tuned, circuit, "complement", folder, world, fsdp="full_shard")
        except UserError as error:
            return {"refused": str(error)}
        return {"refused": None}
    before = {name: p.detach().clone() for name, p in tuned.named_parameters()}
    own = unit_slices(tuned, circuit)
    built = trainer(tuned, circuit, tune, folder, world)
    assert built.accelerator.num_processes == world
    built.train()
    kept_as_they_were, moved, trained = True, 0, 0
    for name, parameter in tuned.named_parameters():
        inside = own.get(name, torch.zeros_like(parameter, dtype=torch.bool))
        kept = inside if tune == "complement" else ~inside
        kept_as_they_were &= torch.equal(parameter[kept], before[name][kept])
        moved += int((parameter != before[name])[~kept].sum())
        trained += int((~kept).sum())
    flat = torch.cat([p.detach().flatten() for p in tuned.parameters()])
    held = torch.tensor([float(kept_as_they_were)])
    if world > 1:
        torch.distributed.all_reduce(held, torch.distributed.ReduceOp.MIN)
    return {
        "kept in all": bool(held.item()), "equal": ranks_agree(flat, world),
        "moved": moved / trained, "weights": flat.tolist(), "steps": built.state.global_step,
    }  # fmt: skip


main = worker_main(step)

if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
