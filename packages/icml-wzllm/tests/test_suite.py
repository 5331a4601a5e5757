"""The shipped identities: no status contradicts what is known of them."""

import pytest

from icml.wzllm.certify import certify
from icml.wzllm.experiment import perturbed
from icml.wzllm.finite import check_small_values
from icml.wzllm.identities import suite
from icml.wzllm.verification import verify

ITEMS = {item.id: item for item in suite()}


def test_the_suite_has_78_identities_with_distinct_ids():
    assert len(ITEMS) == len(suite()) == 78
    assert sum(not item.holds for item in suite()) == 7


@pytest.mark.parametrize("name", ITEMS)
def test_a_verdict_is_right_and_stands_up_to_the_judge(name):
    item = ITEMS[name]
    checked = check_small_values(item.identity)
    assert (checked.counterexample is None) == item.holds
    outcome = certify(item.identity)
    if not item.holds or not item.hypergeometric:
        assert outcome.status != "certified"
    elif outcome.status == "certified":
        assert verify(outcome.certificate, item.identity).accepted
        assert not any(verify(fake).accepted for fake in perturbed(outcome.certificate))
    else:
        # One true statement is beyond the method: the sum's natural lower end is a parameter.
        assert item.identity.name == "trinomial product rule"


@pytest.mark.parametrize(
    ("name", "values", "lhs", "rhs"),
    [
        ("wz74", {"n": 1}, "2", "3"),
        ("wz75", {"n": 3}, "20", "26"),
        ("wz76", {"n": 5}, "31", "32"),
        ("wz77", {"n": 1}, "-6", "6"),
    ],
)
def test_the_smallest_counterexample_is_the_one_worked_out_by_hand(name, values, lhs, rhs):
    found = check_small_values(ITEMS[name].identity).counterexample
    assert (found.values, found.lhs, found.rhs) == (values, lhs, rhs)
