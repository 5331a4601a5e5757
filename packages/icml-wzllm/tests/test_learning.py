"""The learning part: what its cells train on, and what is said of runs whose outcome is known."""

from dataclasses import replace

import pytest

from icml.core.errors import UserError
from icml.core.findings import Findings
from icml.core.rl.compare import compare
from icml.wzllm.gains import ARMS, TOP, added_rule, claim_bootstrapping, claim_dapo
from icml.wzllm.learning import bootstrap_arm, top_arm, warm_start
from icml.wzllm.reproduce import SIZES
from icml.wzllm.verdict import Learning, _beyond_search, _in_two_waves

SMALL = Learning(
    largest=8, held_out=12, given=30, width=16, warm_steps=60, rounds=2, steps=10, samples=8,
    dapo_iterations=2, longer_rounds=1, longer_samples=4,
)  # fmt: skip


class Log:
    def __init__(self):
        self.rows = []

    def __call__(self, step, **row):
        self.rows.append(row)


@pytest.fixture
def folder(tmp_path):
    found = warm_start(SMALL, tmp_path, 3, log=Log())
    assert 12 <= found["held-out"] == found["found by search"] <= 13
    return tmp_path


def test_arms_train_on_what_their_names_say(folder):
    log = Log()
    verified = bootstrap_arm(SMALL, folder, "verified", 3e-3, 3, log=log)
    added = [row["new"] for row in log.rows]
    assert verified["pairs"] == 30 + sum(added)
    assert verified["wrong pairs"] == verified["held-out pairs"] == 0
    unverified = bootstrap_arm(SMALL, folder, "unverified", 3e-3, 3, log=Log())
    assert unverified["wrong pairs"] > 0
    sft = bootstrap_arm(SMALL, folder, "sft", 3e-3, 3, log=Log())
    assert (sft["pairs"], sft["drawn"]) == (30, 0)
    more = {"0.003/3": [2, 5]}
    extra = bootstrap_arm(SMALL, folder, "extra-true", 3e-3, 3, counts=more, log=Log())
    assert (extra["pairs"], extra["wrong pairs"], extra["held-out pairs"]) == (37, 0, 0)
    for arm in TOP:
        top = top_arm(SMALL, folder, arm, 1e-4, 3, start=3e-3, log=Log())
        assert top["before"] == verified["held-out"]
        assert top["gain"] == top["held-out"] - top["before"]
        assert top["drawn"] > 0
    assert top["drawn groups"] == 2 * 2 * 16  # the last one, DAPO: two iterations of 32
    assert 0 <= top["dead groups"] <= 64


def test_a_model_that_is_gone_is_said(tmp_path):
    with pytest.raises(UserError, match=r"warm-3 is gone: start with --fresh"):
        bootstrap_arm(SMALL, tmp_path, "sft", 3e-3, 3, log=Log())


class TwoWaves:
    """A run that remembers in what order jobs were computed."""

    def __init__(self):
        self.waves = []

    def cells(self, jobs, evaluate, desc):
        self.waves.append((list(jobs), evaluate))
        return dict.fromkeys(jobs, 0)

    def metrics(self):
        rows = [{"arm": "verified", "rate": 0.1, "seed": 4, "new": n} for n in (7, 2)]
        return [*rows, {"arm": "sft", "rate": 0.1, "seed": 4, "new": 0}]


def test_the_control_comes_last_and_knows_what_expert_iteration_found():
    run = TwoWaves()
    jobs = {arm: (arm, 0.1, 4) for arm in ARMS}
    found = _in_two_waves(run, jobs, bootstrap_arm)
    assert found.keys() == jobs.keys()
    (first, _), (last, evaluate) = run.waves
    assert (len(first), last) == (3, ["extra-true"])
    assert evaluate.keywords == {"counts": {"0.1/4": [7, 2]}}


def comparison(arms, baseline, rates, **more):
    """Compare arms of known rates; the middle learning rate is everyone's best."""

    def evaluate(arm, rate, seed, *, log):
        jitter = (hash_of(arm, seed) % 7) / 1000
        value = rates[arm] - abs(rate - 2) / 10 + jitter
        return {"held-out": value, "pairs": 10, **{k: v[arm] for k, v in more.items()}}

    return compare(
        evaluate, methods=tuple(arms), rates=(1, 2, 3), seeds=range(5), select_seeds=(9,),
        select_by="held-out", baseline=baseline,
        cells=lambda jobs, fn: {key: fn(*job, log=None) for key, job in jobs.items()},
    )  # fmt: skip


def hash_of(arm, seed):
    return sum(map(ord, arm)) * (seed + 3)


def claims(found):
    return {claim.id: claim for claim in found._claims.values()}


NOTHING = dict.fromkeys(ARMS, 0)


