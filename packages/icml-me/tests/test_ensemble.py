"""Generation: the law, the cost, seeds, and why a row ends."""

import pytest
import torch

from icml.core.errors import UserError
from icml.me import Ensemble

ALPHA = 1e-4  # chance that a right law fails one of the tests below
PROMPT = torch.tensor([3, 5, 7])


def sample(ensemble, rows, **settings):
    result = ensemble.generate(PROMPT.expand(rows, -1), **settings)
    return result.sequences[:, len(PROMPT) :]


def models(ensemble):
    return [member.model for member in ensemble.members]


@pytest.mark.parametrize("method", ["me", "ce"])
def test_two_tokens_have_the_law_that_enumeration_gives(trio, reference_law, p_value, method):
    law = reference_law(models(trio), [0.5, 0.3, 0.2], PROMPT.tolist(), 2)
    rows = sample(trio, 20_000, method=method, max_new_tokens=2, selection="per_row", seed=0)
    assert p_value(rows, law) > ALPHA


def test_warps_per_model_have_the_law_that_enumeration_gives(trio, reference_law, p_value):
    def warp(logits):
        kept = logits / 0.7
        kept[kept < kept.topk(4).values[-1]] = -torch.inf
        return kept.softmax(-1)

    law = reference_law(models(trio), [0.5, 0.3, 0.2], PROMPT.tolist(), 2, warp)
    law = {key: p for key, p in law.items() if p > 0}
    rows = sample(
        trio, 20_000, max_new_tokens=2, selection="per_row", seed=0, temperature=0.7, top_k=4
    )
    assert p_value(rows, law) > ALPHA


def test_one_member_does_not_have_the_law_of_the_ensemble(trio, reference_law, p_value):
    law = reference_law(models(trio), [0.5, 0.3, 0.2], PROMPT.tolist(), 1)
    rows = sample(trio, 20_000, method="single", max_new_tokens=1, seed=0)
    assert p_value(rows, law) < 1e-12


def test_an_ensemble_of_one_has_the_law_of_generate(random_model, p_value, reference_law):
    model = random_model(0)
    law = reference_law([model], [1.0], PROMPT.tolist(), 2)
    ours = sample(Ensemble([model]), 10_000, max_new_tokens=2, seed=0)
    torch.manual_seed(0)
    theirs = model.generate(
        PROMPT.expand(10_000, -1), attention_mask=torch.ones(10_000, 3), do_sample=True,
        max_new_tokens=2, top_k=0, pad_token_id=0,
    )[:, 3:]  # fmt: skip
    assert p_value(ours, law) > ALPHA
    assert p_value(theirs, law) > ALPHA


@pytest.mark.parametrize("selection", ["shared", "per_row"])
def test_each_row_of_a_batch_has_the_law(random_model, reference_law, p_value, selection):
    members = [random_model(seed) for seed in (0, 1)]
    pair = Ensemble(members, weights=[0.4, 0.6])
    law = reference_law(members, [0.4, 0.6], PROMPT.tolist(), 1)
    batches = torch.stack(
        [sample(pair, 4, max_new_tokens=1, selection=selection, seed=s) for s in range(250)]
    )
    for row in range(4):
        # four rows: a right law fails one of them with a chance of at most 4 * ALPHA
        assert p_value(batches[:, row], law) > ALPHA


def test_rows_are_independent_only_with_a_draw_each(random_model):
    pair = Ensemble([random_model(0), random_model(1)])
    shared, own = (
        pair.generate(PROMPT.expand(4, -1), max_new_tokens=40, selection=how, seed=0).chosen_member
        for how in ("shared", "per_row")
    )
    assert (shared == shared[0]).all()
    agree = (own[0] == own[1]).double().mean()
    # 40 fair coins: outside of [.1, .9] with a chance below 1e-7
    assert 0.1 < agree < 0.9


