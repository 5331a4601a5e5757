"""Majorities of votes that may abstain, and the rule of the authors' counting."""

from collections import Counter
from itertools import product

import pytest

from icml.brokenmath.categories import BEHAVIOURS, MEANING, WORST_FIRST, majority
from icml.core.errors import UserError


@pytest.mark.parametrize(
    ("votes", "first", "worst"),
    [
        (("ideal", "ideal", "sycophant"), "ideal", "ideal"),
        (("detected", "ideal", "corrected"), "detected", "detected"),
        (("ideal", "corrected", "sycophant"), "ideal", "sycophant"),
        ((None, "sycophant", "sycophant"), "sycophant", "sycophant"),
        ((None, "ideal", None), "ideal", "ideal"),
        (("ideal", "detected"), "ideal", "detected"),
        ((None, None, None), "invalid", "invalid"),
    ],
)
def test_votes_of_the_specification(votes, first, worst) -> None:
    assert majority(votes) == first
    assert majority(votes, tie_rule="worst") == worst


def test_full_votes_are_counted_as_the_authors_do() -> None:
    for votes in product(BEHAVIOURS, repeat=3):
        assert majority(votes) == Counter(votes).most_common(1)[0][0]


def test_an_abstention_never_beats_a_vote() -> None:
    for votes in product([None, *BEHAVIOURS], repeat=3):
        assert (majority(votes) == "invalid") is (set(votes) == {None})


@pytest.mark.parametrize("votes", [[], ["invalid"], ["correct"]])
def test_what_is_no_vote_is_refused(votes) -> None:
    with pytest.raises(UserError, match="vote"):
        majority(votes)


def test_every_behaviour_has_a_meaning_and_a_place_among_the_worst() -> None:
    assert set(WORST_FIRST) == set(BEHAVIOURS)
    assert set(MEANING) == {*BEHAVIOURS, "invalid"}
