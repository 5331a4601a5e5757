import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icml.core.errors import UserError
from icml.wzllm.training.refill import (
    candidate_groups,
    dead_groups,
    joined,
    new_prompts,
    rows_of,
    trimmed,
)

NAN = math.nan


@pytest.mark.parametrize(
    ("rewards", "weights", "dead"),
    [
        ([[0.1], [0.1], [0.1]], [1.0], True),
        ([[0.1], [0.1], [0.2]], [1.0], False),
        ([[1, 0], [0, 1], [1, 0]], [1.0, 1.0], True),  # equal in total
        ([[1, 0], [0, 1], [1, 0]], [1.0, 2.0], False),
        ([[NAN], [1], [NAN]], [1.0], True),  # one that was scored
        ([[NAN], [1], [0]], [1.0], False),
        ([[NAN], [NAN], [NAN]], [1.0], True),
        ([[NAN, 1], [1, NAN], [0.5, 0.5]], [1.0, 1.0], True),
    ],
)
def test_a_group_is_dead_where_all_its_scored_totals_are_equal(rewards, weights, dead):
    found = dead_groups(torch.tensor(rewards), torch.tensor(weights), 3)
    assert found.tolist() == [dead]


@given(st.integers(1, 40), st.integers(2, 16), st.integers(1, 16))
def test_candidates_are_the_fewest_groups_that_processes_can_share_evenly(dead, size, processes):
    enough = next(c for c in range(dead, 1000) if c * size % processes == 0)
    assert candidate_groups(dead, size, processes) == enough


@given(st.lists(st.sampled_from("abcdef"), max_size=12), st.sets(st.sampled_from("abc")))
def test_every_prompt_that_is_not_used_is_drawn_once(prompts, used):
    drawn = list(new_prompts(len(prompts), prompts.__getitem__, used, "0"))
    assert sorted(prompts[i] for i in drawn) == sorted({*prompts} - used)
    assert drawn == list(new_prompts(len(prompts), prompts.__getitem__, used, "0"))


def batch(prompts, completions):
    """Make a batch of token ids, its padding being 0."""
    wide = max(map(len, prompts))
    long = max(map(len, completions))
    return {
        "prompt_ids": torch.tensor([[0] * (wide - len(p)) + p for p in prompts]),
        "prompt_mask": torch.tensor([[0] * (wide - len(p)) + [1] * len(p) for p in prompts]),
        "completion_ids": torch.tensor([c + [0] * (long - len(c)) for c in completions]),
        "completion_mask": torch.tensor(
            [[1] * len(c) + [0] * (long - len(c)) for c in completions]
        ),
        "advantages": torch.arange(float(len(prompts))),
    }


LISTS = st.lists(st.integers(1, 9), min_size=1, max_size=5)
PAIRS = st.lists(st.tuples(LISTS, LISTS), min_size=2, max_size=6)


@given(PAIRS, PAIRS)
def test_joined_and_trimmed_batches_are_those_that_padding_at_once_gives(first, second):
    parts = [batch(*map(list, zip(*pairs, strict=True))) for pairs in (first, second)]
    whole = batch(*map(list, zip(*first, *second, strict=True)))
    whole["advantages"] = torch.cat([part["advantages"] for part in parts])
    found = joined(*parts, pad_id=0)
    assert found.keys() == whole.keys()
    assert all(torch.equal(found[name], whole[name]) for name in whole)
    tail = trimmed({name: t[len(first) :] for name, t in found.items()}, None)
    assert all(torch.equal(tail[name], parts[1][name]) for name in tail)


def test_widths_stay_multiples():
    found = trimmed(batch([[1] * 5, [1]], [[1] * 7, [1]]), 4)
    assert found["prompt_ids"].shape[1] == 5  # TRL made no more
    wide = batch([[1] * 9, [1]], [[1] * 9, [1]])
    assert trimmed({k: v[1:] for k, v in wide.items()}, 4)["completion_ids"].shape == (1, 4)


def test_a_batch_with_images_is_refused():
    text = batch([[1]], [[1]])
    with pytest.raises(UserError, match="can't refill a batch with pixel_values"):
        rows_of({**text, "pixel_values": torch.zeros(1)})
