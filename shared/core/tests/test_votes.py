from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml.core.errors import UserError
from icml.core.votes import majority

WORST_FIRST = ["sycophant", "detected", "corrected", "ideal"]


@pytest.mark.parametrize(
    ("votes", "first", "worst"),
    [
        (["ideal", "ideal", "sycophant"], "ideal", "ideal"),
        (["detected", "ideal", "corrected"], "detected", "detected"),
        (["ideal", "corrected", "sycophant"], "ideal", "sycophant"),
        (["ideal", "sycophant"], "ideal", "sycophant"),
        ([None, "sycophant", "sycophant"], "sycophant", "sycophant"),
        ([None, None, "ideal"], "ideal", "ideal"),
        ([None, None, None], None, None),
        ([], None, None),
    ],
)
def test_the_most_cast_vote_wins_and_the_rule_breaks_ties(votes, first, worst) -> None:
    assert majority(votes) == first
    assert majority(votes, tie_rule="worst", order=WORST_FIRST) == worst


@given(st.lists(st.sampled_from(WORST_FIRST), min_size=1))
def test_without_abstention_first_is_what_a_counter_says(votes) -> None:
    # Counter.most_common keeps the order of first encounter among equal counts (documented).
    assert majority(votes) == Counter(votes).most_common(1)[0][0]


@given(st.lists(st.sampled_from([*WORST_FIRST, None])), st.randoms(use_true_random=False))
def test_under_worst_neither_the_order_of_votes_nor_abstentions_matter(votes, random) -> None:
    found = majority(votes, tie_rule="worst", order=WORST_FIRST)
    shuffled = [vote for vote in votes if vote is not None]
    random.shuffle(shuffled)
    assert majority(shuffled, tie_rule="worst", order=WORST_FIRST) == found
    counts = Counter(shuffled)
    most = max(counts.values(), default=0)
    assert found == next((vote for vote in WORST_FIRST if most and counts[vote] == most), None)


@pytest.mark.parametrize("order", [[], ["ideal"], ["ideal", "ideal", "detected"]])
def test_worst_without_an_order_of_all_votes_is_refused(order) -> None:
    with pytest.raises(UserError, match="order that names each possible vote once"):
        majority(["ideal", "detected"], tie_rule="worst", order=order)


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(UserError, match="'first' or 'worst', got 'last'"):
        majority(["a"], tie_rule="last")
