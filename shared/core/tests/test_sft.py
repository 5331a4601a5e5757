import pytest
import torch

from icml.core.models.tiny import TinyGPT
from icml.core.rl.sft import supervised


def tiny() -> TinyGPT:
    return TinyGPT(vocab=10, d=16, layers=1, heads=2, ctx=12)


def test_supervised_steps_down_the_mean_negative_log_likelihood():
    model, before = tiny(), tiny()
    batch = [([1, 5], [5, 2]), ([1, 1, 6], [6])]
    (loss,) = supervised(model, [batch], learning_rate=1e-3)
    logits = before(torch.tensor([[1, 5, 5, 2]])).logits[0].log_softmax(-1)
    other = before(torch.tensor([[1, 1, 6, 6]])).logits[0].log_softmax(-1)
    by_hand = -(logits[1, 5] + logits[2, 2] + other[2, 6]) / 3
    assert loss == pytest.approx(by_hand.item(), rel=1e-5)
    by_hand.backward()
    # AdamW's first step is learning_rate * gradient / (|gradient| + 1e-8).
    gradient = before.lm_head.weight.grad
    assert gradient is not None
    step = before.lm_head.weight - 1e-3 * gradient / (gradient.abs() + 1e-8)
    torch.testing.assert_close(model.lm_head.weight, step)


def test_supervised_learns_what_it_is_shown():
    model, words = tiny(), range(4, 10)
    losses = supervised(
        model, [[([1, word], [word, 2]) for word in words]] * 150, learning_rate=1e-2
    )
    # Untrained, a token has probability 1 / 10; shown one answer only, it has probability 1.
    assert losses[0] > 1.5
    assert losses[-1] < 0.1
    for word in words:
        assert model(torch.tensor([[1, word]])).logits[0, -1].softmax(-1)[word] > 0.9
