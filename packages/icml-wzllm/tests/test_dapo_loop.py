"""Dynamic sampling in the small loop: which groups are kept, and that it learns."""

import pytest
import torch

from icml.core.models.tiny import TinyGPT
from icml.core.rl.batch import draw
from icml.core.rl.functional import group_advantage
from icml.wzllm.training.dapo_loop import dapo_config, keep_live, train_dapo
from icml.wzllm.training.rows import LONGEST, VOCABULARY, Row

GROUP = 4
ROWS = [Row(a, 1) for a in range(1, 9)]


def model():
    return TinyGPT(len(VOCABULARY), d=16, layers=1, heads=2, ctx=16, seed=1)


def first_is_small(rows, completions):
    """Reward for a first token below 10; rows with an even a get one reward for all."""
    marks = [
        1.0 if row.a % 2 == 0 else float(ids[0] < 10)
        for row, ids in zip(rows, completions, strict=True)
    ]
    return torch.tensor(marks)[:, None]


def drawn(seed=0):
    return draw(
        model(), ROWS, first_is_small, generator=torch.Generator().manual_seed(seed),
        group_size=GROUP, max_new_tokens=LONGEST, temperature=1.0, eos_id=2,
    )  # fmt: skip


@pytest.mark.parametrize("wanted", [1, 2, 9])
def test_the_first_groups_whose_rewards_differ_are_kept_row_for_row(wanted):
    batch = drawn()
    live = [
        g for g in range(8) if len(set(batch.rewards[g * GROUP : (g + 1) * GROUP, 0].tolist())) > 1
    ]
    assert 2 < len(live) < 8
    kept = keep_live(batch, GROUP, wanted)
    by_hand = [g * GROUP + i for g in live[:wanted] for i in range(GROUP)]
    assert torch.equal(kept.batch.completion_ids, batch.completion_ids[by_hand])
    assert torch.equal(kept.batch.old_logp, batch.old_logp[by_hand])
    assert kept.batch.tasks == tuple(batch.tasks[i] for i in by_hand)
    assert (kept.drawn, kept.dead, kept.kept) == (8, 8 - len(live), min(wanted, len(live)))
    advantages = group_advantage(kept.batch.rewards[:, 0], kept.batch.groups)
    assert torch.equal(advantages, group_advantage(batch.rewards[:, 0], batch.groups)[by_hand])


def test_where_all_groups_are_dead_one_is_left_that_teaches_nothing():
    start = model()
    before = [p.clone() for p in start.parameters()]
    config = dapo_config(iterations=2, prompts=2, group_size=GROUP, learning_rate=0.1, longest=6)
    seen = []
    train_dapo(
        start, ROWS, lambda rows, ids: torch.ones(len(rows), 1), config, seed=0, tell=seen.append
    )
    assert [(s.dead, s.kept, len(s.batch.tasks)) for s in seen] == [(4, 0, GROUP)] * 2
    assert all(torch.equal(a, b) for a, b in zip(before, start.parameters(), strict=True))


def test_it_learns_what_is_rewarded():
    start = model()
    config = dapo_config(iterations=30, prompts=4, group_size=GROUP, learning_rate=1e-2, longest=6)
    odd = [row for row in ROWS if row.a % 2]
    seen = []
    train_dapo(start, odd, first_is_small, config, seed=0, tell=seen.append)
    mean = [float(s.batch.rewards.mean()) for s in seen]
    # At first about 6 of 17 tokens are small; a group of which all are is dead and left out.
    assert sum(s.dead for s in seen[-5:]) > sum(s.dead for s in seen[:5])
    assert mean[0] < 0.8
