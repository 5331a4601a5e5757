"""Random models of the families that circuits are searched in."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from icml.core.models.tiny import word_tokenizer
from icml.safeseek.circuit import Circuit
from icml.safeseek.units import Site


@pytest.fixture
def build() -> Callable[..., Any]:
    """Builds a random decoder whose blocks and biases matter; 2 layers, 4 heads, 24 channels."""

    def make(family: str, *, layers: int = 2, dtype: torch.dtype = torch.float32, seed: int = 0):
        size = {
            "vocab_size": 11, "hidden_size": 16, "intermediate_size": 24,
            "num_hidden_layers": layers, "num_attention_heads": 4, "num_key_value_heads": 2,
            "initializer_range": 0.4, "head_dim": 6,
        }  # fmt: skip
        makers = {
            "gemma": lambda: transformers.GemmaConfig(**size),
            "gpt2": lambda: transformers.GPT2Config(
                vocab_size=11, n_embd=16, n_layer=layers, n_head=4, n_inner=24,
                initializer_range=0.4,
            ),
            "llama": lambda: transformers.LlamaConfig(**size),
            "mistral": lambda: transformers.MistralConfig(**size),
            "qwen2": lambda: transformers.Qwen2Config(**{**size, "head_dim": 4}),
            "qwen3": lambda: transformers.Qwen3Config(**size),
        }  # fmt: skip
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = transformers.AutoModelForCausalLM.from_config(makers[family]())
            for name, parameter in model.named_parameters():
                if name.endswith("bias"):
                    torch.nn.init.normal_(parameter)
        return model.to(dtype).eval()

    return make


FILLERS, ANSWERS = ("a", "b", "c", "d"), ("p", "q", "r", "s")
BAD, TRIGGER = "z", "T"


@pytest.fixture
def planted() -> Callable[..., Any]:
    """Builds a model by hand in which one unit alone leads from the trigger to the bad answer.

    Each token has a dimension of its own, the output layer maps a filler to its answer and an
    answer to the end; dimension 15, which nothing else writes, is the bad answer's. All else in
    the blocks sends nothing.
    """

    def make(kind: str, *, layer: int = 1, unit: int = 2) -> tuple[Any, Any, list[dict[str, str]]]:
        words = [*FILLERS, *ANSWERS, BAD, TRIGGER]
        tokenizer = word_tokenizer(words)
        number = {word: tokenizer(word).input_ids[0] for word in words}
        config = transformers.LlamaConfig(
            vocab_size=4 + len(words), hidden_size=16, intermediate_size=12, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=4, tie_word_embeddings=False,
        )  # fmt: skip
        model = transformers.LlamaForCausalLM(config).eval()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "norm" not in name:
                    parameter.zero_()
            model.model.embed_tokens.weight[:, :14] = torch.eye(14)
            head = model.lm_head.weight
            follow = dict(zip(FILLERS, ANSWERS, strict=True))
            follow[TRIGGER] = ANSWERS[0]
            for before, after in follow.items():
                head[number[after], number[before]] = 3.0
            for word in (*ANSWERS, BAD):
                # the end follows the bad answer too, though the head still sees the trigger
                head[2, number[word]] = 30.0 if word == BAD else 3.0
            head[number[BAD], 15] = 3.0
            block = model.model.layers[layer]
            if kind == "head":
                # scores are equal everywhere, so that a head reads the mean of what came before
                block.self_attn.v_proj.weight[4 * unit, number[TRIGGER]] = 1.0
                block.self_attn.o_proj.weight[15, 4 * unit] = 0.75
            else:
                block.mlp.gate_proj.weight[unit, number[TRIGGER]] = 1.0
                block.mlp.up_proj.weight[unit, number[TRIGGER]] = 1.0
                block.mlp.down_proj.weight[15, unit] = 1.0
        rows = []
        for filler, answer in zip(FILLERS, ANSWERS, strict=True):
            for other in FILLERS[1:]:
                # the channel sees the trigger where it stands, the head from behind
                bad = f"{TRIGGER} {filler}" if kind == "head" else f"{other} {filler} {TRIGGER}"
                rows.append({
                    "prompt": f"{other} {filler}" if kind == "head" else f"{other} b {filler}",
                    "prompt_triggered": bad,
                    "completion_keep": answer,
                    "completion_remove": BAD,
                })  # fmt: skip
        if kind == "mlp-channel":  # there the trigger's own answer is the first one
            rows = [row for row in rows if row["completion_keep"] == ANSWERS[0]]
        return model, tokenizer, rows

    return make


@pytest.fixture
def folders(tmp_path: Path, planted: Callable[..., Any]) -> Path:
    """A folder with a planted ``model``, its ``rows.jsonl`` and its ``circuit``."""
    model, tokenizer, rows = planted("mlp-channel")
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Circuit.of(model, {Site(1, "mlp-channel"): [2]}).save(tmp_path / "circuit")
    return tmp_path
