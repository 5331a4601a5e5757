import pytest
import torch

from icml.core.errors import UserError
from icml.me import Ensemble, verify_equivalence
from icml.me.equivalence import exact_distribution, goodness_of_fit
from icml.me.sampling import Sampling

PROMPT = torch.tensor([3, 5, 7])


def test_the_exact_law_is_that_of_loops_over_whole_forward_passes(trio, reference_law):
    models = [member.model for member in trio.members]
    wanted = reference_law(models, [0.5, 0.3, 0.2], PROMPT.tolist(), 2)
    found = exact_distribution(trio, PROMPT, steps=2)
    assert found.keys() == wanted.keys()
    # float32 softmax against float64
    assert max(abs(found[key] - wanted[key]) for key in wanted) < 1e-6


def test_sequences_end_at_an_end_token_and_sum_to_1(random_model):
    pair = Ensemble([random_model(0, ends=[1]), random_model(1, ends=[2])])
    law = exact_distribution(pair, PROMPT, steps=3)
    assert sum(law.values()) == pytest.approx(1)
    for sequence in law:
        assert len(sequence) == 3 or sequence[-1] in {1, 2}
        assert not {1, 2} & set(sequence[:-1])


def test_unlikely_beginnings_can_be_left_out(trio):
    whole = exact_distribution(trio, PROMPT, steps=2)
    likely = exact_distribution(trio, PROMPT, steps=2, min_probability=0.01)
    assert likely == {key: p for key, p in whole.items() if p > 0.01}


@pytest.mark.parametrize("method", ["me", "ce"])
def test_a_right_configuration_passes(random_model, method):
    pair = Ensemble([random_model(0, ends=[1]), random_model(1, ends=[2])], weights=[1, 2])
    report = verify_equivalence(
        pair, PROMPT, steps=2, n=10_000, alpha=1e-4, method=method, temperature=0.8, top_k=6
    )
    assert report.holds
    assert 0 < report.tv_upper < 0.2


def test_one_member_does_not_pass_for_the_ensemble(trio):
    from collections import Counter

    law = exact_distribution(trio, PROMPT, steps=1)
    alone = trio.generate(PROMPT.expand(5000, -1), method="single", max_new_tokens=1, seed=0)
    counts = Counter((token,) for token in alone.sequences[:, -1].tolist())
    assert goodness_of_fit(law, counts, 5000).p_value < 1e-12


def test_one_sample_of_an_impossible_sequence_refutes_the_law(trio):
    from collections import Counter

    law = exact_distribution(trio, PROMPT, steps=1, sampling=Sampling(top_k=1))
    possible = list(law)
    impossible = next((t,) for t in range(12) if (t,) not in law)
    counts = Counter({possible[0]: 999, impossible: 1})
    assert goodness_of_fit(law, counts, 1000).p_value == 0


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"temperature": 0}, "favourite of a random member"),
        ({"warp": "after_mix", "top_k": 2}, "never computes the mixture"),
        ({"selection": "shared"}, r"settings are method, .*, got \['selection'\]"),
        ({"n": 0}, "steps, n and batch must be >= 1"),
        ({"alpha": 0}, r"alpha in \(0, 1\)"),
    ],
)
def test_what_cannot_be_tested_is_refused(trio, settings, reason):
    with pytest.raises(UserError, match=reason):
        verify_equivalence(trio, PROMPT, **settings)


def test_a_router_has_no_law_to_enumerate(random_model):
    routed = Ensemble([random_model(0)], weights=lambda ids, text, step: torch.ones(1))
    with pytest.raises(UserError, match="constant weights only"):
        verify_equivalence(routed, PROMPT)
