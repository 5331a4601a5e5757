"""The divergence from the starting model, as `LoopConfig.kl_beta` adds it to the loss."""

import pytest
import torch
from torch import Tensor, nn

from icml.core.models.tiny import CausalOutput
from icml.core.rl.batch import Batch
from icml.core.rl.loop import LoopConfig, train


class Prompt:
    prompt_ids = (1,)


def sample_prompts(generator: torch.Generator, n: int) -> list[Prompt]:
    return [Prompt()] * n


class Bandit(nn.Module):
    """A softmax policy over arms: one parameter an arm, the prompt doesn't matter."""

    def __init__(self, logits: list[float]) -> None:
        super().__init__()
        self.preferences = nn.Parameter(torch.tensor(logits))

    def forward(self, ids: Tensor) -> CausalOutput:
        return CausalOutput(self.preferences.expand(*ids.shape, -1))


def test_without_advantages_the_penalty_pulls_back_to_the_start_by_its_closed_form():
    start, beta, drawn = torch.tensor([0.3, 0.0, -0.4, 0.1]), 0.7, []
    model = Bandit(start.tolist())
    weights = [start]

    def first_row_only(batch: Batch) -> Tensor:
        drawn.append(batch.completion_ids[:, 0])
        weights.append(model.preferences.detach().clone())
        paid = torch.zeros(len(batch.rewards))
        paid[0] = 50.0 if len(drawn) == 1 else 0.0
        return paid

    config = LoopConfig(
        iterations=2, max_new_tokens=1, prompts_per_iteration=64, group_size=1, learning_rate=1.0,
        optimizer="sgd", loss="reinforce", grad_clip=1e9, kl_beta=beta,
    )  # fmt: skip
    rows = train(
        model, sample_prompts, lambda _, ids: torch.zeros(len(ids), 1), first_row_only, config,
        seed=5,
    ).rows  # fmt: skip
    # k3 = exp(-d) + d - 1 of d = log p - log q has the gradient (1 - exp(-d)) d log p.
    moved, actions = weights[2], drawn[1]
    apart = (moved.log_softmax(0) - start.log_softmax(0))[actions]
    scores = torch.eye(4)[actions] - moved.softmax(0)
    gradient = beta * ((1 - torch.exp(-apart))[:, None] * scores).mean(0)
    assert gradient.abs().max() > 0.01
    torch.testing.assert_close(model.preferences.detach(), moved - gradient)
    assert rows[0]["train/kl"] == 0
    assert rows[1]["train/kl"] == pytest.approx(float((torch.exp(-apart) + apart - 1).mean()))
