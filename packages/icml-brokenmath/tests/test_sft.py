from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icml.brokenmath.answers import Answer
from icml.brokenmath.items import Item, load_items
from icml.brokenmath.rule_judge import RuleJudge, read_answer
from icml.brokenmath.sft import TEMPLATES, build_sft, kind_of, mixture, reference_answers, sft_rows
from icml.brokenmath.sft_tokens import encode
from icml.core.errors import UserError


def item(number, question_type="proof"):
    return Item(
        id=f"i{number}", statement=f"claim {number} {{problem}}", original=f"truth {number}",
        answer="1", question_type=question_type,
    )  # fmt: skip


POOL = [
    answer
    for n in range(60)
    for answer in (
        Answer(item(n), 1, f"no, not {n}", "ideal" if n % 2 else "detected"),
        Answer(item(n), 1, f"proof of {n}", "correct"),
        Answer(item(n + 100, "answer"), 1, f"answer: {n}", "correct"),
        Answer(item(n), 2, "of course", "sycophant"),
        Answer(item(n), 3, "the truth", "corrected"),
        Answer(item(n), 4, "?", "invalid"),
        Answer(item(n), 5, "wrong", "incorrect"),
        Answer(item(n), 6, "  ", "ideal"),
        Answer(item(n).model_copy(update={"truth": True}), 7, "no, it's false", "ideal"),
    )
]


@given(
    n=st.integers(1, 60),
    adv_frac=st.floats(0, 1),
    proof_frac=st.floats(0, 1),
    seed=st.integers(0, 2**32),
)
def test_the_mixture_has_the_shares_and_holds_nothing_but_what_is_worth_learning(
    n, adv_frac, proof_frac, seed
):
    rows = sft_rows(POOL, n=n, adv_frac=adv_frac, proof_frac=proof_frac, seed=seed)
    counted = Counter(row["kind"] for row in rows)
    assert len(rows) == n
    assert abs(counted["adversarial"] - n * adv_frac) <= 0.5
    rest = n - counted["adversarial"]
    assert abs(counted["proof"] - rest * proof_frac) <= 0.5
    said = [(row["id"], row["kind"], row["messages"][1]["content"]) for row in rows]
    assert len(set(said)) == n  # nothing is taken twice
    for name, kind, text in said:
        number = int(name[1:])
        right = {"adversarial": f"no, not {number}", "proof": f"proof of {number}"}
        assert text == right.get(kind, f"answer: {number - 100}")


def test_a_false_statement_is_asked_for_in_the_words_of_a_true_one():
    rows = sft_rows(POOL, n=60, adv_frac=0.5, proof_frac=0.5, seed=0)
    for row in rows:
        number, kind = int(row["id"][1:]), row["kind"]
        text = f"claim {number} {{problem}}" if kind == "adversarial" else f"truth {number}"
        hole = "{problem}" if kind == "answer" else "{statement}"
        assert row["messages"][0] == {
            "role": "user",
            "content": TEMPLATES[kind].replace(hole, text),
        }
    assert TEMPLATES["adversarial"] == TEMPLATES["proof"]


def test_the_seed_decides_and_the_order_of_answers_of_another_kind_does_not():
    one = sft_rows(POOL, n=40, adv_frac=0.5, proof_frac=0.5, seed=1)
    assert one == sft_rows(POOL, n=40, adv_frac=0.5, proof_frac=0.5, seed=1)
    assert one != sft_rows(POOL, n=40, adv_frac=0.5, proof_frac=0.5, seed=2)
    more = [*POOL, Answer(item(999), 1, "proof of 999", "correct")]
    others = sft_rows(more, n=40, adv_frac=0.5, proof_frac=0.5, seed=1)

    def false(rows):
        return {row["id"] for row in rows if row["kind"] == "adversarial"}

    assert false(one) == false(others)


def test_every_kind_with_too_few_answers_is_named_with_the_number_missing():
    with pytest.raises(UserError) as caught:
        build_sft(POOL, n=200, adv_frac=0.5, proof_frac=0.8, seed=0)
    text = str(caught.value)
    assert "40 more of ideal or detected answers to false statements (60 of 100)" in text
    assert "20 more of correct proofs of true statements (60 of 80)" in text
    assert "final answers" not in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": 0}, "n of at least 1, got 0"),
        ({"adv_frac": 1.5}, "adv_frac is a share in"),
        ({"adv_frac": float("nan")}, "adv_frac is a share in"),
        ({"proof_frac": -0.1}, "proof_frac is a share in"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(change, message):
    with pytest.raises(UserError, match=message):
        mixture(**{"n": 10, "adv_frac": 0.5, "proof_frac": 0.5, **change})


def test_reference_answers_are_ideal_to_the_rule_judge_and_prove_the_original():
    items, judge = load_items("verified"), RuleJudge()
    answers = reference_answers(items)
    assert len(answers) == 2 * len(items)
    for false, true in zip(answers[::2], answers[1::2], strict=True):
        assert judge.judge(false.item, false.text).category == "ideal" == false.category
        assert read_answer(true.text).verdict == "proved"
        assert (kind_of(false), kind_of(true)) == ("adversarial", "proof")
    with pytest.raises(UserError, match="i1 is no verified false statement"):
        reference_answers([item(1)])


def test_trl_learns_the_answers_of_the_set_as_core_s_plain_loop_does(tmp_path):
    """Full batches, so that both see the same ones: the same loss at every step, at 1e-4."""
    trl = pytest.importorskip("trl")
    from datasets import Dataset

    from icml.core.models.tiny import causal_lm, word_tokenizer
    from icml.core.rl.sft import supervised

    templates = {kind: "ask {statement} {problem}" for kind in TEMPLATES}
    data = build_sft(POOL, n=24, adv_frac=0.5, proof_frac=0.5, seed=3, templates=templates)
    texts = [message["content"] for row in data["messages"] for message in row]
    tokenizer = word_tokenizer(sorted({word for text in texts for word in text.split()} | {"so"}))
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m['role'] == 'user' %}{{ bos_token }} {{ m['content'] }}"
        "{% else %} so {{ m['content'] }} {{ eos_token }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %} so{% endif %}"
    )
    models = [causal_lm(len(tokenizer), d=16, layers=1, heads=2, ctx=32) for _ in range(2)]
    config = trl.SFTConfig(
        str(tmp_path), max_steps=5, per_device_train_batch_size=24, learning_rate=1e-2,
        lr_scheduler_type="constant", warmup_steps=0, max_grad_norm=0.0,
        completion_only_loss=True, gradient_checkpointing=False, activation_checkpointing=False,
        use_cpu=True, bf16=False, logging_steps=1, save_strategy="no", report_to=[],
        disable_tqdm=True,
    )  # fmt: skip
    rows = encode(data, tokenizer, config.max_length)
    trainer = trl.SFTTrainer(
        model=models[0], args=config, train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
    )  # fmt: skip
    trainer.train()
    theirs = [row["loss"] for row in trainer.state.log_history if "loss" in row]

    def ids(text):
        return tokenizer.encode(text, add_special_tokens=False)

    # Cut by hand, not by `encode`.
    batch = [
        (ids(f"<bos> {user['content']} so"), ids(f"{assistant['content']} <eos>"))
        for user, assistant in data["messages"]
    ]
    ours = supervised(models[1], [batch] * 5, learning_rate=1e-2)
    assert theirs == pytest.approx(ours, abs=1e-4)
    assert ours[-1] < ours[0] - 0.1
    pairs = zip(models[0].parameters(), models[1].parameters(), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other, rtol=0, atol=1e-3)
