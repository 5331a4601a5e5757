import pytest

from icml.agent_omit.ledger import Omissions
from icml.agent_omit.rules import Both, KeepLast, LeaveOut, NoThought, Oracle, Random, omissions


def test_no_thought_empties_all_thoughts_or_those_in_the_middle():
    assert omissions(NoThought(), 4).thoughts == {1, 2, 3, 4}
    assert omissions(NoThought(middle=True), 4).thoughts == {2, 3}
    assert omissions(NoThought(middle=True), 1).thoughts == set()
    assert omissions(NoThought(), 4).gone == {}


def test_keep_last_shows_so_many_observations_in_every_prompt():
    found = omissions(KeepLast(2), 5)
    shown = [[k for k in range(1, t + 1) if not found.hidden(k, t)] for t in range(1, 6)]
    assert shown == [[1], [1, 2], [2, 3], [3, 4], [4, 5]]
    assert found.thoughts == set()


def test_an_oracle_keeps_what_is_needed_and_drops_the_rest_once_it_is_read():
    found = omissions(Oracle(thoughts={3}, observations={1}), 4)
    assert found.thoughts == {1, 2, 4}
    assert found.gone == {2: 3, 3: 4, 4: 5}


def test_both_leaves_out_what_either_does_and_the_earlier_one_counts():
    found = omissions(Both(KeepLast(2), Oracle(thoughts={1, 2, 3}, observations={1})), 3)
    assert found.gone == {1: 3, 2: 3, 3: 4}
    assert omissions(Both(NoThought(), KeepLast(9)), 3).thoughts == {1, 2, 3}


def test_random_is_the_same_each_time_and_differs_between_episodes_and_seeds():
    found = [omissions(Random(0.5, seed), 30, episode=e) for seed, e in ((0, 0), (0, 1), (1, 0))]
    assert found[0] == omissions(Random(0.5), 30)
    assert found[0] != found[1] != found[2] != found[0]


def test_random_leaves_out_its_share():
    # 4,000 coins of 0.3: standard error .0072; 4 of them are missed once in 16,000 runs.
    found = [omissions(Random(0.3), 20, episode=episode) for episode in range(200)]
    assert sum(len(o.thoughts) for o in found) / 4000 == pytest.approx(0.3, abs=0.029)
    assert sum(len(o.gone) for o in found) / 4000 == pytest.approx(0.3, abs=0.029)
    assert omissions(Random(0.0), 5) == omissions(Oracle(range(9), range(9)), 5)
    assert omissions(Random(1.0), 5).gone == {n: n + 1 for n in range(1, 6)}


def test_rules_that_hide_what_was_not_read_are_refused():
    with pytest.raises(ValueError, match="count >= 1, got 0"):
        KeepLast(0)
    with pytest.raises(ValueError, match="the probability must be in"):
        Random(1.5)


def test_leave_out_is_one_element_and_nothing_else():
    assert omissions(LeaveOut(thoughts=[2]), 3) == Omissions(frozenset({2}))
    assert omissions(LeaveOut(observations=[1]), 3) == Omissions(gone={1: 2})
    assert LeaveOut([2], [1]).name == "without thought 2, observation 1"
