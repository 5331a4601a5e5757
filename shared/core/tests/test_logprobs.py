"""Log-probabilities in slices against log_softmax of everything at once."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from icml.core.models import logprobs

DOUBLE = torch.float64


def random_logits(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(shape, generator=generator, dtype=DOUBLE)


def random_ids(vocabulary, *shape, seed=0):
    return torch.randint(vocabulary, shape, generator=torch.Generator().manual_seed(seed))


def naive_selected(logits, ids, temperature=1.0):
    return torch.log_softmax(logits / temperature, -1).gather(-1, ids[..., None])[..., 0]


def naive_sequence(model, ids, mask, temperature=1.0):
    logp = naive_selected(model(ids).logits[:, :-1], ids[:, 1:], temperature)
    return nn.functional.pad(logp, (1, 0)) * mask


class BigramModel(nn.Module):
    """The smallest causal model: a token's logits depend on the token before it."""

    def __init__(self, vocabulary=11):
        super().__init__()
        self.table = nn.Parameter(random_logits(vocabulary, vocabulary, seed=3))

    def forward(self, ids):
        return SimpleNamespace(logits=self.table[ids])


def transformers_model(kind, vocabulary=11):
    import transformers

    size = {
        "vocab_size": vocabulary,
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    }
    config = {
        "llama": lambda: transformers.LlamaConfig(**size),
        "mistral": lambda: transformers.MistralConfig(**size),
        "qwen2": lambda: transformers.Qwen2Config(**size),
        "qwen3": lambda: transformers.Qwen3Config(**size, head_dim=8),
        "gemma": lambda: transformers.GemmaConfig(**size, head_dim=8),
        "smollm3": lambda: transformers.SmolLM3Config(**size, pad_token_id=0),
        "gpt_neox": lambda: transformers.GPTNeoXConfig(
            **{k: v for k, v in size.items() if k != "num_key_value_heads"}
        ),
        "gpt2": lambda: transformers.GPT2Config(vocab_size=11, n_embd=16, n_layer=2, n_head=2),
        "gemma2": lambda: transformers.Gemma2Config(
            **size, head_dim=8, final_logit_softcapping=0.1
        ),
        "gemma3_text": lambda: transformers.Gemma3TextConfig(
            **size, head_dim=8, final_logit_softcapping=0.1
        ),
        # scales its logits after the head, so it must not be scored from hidden states
        "cohere": lambda: transformers.CohereConfig(**size, pad_token_id=0, logit_scale=9.0),
    }[kind]()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return transformers.AutoModelForCausalLM.from_config(config).double().eval()