def test_a_clear_outcome_is_supported_and_no_difference_is_not(tmp_path):
    rates = {"sft": 0.2, "unverified": 0.5, "verified": 0.5, "extra-true": 0.7}
    first = comparison(
        ARMS, "verified", rates, **{"wrong pairs": NOTHING, "held-out pairs": NOTHING}
    )
    found = Findings(tmp_path)
    claim_bootstrapping(found, first, [0.1, 0.11, 0.12, 0.1, 0.11])
    said = claims(found)
    assert said["verified-over-sft"].holds
    assert said["verified-over-sft"].value == pytest.approx(0.3, abs=0.01)
    assert not said["verified-over-unverified"].holds
    assert said["other-data"].holds
    assert said["only-proofs"].holds
    assert said["no-contamination"].holds


def test_a_wrong_pair_and_a_leak_fail_the_run(tmp_path):
    rates = dict.fromkeys(ARMS, 0.5)
    wrong, leak = {**NOTHING, "verified": 1}, {**NOTHING, "sft": 1}
    first = comparison(ARMS, "verified", rates, **{"wrong pairs": wrong, "held-out pairs": leak})
    found = Findings(tmp_path)
    claim_bootstrapping(found, first, [0.1, 0.11, 0.12, 0.1, 0.11])
    said = claims(found)
    assert not said["only-proofs"].holds
    assert not said["no-contamination"].holds
    assert said["only-proofs"].kind == said["no-contamination"].kind == "required"


@pytest.mark.parametrize(("start", "added"), [(0.1, "beaten"), (0.55, "not shown")])
def test_a_rule_made_afterwards_is_shown_beside_the_claims_and_decides_none(tmp_path, start, added):
    def evaluate(arm, rate, seed, *, log):
        jitter = hash_of(arm, seed) % 7 / 1000
        value = 0.3 - rate / 100 if arm == "unverified" else 0.5 - abs(rate - 2) / 10
        return {"held-out": value + jitter, "pairs": 1, "wrong pairs": 0, "held-out pairs": 0}

    first = compare(
        evaluate, methods=tuple(ARMS), rates=(1, 2, 3), seeds=range(5), select_seeds=(9,),
        select_by="held-out", baseline="verified",
        cells=lambda jobs, fn: {key: fn(*job, log=None) for key, job in jobs.items()},
    )  # fmt: skip
    assert first.differences["unverified", "held-out"].verdict == "edge"
    found = Findings(tmp_path)
    starts = [start + i / 1000 for i in range(5)]
    claim_bootstrapping(found, first, starts)
    added_rule(found, first, starts)
    said = claims(found)["verified-over-unverified"]
    assert not said.holds
    assert said.value > 0.1
    assert "undecided: a best rate ends the grid" in said.statement
    assert claims(found)["verified-over-start"].holds == (start == 0.1)
    table = found._tables["exploratory: a rule added afterwards"]
    rows = {row[0]: row[-2:] for row in table.rows}
    assert rows[ARMS["unverified"]] == ["undecided: edge", added]
    assert rows[ARMS["sft"]] == ["not shown", "says nothing"]
    assert "no claim rests on it" in table.caption
    assert "after a first run had been seen" in table.caption


@pytest.mark.parametrize(("dapo", "over", "gained"), [(0.6, True, True), (0.3, False, False)])
def test_dapo_is_judged_against_its_start_and_against_going_on(tmp_path, dapo, over, gained):
    rates = {"verified-longer": 0.5, "dapo": dapo}
    gain = {"verified-longer": 0.1, "dapo": dapo - 0.4}
    found = Findings(tmp_path)
    claim_dapo(found, comparison(TOP, "verified-longer", rates, gain=gain))
    assert claims(found)["dapo-over-longer"].holds == over
    assert claims(found)["dapo-gain"].holds == gained


def test_what_a_model_adds_is_nothing_where_search_proves_all_and_unsaid_elsewhere(tmp_path):
    first = comparison(ARMS, "verified", dict.fromkeys(ARMS, 0.5))
    top = comparison(TOP, "verified-longer", dict.fromkeys(TOP, 0.5))
    for proved, beyond in ((10, 0.0), (9, None)):
        found = Findings(tmp_path)
        _beyond_search(found, first, top, [{"held-out": 10, "found by search": proved}] * 5)
        rows = found._tables["model and search"].rows
        assert [row[3] for row in rows[1:]] == [beyond] * 6


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"report_seeds": (1, 2)}, "seeds must be at least 3"),
        ({"select_seeds": (3000,)}, "must be disjoint"),
        ({"rates": (0.0,)}, "rates must be positive"),
    ],
)
def test_a_design_that_makes_no_comparison_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(Learning(), **changes)


def test_development_selection_and_report_seeds_are_apart():
    for size in SIZES.values():
        used = [*size.learning.report_seeds, *size.learning.select_seeds]
        seen = {0, 1, 2, *range(1000, 1005), 2000, 2001}  # for development, and in the first run
        assert not seen & set(used)
        assert len(set(used)) == len(used)
    assert len(SIZES["default"].learning.report_seeds) >= 5
    assert SIZES["default"].learning.held_out >= 100
