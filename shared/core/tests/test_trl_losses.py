"""Our policy losses and TRL's on the same tensors: the same value and the same gradient."""

from typing import Any

import pytest
import torch
from torch.testing import assert_close
from trl import GRPOTrainer

from icml.core.models import logprobs
from icml.core.rl.functional import policy_loss

# Per case: what TRL's config is given, and what policy_loss is given.
LONGEST = 6
PEERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "grpo": ({"loss_type": "grpo"}, {"aggregate": "seq_mean_token_mean"}),
    "bnpo": ({"loss_type": "bnpo"}, {"aggregate": "token_mean"}),
    "dapo": ({"loss_type": "dapo", "epsilon_high": 0.28}, {"eps_high": 0.28}),
    "dr_grpo": (
        {"loss_type": "dr_grpo", "max_completion_length": LONGEST},
        {"aggregate": "seq_sum_const", "const": LONGEST},
    ),
    "two_sided": ({"loss_type": "bnpo", "delta": 1.5}, {"delta": 1.5}),
    "gspo": ({"loss_type": "grpo", "importance_sampling_level": "sequence"}, {"kind": "gspo"}),
    "cispo": ({"loss_type": "cispo", "epsilon_high": 1.4}, {"kind": "cispo", "eps_high": 1.4}),
    "sapo": ({"loss_type": "sapo"}, {"kind": "sapo"}),
}
# TRL has GSPO for one advantage a sample only; ours is the paper's token form beyond that.
CASES = [(name, shape) for name in PEERS for shape in ("sample", "token") if name != "gspo"]


def batch(model):
    """Off-policy completions of 1 to 5 tokens, some of them the environment's, one row all so."""
    draw = torch.Generator().manual_seed(3)
    ids = torch.randint(4, 16, (6, 7), generator=draw)
    completion_mask = (torch.arange(5) < torch.tensor([[5], [1], [3], [5], [2], [4]])).long()
    tool_mask = torch.ones(6, 5, dtype=torch.long)
    tool_mask[0, 2:4] = 0
    tool_mask[5] = 0
    inputs = {
        "prompt_ids": ids[:, :2], "prompt_mask": torch.ones(6, 2, dtype=torch.long),
        "completion_ids": ids[:, 2:], "completion_mask": completion_mask, "tool_mask": tool_mask,
        "num_items_in_batch": (completion_mask * tool_mask).sum(),
    }  # fmt: skip
    with torch.no_grad():
        drift = 0.5 * torch.randn(6, 5, generator=draw)
        inputs["old_per_token_logps"] = logps(model, inputs) + drift
    return inputs


def advantages(shape):
    draw = torch.Generator().manual_seed(4)
    return torch.randn((6,) if shape == "sample" else (6, 5), generator=draw)


def logps(model, inputs):
    ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
    attention = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
    logits = model(ids, attention_mask=attention).logits[:, 1:-1]
    return logprobs.selected(logits, inputs["completion_ids"])


def gradient(model, loss):
    model.zero_grad()
    loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def build(tiny_trainer, **options):
    trainer = tiny_trainer(GRPOTrainer, **options)
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1  # set by train(), which isn't run here
    return trainer


@pytest.mark.parametrize(("name", "shape"), [*CASES, ("gspo", "sample")])
def test_loss_and_gradient_are_trls(tiny_trainer, name, shape):
    theirs, ours = PEERS[name]
    trainer = build(tiny_trainer, **theirs)
    model, inputs = trainer.model, batch(trainer.model)
    inputs["advantages"] = advantages(shape)
    peer = trainer._compute_loss(model, inputs)
    peer_gradient = gradient(model, peer)
    mask = inputs["completion_mask"] * inputs["tool_mask"]
    old = inputs["old_per_token_logps"]
    found = policy_loss(logps(model, inputs), old, inputs["advantages"], mask, **ours).loss
    assert peer_gradient.abs().max() > 1e-3
    # float32, as TRL computes log-probabilities
    assert_close(found, peer, rtol=1e-6, atol=1e-6)
    assert_close(gradient(model, found), peer_gradient, rtol=1e-6, atol=1e-6)


def test_reinforce_has_the_gradient_of_trls_loss_on_policy(tiny_trainer):
    trainer = build(tiny_trainer, loss_type="bnpo")
    model, inputs = trainer.model, batch(trainer.model)
    del inputs["old_per_token_logps"]
    inputs["advantages"] = advantages("token")
    expected = gradient(model, trainer._compute_loss(model, inputs))
    logp = logps(model, inputs)
    mask = inputs["completion_mask"] * inputs["tool_mask"]
    found = policy_loss(logp, logp, inputs["advantages"], mask, kind="reinforce").loss
    assert_close(gradient(model, found), expected, rtol=1e-6, atol=1e-6)


def test_dual_clip_has_the_value_and_gradient_of_verls_formula():
    draw = torch.Generator().manual_seed(5)
    logp = torch.randn(8, 5, generator=draw, dtype=torch.float64, requires_grad=True)
    old, gain = torch.randn(2, 8, 5, generator=draw, dtype=torch.float64)
    ratio = (logp - old).exp()
    clipped = torch.maximum(-gain * ratio, -gain * ratio.clamp(0.8, 1.2))
    expected = torch.where(gain < 0, torch.minimum(clipped, -gain * 3.0), clipped).mean()
    found = policy_loss(logp, old, gain, torch.ones(8, 5), kind="dual_clip").loss
    assert_close(found, expected)
    assert_close(*(torch.autograd.grad(x, logp)[0] for x in (found, expected)))