class LargestTensor(TorchDispatchMode):
    """Records the size of the largest tensor that any operation allocates."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        inputs = {x.untyped_storage().data_ptr() for x in args if isinstance(x, torch.Tensor)}
        for x in result if isinstance(result, tuple | list) else [result]:
            if isinstance(x, torch.Tensor) and x.untyped_storage().data_ptr() not in inputs:
                self.elements = max(self.elements, x.numel())
        return result


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (2, 3, 4)])
def test_selected_equals_log_softmax_and_gather(shape, temperature):
    logits, ids = random_logits(*shape, 7), random_ids(7, *shape)
    expected = naive_selected(logits, ids, temperature)
    assert_close(logprobs.selected(logits, ids, temperature=temperature), expected)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("chunk", [None, 1, 3, 1000])
def test_entropy_equals_torch_distributions_whatever_the_chunk(chunk, temperature):
    logits = random_logits(3, 4, 7)
    expected = torch.distributions.Categorical(logits=logits / temperature).entropy()
    result = logprobs.entropy(logits, temperature=temperature, chunk=chunk)
    assert_close(result, expected)


def test_entropy_of_a_uniform_and_of_a_certain_distribution():
    logits = torch.tensor([[0.0, 0.0, 0.0], [0.0, -torch.inf, -torch.inf]], requires_grad=True)
    result = logprobs.entropy(logits)
    result.sum().backward()
    assert_close(result, torch.tensor([math.log(3), 0.0]))
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_a_large_offset_costs_no_precision_in_float32():
    logits = torch.tensor([[0.0, 1.0, 2.0]]) + 2.0**20  # exact in float32
    ids = torch.tensor([1])
    assert torch.equal(logprobs.selected(logits, ids), logprobs.selected(logits - 2.0**20, ids))
    assert torch.equal(logprobs.entropy(logits), logprobs.entropy(logits - 2.0**20))


@pytest.mark.parametrize("many_slices", [False, True])
def test_gradients_of_selected_and_entropy_equal_finite_differences(many_slices, monkeypatch):
    if many_slices:
        monkeypatch.setattr(logprobs, "LOGITS_AT_ONCE", 2 * 5)
    logits, ids = random_logits(2, 3, 5).requires_grad_(), random_ids(5, 2, 3)
    assert torch.autograd.gradcheck(
        lambda x: (logprobs.selected(x, ids, temperature=0.7), logprobs.entropy(x)), (logits,)
    )


def test_half_precision_logits_are_scored_in_float32():
    logits, ids = random_logits(4, 7).bfloat16(), random_ids(7, 4)
    result = logprobs.selected(logits, ids)
    assert result.dtype == torch.float32
    assert torch.equal(result, logprobs.selected(logits.float(), ids))
    assert logprobs.entropy(logits).dtype == torch.float32


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_no_operation_makes_a_second_batch_of_logits(temperature, monkeypatch):
    monkeypatch.setattr(logprobs, "LOGITS_AT_ONCE", 40 * 8)
    logits, ids = random_logits(4, 30, 40).requires_grad_(), random_ids(40, 4, 30)
    with LargestTensor() as largest:
        logprobs.selected(logits, ids, temperature=temperature)
        logprobs.entropy(logits, temperature=temperature)
    assert largest.elements <= 8 * 40


def test_a_transformers_sequence_never_makes_a_batch_of_logits_nor_of_their_gradients():
    model = transformers_model("llama", vocabulary=512)
    ids = random_ids(512, 4, 33)
    mask = torch.ones_like(ids)
    mask[:, 0] = 0
    logits = 4 * 32 * 512
    with LargestTensor() as largest:
        logprobs.sequence(model, ids, mask, chunk=8).sum().backward()
    # what remains: a slice of logits is 1/16, the output layer's gradient and attention 1/8
    assert largest.elements <= logits // 8


@pytest.mark.parametrize("kind", [*sorted(logprobs.PLAIN_HEAD), "cohere"])
def test_sequence_equals_the_models_own_logits(kind):
    model = transformers_model(kind)
    ids, mask = random_ids(11, 3, 7), random_ids(2, 3, 7, seed=1)
    mask[:, 0] = 0
    with torch.no_grad():
        result = logprobs.sequence(model, ids, mask, temperature=0.7, chunk=2)
        assert_close(result, naive_sequence(model, ids, mask, 0.7))


def test_an_output_layer_that_does_more_than_multiply_is_called():
    model, ids = transformers_model("llama"), random_ids(11, 3, 7)
    model.lm_head.register_forward_hook(lambda module, inputs, output: 3 * output)
    mask = torch.ones_like(ids)
    mask[:, 0] = 0
    with torch.no_grad():
        assert_close(logprobs.sequence(model, ids, mask), naive_sequence(model, ids, mask))


@pytest.mark.parametrize("make", [BigramModel, lambda: transformers_model("llama")])
@pytest.mark.parametrize("chunk", [None, 1, 4, 1000])
def test_sequence_has_the_value_and_the_gradients_of_the_naive_way(make, chunk):
    model, ids, mask = make(), random_ids(11, 3, 7), random_ids(2, 3, 7, seed=2)
    mask[:, 0] = 0
    weights = random_logits(3, 7, seed=5)
    results = []
    for value in (
        logprobs.sequence(model, ids, mask, temperature=0.7, chunk=chunk),
        naive_sequence(model, ids, mask, 0.7),
    ):
        model.zero_grad()
        (weights * value).sum().backward()
        results.append([value.detach(), *(p.grad.clone() for p in model.parameters())])
    assert_close(results[0], results[1])


@pytest.mark.parametrize("make", [BigramModel, lambda: transformers_model("llama")])
def test_padding_on_the_right_changes_nothing(make):
    model, ids = make(), random_ids(11, 2, 5)
    mask = torch.ones_like(ids)
    mask[:, 0] = 0
    padded = [nn.functional.pad(x, (0, 3)) for x in (ids, mask)]
    result = logprobs.sequence(model, *padded)
    assert_close(result[:, :5], logprobs.sequence(model, ids, mask))
    assert not result[:, 5:].any()


@pytest.mark.parametrize("make", [BigramModel, lambda: transformers_model("llama")])
def test_nothing_marked_gives_zeros_with_zero_gradients(make):
    model, ids = make(), random_ids(11, 2, 5)
    result = logprobs.sequence(model, ids, torch.zeros_like(ids))
    result.sum().backward()
    assert not result.any()
    assert not any(p.grad.any() for p in model.parameters() if p.grad is not None)


def test_one_token_has_nothing_to_score():
    ids = torch.zeros(2, 1, dtype=torch.long)
    assert logprobs.sequence(BigramModel(), ids, ids).tolist() == [[0.0], [0.0]]


def test_positions_without_rows_are_scored_to_nothing():
    assert logprobs.selected(torch.zeros(0, 3, 7), random_ids(7, 0, 3)).shape == (0, 3)
    assert logprobs.entropy(torch.zeros(2, 0, 7)).shape == (2, 0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, i: logprobs.selected(x, i[:1]), "ids must have"),
        (lambda x, i: logprobs.selected(x, i, temperature=0.0), "temperature"),
        (lambda x, i: logprobs.selected(x, i, temperature=math.nan), "temperature"),
        (lambda x, i: logprobs.entropy(x, temperature=-1.0), "temperature"),
        (lambda x, i: logprobs.entropy(x, chunk=0), "chunk"),
        (lambda x, i: logprobs.sequence(BigramModel(), i, i > 99, chunk=0), "chunk"),
        (lambda x, i: logprobs.sequence(BigramModel(), i, i[:1]), "one shape"),
        (lambda x, i: logprobs.sequence(BigramModel(), i, i == i), "first token"),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call(random_logits(2, 3, 7), random_ids(7, 2, 3))