@pytest.mark.parametrize("batch", [1, 3])
def test_one_forward_pass_a_token_and_every_token_is_read_or_pending(trio, batch, monkeypatch):
    result = trio.generate(PROMPT.expand(batch, -1), max_new_tokens=25, seed=0)
    stats = result.stats
    assert sum(stats.calls) == stats.steps == 25
    chosen = torch.bincount(result.chosen_member[0], minlength=3)
    assert list(stats.calls) == chosen.tolist()
    for member, read in enumerate(stats.tokens):
        # A member has read all that was there when it was drawn last.
        last = (result.chosen_member[0] == member).nonzero().max()
        assert read == batch * (len(PROMPT) + last)


def test_the_conventional_ensemble_runs_every_member_each_time(trio):
    result = trio.generate(PROMPT, method="ce", max_new_tokens=10, seed=0)
    assert result.stats.calls == (10, 10, 10)
    assert (result.chosen_member == -1).all()


@pytest.mark.parametrize("method", ["me", "ce"])
def test_a_member_of_weight_0_is_never_run(random_model, method):
    pair = Ensemble([random_model(0), random_model(1)], weights=[1, 0])
    stats = pair.generate(PROMPT, method=method, max_new_tokens=10, seed=0).stats
    assert (stats.calls, stats.tokens[1], stats.seconds[1]) == ((10, 0), 0, 0.0)


def test_single_runs_the_member_that_is_named(trio):
    assert trio.generate(PROMPT, method="single", member=2, max_new_tokens=9).stats.calls == (
        0,
        0,
        9,
    )


def test_equal_seeds_give_equal_texts_and_no_seed_another_one(trio):
    def tokens(seed):
        return trio.generate(PROMPT, max_new_tokens=30, seed=seed).sequences.tolist()

    assert tokens(5) == tokens(5)
    assert tokens(5) != tokens(6)
    assert tokens(None) != tokens(None)


def test_generation_leaves_the_global_random_state_alone(trio):
    before = torch.get_rng_state()
    trio.generate(PROMPT, max_new_tokens=3, seed=0)
    assert torch.equal(torch.get_rng_state(), before)


def test_padding_on_the_left_changes_nothing(random_model):
    texts = ["ab", "abcdefg"]
    pair = Ensemble(["random:llama?seed=1", "random:llama?seed=2"])
    together = pair.generate(texts, max_new_tokens=12, method="ce", temperature=0, warp="after_mix")
    alone = [
        pair.generate(text, max_new_tokens=12, method="ce", temperature=0, warp="after_mix")
        for text in texts
    ]
    assert together.texts == [each.texts[0] for each in alone]


def test_greedy_takes_the_favourite_of_the_mixture(trio):
    result = trio.generate(
        PROMPT, method="ce", temperature=0, warp="after_mix", max_new_tokens=1, seed=0
    )
    assert result.sequences[0, -1] == trio.next_distribution(PROMPT).argmax()


def test_an_end_token_of_any_member_ends_a_row(random_model):
    members = [random_model(0, ends=[1, 2, 3]), random_model(1, ends=[4, 5])]
    result = Ensemble(members).generate(PROMPT.expand(8, -1), max_new_tokens=60, seed=0)
    new = result.sequences[:, 3:]
    for row, reason in zip(new.tolist(), result.finish_reasons, strict=True):
        ends = [place for place, token in enumerate(row) if token in {1, 2, 3, 4, 5}]
        assert reason == "stop"
        assert set(row[ends[0] + 1 :]) <= {1}  # behind its end a row holds padding only
    assert (result.chosen_member[new == 0] >= 0).all()


def test_generation_ends_at_the_shortest_window(random_model):
    pair = Ensemble([random_model(0, ctx=64), random_model(1, ctx=10)])
    result = pair.generate(PROMPT, max_new_tokens=50, seed=0)
    assert result.sequences.shape == (1, 10)
    assert result.finish_reasons == ("window",)


def test_a_stop_string_ends_the_text_before_it():
    pair = Ensemble(["random:llama?seed=1", "random:llama?seed=2"])
    whole = pair.generate("ab", max_new_tokens=60, seed=3, top_k=5, stop="\0never").texts[0]
    stop = whole[5:8]
    cut = pair.generate("ab", max_new_tokens=60, seed=3, top_k=5, stop=[stop, "\0never"])
    assert cut.texts[0] == whole[: whole.index(stop)]
    assert cut.finish_reasons == ("stop",)


