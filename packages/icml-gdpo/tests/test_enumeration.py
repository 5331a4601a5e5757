"""The exact counts against a floating-point count and against what can be said in closed form."""

from itertools import combinations_with_replacement, product
from math import comb

import pytest
import torch

from icml.gdpo import distinct_counts, distinct_table, gdpo_advantages, grpo_advantages
from icml.gdpo.enumeration import PAPER_GRID

# (rewards, group size): GRPO, GDPO.
TABLE = {
    (2, 2): (2, 3), (2, 3): (4, 6), (2, 4): (7, 14), (2, 5): (11, 26), (2, 6): (16, 38),
    (3, 2): (2, 4), (3, 3): (6, 10), (3, 4): (14, 45), (4, 2): (2, 5), (4, 3): (8, 15),
}  # fmt: skip


def counted_with_floats(rewards, size):
    """Distinct sorted advantages without eps, equal to nine digits in float64."""
    vectors = list(product((0.0, 1.0), repeat=rewards))
    groups = list(combinations_with_replacement(vectors, size))
    table = torch.tensor(groups, dtype=torch.float64).reshape(-1, rewards)
    grpo = grpo_advantages(table, size, eps=0.0)
    gdpo = gdpo_advantages(table, size, eps=0.0, batch_norm="none")
    return tuple(
        len({tuple(row) for row in (a.view(-1, size).sort().values * 1e9).round().long().tolist()})
        for a in (grpo, gdpo)
    )


def test_table_of_the_papers_sizes():
    counts = {(row.rewards, row.group_size): (row.grpo, row.gdpo) for row in distinct_table()}
    assert counts == TABLE


@pytest.mark.parametrize("size", PAPER_GRID)
def test_exact_counts_equal_a_floating_point_count(size):
    exact = distinct_counts(*size)
    assert (exact.grpo, exact.gdpo) == counted_with_floats(*size)


@pytest.mark.parametrize("rewards", range(1, 7))
def test_a_pair_shows_grpo_a_sign_and_gdpo_a_number(rewards):
    # A pair's advantages are +-x: GRPO sees x = 0 or not, GDPO how many more rewards one has.
    counts = distinct_counts(rewards, 2)
    assert (counts.grpo, counts.gdpo) == (2, rewards + 1)


@pytest.mark.parametrize("size", range(1, 8))
def test_one_reward_is_the_same_for_both(size):
    # The number of ones, where none and all give the same zeros.
    counts = distinct_counts(1, size)
    assert (counts.grpo, counts.gdpo) == (size, size)


@pytest.mark.parametrize("size", [(2, 6), (3, 4), (5, 2)])
def test_groups_are_the_multisets_of_reward_vectors(size):
    rewards, group_size = size
    assert distinct_counts(*size).groups == comb(2**rewards + group_size - 1, group_size)


@pytest.mark.parametrize(
    ("size", "message"),
    [((0, 2), "must be at least 1"), ((2, 0), "must be at least 1"),
     ((10**9, 2), "more than 1,000,000 groups"), ((8, 8), "more than 1,000,000 groups")],
)  # fmt: skip
def test_sizes_out_of_range_are_refused(size, message):
    with pytest.raises(ValueError, match=message):
        distinct_counts(*size)
