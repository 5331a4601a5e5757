"""What must hold whatever the batch is, and a plain reading of the paper's text in Python."""

import math
import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from icml.empg import EMPGParams, empg_modulate, entropy_stats

# Random advantages are often all alike, where the bonus rightly stands out.
pytestmark = pytest.mark.filterwarnings("ignore::icml.empg.ClarityBonusWarning")

MANY = settings(deadline=None, max_examples=60)


@st.composite
def batches(draw):
    """(advantages, step entropies, next steps) of episodes of different lengths, steps shuffled."""
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    count = sum(lengths)
    of = st.lists(st.integers(-4, 4), min_size=len(lengths), max_size=len(lengths))
    advantages = [a / 4 for a, n in zip(draw(of), lengths, strict=True) for _ in range(n)]
    entropy = draw(st.lists(st.integers(0, 12), min_size=count, max_size=count))
    ends = {sum(lengths[: i + 1]) - 1 for i in range(len(lengths))}
    order = draw(st.permutations(range(count)))
    place = {step: i for i, step in enumerate(order)}
    following = [-1 if step in ends else place[step + 1] for step in order]
    values = torch.tensor(advantages, dtype=torch.float64), torch.tensor(entropy).double() / 4
    return values[0][list(order)], values[1][list(order)], torch.tensor(following)


@st.composite
def parameters(draw):
    unit = st.integers(0, 8).map(lambda n: n / 4)
    return EMPGParams(
        k=draw(unit), k_future=draw(unit), zeta=draw(st.sampled_from([0.0, 0.1, 0.7])),
        center=draw(st.booleans()), last_step_bonus=draw(st.sampled_from(["none", "mean"])),
        bonus_baseline=draw(st.sampled_from(["none", "turn"])),
        entropy_clip_quantile=draw(st.sampled_from([None, 0.5, 0.9])),
        skip_zero_groups=draw(st.booleans()),
    )  # fmt: skip


def by_the_text(advantages, entropy, following, params):
    """Equations 7, 8 and 10 to 12, and our variants, step by step in plain Python."""
    steps = range(len(entropy))
    if params.entropy_clip_quantile is not None:
        ordered = sorted(entropy)
        at = params.entropy_clip_quantile * (len(ordered) - 1)
        low, high = ordered[math.floor(at)], ordered[math.ceil(at)]
        cap = low + (at - math.floor(at)) * (high - low)
        entropy = [min(h, cap) for h in entropy]
    h_norm = [(h - min(entropy)) / (max(entropy) - min(entropy) + params.eps) for h in entropy]
    weight = [math.exp(-params.k * h) for h in h_norm]
    g = [w / (statistics.fmean(weight) + params.eps) for w in weight]
    f = [math.exp(-params.k_future * h) for h in h_norm]
    turn = {}
    for first in set(steps) - set(following):
        step, count = first, 0
        while step != -1:
            turn[step], step, count = count, following[step], count + 1
    bonus = {}
    for t in steps:
        if following[t] != -1:
            bonus[t] = params.zeta * f[following[t]]
        elif params.last_step_bonus == "mean":
            bonus[t] = params.zeta * statistics.fmean(f)
    if params.bonus_baseline == "turn":
        means = {
            n: statistics.fmean(bonus[t] for t in bonus if turn[t] == n)
            for n in {turn[t] for t in bonus}
        }
        bonus = {t: bonus[t] - means[turn[t]] for t in bonus}
    kept = [t for t in steps if not params.skip_zero_groups or abs(advantages[t]) >= 1e-3]
    modulated = {t: advantages[t] * g[t] + bonus.get(t, 0.0) for t in kept}
    mean = statistics.fmean(modulated.values()) if modulated and params.center else 0.0
    return [modulated[t] - mean if t in modulated else 0.0 for t in steps]


@MANY
@given(batches(), parameters())
def test_a_plain_reading_of_the_text_gives_the_same(batch, params):
    expected = by_the_text(*(part.tolist() for part in batch), params)
    found = empg_modulate(*batch, params).advantages
    assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-9)


@MANY
@given(batches())
def test_without_slope_and_bonus_only_the_mean_over_steps_goes(batch):
    advantages, entropy, following = batch
    found = empg_modulate(advantages, entropy, following, EMPGParams(k=0, zeta=0))
    expected = advantages - advantages.mean()
    assert_close(found.advantages, expected, rtol=0, atol=1e-7)  # g = 1 / (1 + 1e-8)