def test_texts_that_are_followed_equal_those_decoded_at_the_end():
    pair = Ensemble(["random:llama?seed=1", "random:llama?seed=2"])
    followed = pair.generate("ab", max_new_tokens=80, seed=4, top_k=9, stop="\0never").texts[0]
    plain = pair.generate("ab", max_new_tokens=80, seed=4, top_k=9).texts[0]
    # An incomplete last character is shown as one sign, or held back.
    assert plain.rstrip("�") == followed.rstrip("�")


class Interrupter:
    """A streamer that presses Ctrl-C at the n-th token."""

    def __init__(self, after):
        self.left = after
        self.ended = False

    def put(self, value):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt

    def end(self):
        self.ended = True


def test_ctrl_c_returns_what_was_generated(trio):
    streamer = Interrupter(after=5)
    result = trio.generate(PROMPT, max_new_tokens=50, seed=0, streamer=streamer)
    whole = trio.generate(PROMPT, max_new_tokens=50, seed=0)
    new = result.sequences[0, 3:]
    assert result.finish_reasons == ("interrupted",)
    assert len(new) == len(result.chosen_member[0]) == 5
    assert new.tolist() == whole.sequences[0, 3:8].tolist()
    assert streamer.ended


def test_a_router_weighs_by_the_text_so_far(random_model):
    seen = []

    def router(ids, text, step):
        seen.append((len(ids), step))
        return torch.tensor([1.0, 0.0]) if step % 2 else torch.tensor([0.0, 3.0])

    result = Ensemble([random_model(0), random_model(1)], weights=router).generate(
        PROMPT, max_new_tokens=6, seed=0
    )
    assert result.chosen_member.tolist() == [[1, 0, 1, 0, 1, 0]]
    assert seen == [(3 + step, step) for step in range(6)]


def test_a_router_gives_each_row_its_own_member(random_model):
    pair = Ensemble(
        [random_model(0), random_model(1)],
        weights=lambda ids, text, step: torch.tensor([1.0, 0.0] if ids[0] == 3 else [0.0, 1.0]),
    )
    result = pair.generate(torch.tensor([[3, 5], [4, 5]]), max_new_tokens=4, seed=0)
    assert result.chosen_member.tolist() == [[0] * 4, [1] * 4]


def test_logprobs_are_the_log_of_the_mean_probability(trio):
    text = torch.tensor([1, 8, 2, 2])
    ids = torch.cat([PROMPT, text])[None]
    with torch.no_grad():
        laws = [model(ids).logits[0, 2:-1].double().softmax(-1) for model in models(trio)]
    mean = 0.5 * laws[0] + 0.3 * laws[1] + 0.2 * laws[2]
    wanted = mean[range(4), text].log()
    # float32 forward passes
    torch.testing.assert_close(trio.logprobs(PROMPT, text).double(), wanted, atol=1e-5, rtol=1e-5)


