"""Random models of the families that circuits are searched in."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers


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