@MANY
@given(batches())
def test_without_slope_bonus_and_centring_float32_advantages_are_unchanged_to_the_bit(batch):
    advantages, entropy, following = batch[0].float() / 3, batch[1].float(), batch[2]
    params = EMPGParams(k=0, zeta=0, center=False)
    assert torch.equal(empg_modulate(advantages, entropy, following, params).advantages, advantages)


@MANY
@given(batches(), parameters())
def test_weights_have_mean_one_and_fall_with_entropy(batch, params):
    g = empg_modulate(*batch, params).g
    assert float(g.mean()) == pytest.approx(1, abs=1e-7)  # eps is 1e-8, exp(-k Hn) > .1
    by_entropy = g[batch[1].argsort()]
    assert bool((by_entropy.diff() <= 1e-12).all())


@MANY
@given(batches())
def test_without_bonus_and_centring_signs_stay(batch):
    found = empg_modulate(*batch, EMPGParams(zeta=0, center=False))
    assert torch.equal(found.advantages.sign(), batch[0].sign())


@MANY
@given(batches(), st.integers(1, 9), st.integers(0, 9))
def test_an_increasing_affine_change_of_the_entropies_changes_nothing(batch, scale, shift):
    advantages, entropy, following = batch
    params = EMPGParams(eps=0.0)
    before = empg_modulate(advantages, entropy, following, params).advantages
    after = empg_modulate(advantages, entropy * scale + shift, following, params).advantages
    assert_close(after, before)


@MANY
@given(batches(), parameters(), st.randoms(use_true_random=False))
def test_permuted_steps_give_permuted_advantages(batch, params, random):
    advantages, entropy, following = batch
    order = torch.tensor(random.sample(range(len(entropy)), len(entropy)))
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order))
    moved = torch.where(following[order] >= 0, place[following[order].clamp(min=0)], -1)
    found = empg_modulate(advantages[order], entropy[order], moved, params).advantages
    assert_close(found, empg_modulate(*batch, params).advantages[order])


@MANY
@given(batches(), parameters())
def test_centred_advantages_sum_to_zero_over_steps(batch, params):
    total = float(empg_modulate(*batch, params).advantages.sum())
    if params.center:
        assert total == pytest.approx(0, abs=1e-10)


@MANY
@given(batches(), parameters(), st.integers(0, 5))
def test_two_processes_that_reduce_give_the_result_of_one(batch, params, rows):
    cut = min(rows, len(batch[1]))
    # A cut through an episode would part a step from its next one.
    following = [
        int(n) if (n < cut) == (t < cut) or n < 0 else -1 for t, n in enumerate(batch[2].tolist())
    ]
    whole = batch[0], batch[1], torch.tensor(following)
    local = torch.where(whole[2] >= cut, whole[2] - cut, whole[2])
    parts = [
        (batch[0][:cut], batch[1][:cut], whole[2][:cut]),
        (batch[0][cut:], batch[1][cut:], local[cut:]),
    ]
    found = in_step(parts, params)
    assert_close(torch.cat(found), empg_modulate(*whole, params).advantages, rtol=0, atol=1e-9)


def in_step(parts, params):
    """Modulate each part in a thread of its own; a barrier stands in for the network."""
    import threading

    slots, results = [None] * len(parts), [None] * len(parts)
    meet = threading.Barrier(len(parts), timeout=30)

    def reducer(rank):
        def reduce(values, op):
            slots[rank] = values
            meet.wait()
            everyone = list(slots)
            meet.wait()
            if op == "concat":
                return torch.cat(everyone)
            stacked = torch.stack(everyone)
            return stacked.amax(0) if op == "max" else stacked.sum(0)

        return reduce

    def work(rank):
        results[rank] = empg_modulate(*parts[rank], params, reduce=reducer(rank)).advantages

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_entropy_statistics_reduce_in_two_rounds():
    rounds = []

    def reduce(values, op):
        rounds.append((op, len(values)))
        return values

    entropy_stats(torch.tensor([1.0, 2.0]), reduce=reduce)
    assert rounds == [("max", 2), ("sum", 3)]