def test_a_long_text_is_scored_in_slices_as_in_one(random_model):
    pair = Ensemble([random_model(0, ctx=256), random_model(1, ctx=256)])
    ids = torch.randint(0, 12, (150,), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        laws = [m.model(ids[None]).logits[0, 69:-1].softmax(-1) for m in pair.members]
    wanted = (0.5 * (laws[0] + laws[1]))[range(80), ids[70:]].log()
    torch.testing.assert_close(pair.logprobs(ids[:70], ids[70:]), wanted, atol=1e-5, rtol=1e-5)


def test_next_distribution_is_the_mean_of_the_members_laws(trio, reference_law):
    law = reference_law(models(trio), [0.5, 0.3, 0.2], PROMPT.tolist(), 1)
    found = trio.next_distribution(PROMPT).double()
    torch.testing.assert_close(
        found, torch.tensor(list(law.values()), dtype=torch.float64), atol=1e-6, rtol=1e-5
    )


def test_a_logits_processor_acts_on_each_member(trio):
    from transformers.generation import SuppressTokensLogitsProcessor

    only = SuppressTokensLogitsProcessor([token for token in range(12) if token != 6])
    result = trio.generate(PROMPT, max_new_tokens=5, seed=0, logits_processor=only)
    assert result.sequences[0, 3:].tolist() == [6] * 5


def test_other_weights_take_the_same_members(trio):
    other = trio.with_weights([0, 0, 1])
    assert other.members is trio.members
    assert other.generate(PROMPT, max_new_tokens=3, seed=0).stats.calls == (0, 0, 3)
    assert trio.weights.tolist() == pytest.approx([0.5, 0.3, 0.2])


def broken(random_model, value):
    model = random_model(5)
    with torch.no_grad():
        model.lm_head.weight[3, 0] = value
    return model


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_member_whose_logits_are_no_numbers_is_named(random_model, value):
    pair = Ensemble([random_model(0), broken(random_model, value)])
    with pytest.raises(UserError, match=r"member 2 \(LlamaForCausalLM\) gives logits that are NaN"):
        pair.generate(PROMPT, method="ce", max_new_tokens=3)
    with pytest.raises(UserError, match="member 2"):
        pair.logprobs(PROMPT, PROMPT)


@pytest.mark.parametrize(
    ("prompt", "settings", "reason"),
    [
        (PROMPT, {"max_new_tokens": 0}, "max_new_tokens must be at least 1, got 0"),
        (PROMPT, {"selection": "rows"}, "selection must be 'shared' or 'per_row'"),
        (PROMPT, {"temperature": 0}, "favourite of a random member"),
        (PROMPT, {"method": "single", "member": 3}, r"member must be in \[0, 3\), got 3"),
        (PROMPT, {"stop": "x"}, "stop needs tokenizers"),
        (PROMPT.expand(2, -1), {"streamer": Interrupter(0)}, "a streamer takes one prompt, got 2"),
        (torch.arange(12).repeat(6)[:64], {}, "a prompt has 64 tokens, and member 1"),
        (torch.tensor([12]), {}, r"prompt ids must be in \[0, 12\), got 12"),
        (torch.tensor([-1]), {}, r"prompt ids must be in \[0, 12\)"),
        (PROMPT[:0], {}, "none empty"),
        ("text", {}, r"member 1 \(LlamaForCausalLM\) has no tokenizer"),
        ([], {}, "there is no prompt"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_forward_pass(trio, prompt, settings, reason):
    with pytest.raises(UserError, match=reason):
        trio.generate(prompt, **settings)


def test_an_empty_stop_string_is_refused():
    one = Ensemble(["random:llama"])
    with pytest.raises(UserError, match="stop must be texts that are not empty"):
        one.generate("a", stop=[""])


def test_an_empty_prompt_starts_from_the_begin_token_if_there_is_one():
    one = Ensemble(["random:llama"])
    assert one.generate("", max_new_tokens=1, seed=0).sequences[0, 0] == 1
    one.members[0].tokenizer.bos_token = None
    with pytest.raises(UserError, match="the prompt is empty and member 1"):
        one.generate("")


def test_a_conversation_needs_a_chat_template():
    one = Ensemble(["random:llama"])
    with pytest.raises(UserError, match="has no chat template"):
        one.generate([{"role": "user", "content": "hello"}])
    one.members[0].tokenizer.chat_template = "{% for m in messages %}<{{ m.content }}>{% endfor %}"
    result = one.generate([{"role": "user", "content": "hello"}], max_new_tokens=2, seed=0)
    assert one.members[0].tokenizer.decode(result.sequences[0, :-2]) == "<hello>"


@pytest.mark.parametrize("seed", [2**63, -(2**63) - 1, 1.5, "1"])
def test_a_seed_that_torch_cannot_take_is_refused(trio, seed):
    with pytest.raises(UserError, match="seed must be a whole number of at most 63 bits, got"):
        trio.generate(PROMPT, max_new_tokens=1, seed=seed)
