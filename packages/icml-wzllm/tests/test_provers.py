"""Provers propose, the judge decides; the record says whose proof it is and what was refused."""

import json

import pytest
import torch

from icml.core.cli import main
from icml.core.errors import UserError
from icml.core.models.load import load
from icml.wzllm import (
    Candidate,
    HybridProver,
    Identity,
    Proposed,
    Status,
    SymbolicProver,
    TransformersProver,
    prove,
    verify,
)
from icml.wzllm.provers.answers import unfenced
from icml.wzllm.provers.named import check_form, prover_from_text
from icml.wzllm.training.learner import Learner
from icml.wzllm.training.rows import Row
from icml.wzllm.training.statements import Statement
from icml.wzllm.training.wording import writing

ROW = Identity.parse("sum(k,0,n,binomial(n,k)) = 2^n")
FIBONACCI = Identity.parse("sum(k,0,n,fibonacci(k)) = fibonacci(n+2)-1")
RIGHT = "-2, 1 | k | k-n-1"
LOOKS_TRUE = Identity.parse("sum(k,0,n,binomial(n,k)) = 2^n+binomial(n,20)")
"""False from n = 20 on, which no small value shows."""


class Scripted:
    """Proposes what it was given."""

    name = "scripted"

    def __init__(self, *texts, kind="answer"):
        self.candidates = tuple(Candidate(kind, text) for text in texts)
        self.asked = []

    def propose(self, goals, n, seed):
        self.asked += goals
        return [Proposed(self.candidates) for _ in goals]


def test_the_symbolic_prover_finds_what_the_search_finds_and_c_finite_identities():
    proof = prove(ROW, prover=SymbolicProver())
    alone = prove(ROW)
    assert proof.certificate == alone.certificate
    assert (proof.status, proof.template, proof.prover) == (Status.CERTIFIED, "wz", "symbolic")
    assert [attempt.accepted for attempt in proof.attempts] == [True]
    proof = prove(FIBONACCI, prover=SymbolicProver())
    assert (proof.status, proof.template) == (Status.CERTIFIED, "c-finite")
    assert proof.certificate is None
    assert verify(proof.induction, FIBONACCI).accepted


def test_without_a_prover_nothing_has_changed():
    proof = prove(FIBONACCI)
    assert (proof.status, proof.template, proof.attempts) == (Status.NOT_HYPERGEOMETRIC, "", ())


def test_templates_can_be_left_out():
    only = SymbolicProver(templates=("c-finite",))
    assert prove(ROW, prover=only).template == "c-finite"
    assert prove(FIBONACCI, prover=SymbolicProver(templates=("wz",))).induction is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("-3, 1 | k | k-n-1", "the telescoped equation isn't an identity"),
        ("I think it is true.", "not of the form"),
        ("", "not of the form"),
        ("-2, 1 | k | 0", "a denominator of R is 0"),
        ("-2, 1 | k^1000000 | k-n-1", "not a polynomial"),
        ("-2, 1 | (k+n+1)^60^60 | k-n-1", "not a polynomial"),
        (f"-2, 1 | {'9' * 1900} | k-n-1", "the telescoped equation"),
        (f"-2, 1 | {'9' * 10**5} | k-n-1", "at most 2000"),
        ("-2, 1 | \u043a | \u043a-n-1", "unexpected '\u043a'"),  # a Cyrillic k
        ("-2, 1 | \uff4b | k-n-1", "unexpected '\uff4b'"),  # a full-width k
        ("c-finite | 0 | 1", "the order that follows is 2, not 1"),
        ("c-finite | 0 | 999999", "order 999999, at most 200 and 400"),
        ("c-finite please", "not of the form"),
        ("__import__('os').system('true') | k | k", "unexpected"),
        ("x" * (10**6 + 1), "at most 1000000 are read"),
    ],
)
def test_wrong_answers_are_refused_each_with_its_reason(text, reason):
    proof = prove(ROW, prover=Scripted(text))
    assert proof.status is Status.OPEN
    (attempt,) = proof.attempts
    assert not attempt.accepted
    assert reason in attempt.reason
    assert len(attempt.text) < 200
    assert "scripted: 0 of 1 proposals accepted" in proof.detail


def test_a_hundred_megabytes_are_not_read():
    proof = prove(ROW, prover=Scripted("x" * 10**8, RIGHT))
    assert proof.attempts[0].reason == "a text of 100000000 characters, at most 1000000 are read"
    assert proof.status is Status.CERTIFIED


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data: data, ""),
        (lambda data: data | {"base_cases": []}, "base case n = 0 is missing"),
        (lambda data: data | {"recurrence": ["-3", "1"]}, "telescoped equation"),
        (lambda data: data | {"order": 10**6, "recurrence": ["1"] * (10**5)}, "order 1000000"),
        (lambda data: data | {"recurrence": ["9" * 5000, "1"]}, "5000 digits"),
        (lambda data: data | {"recurrence": [f"n^{10**6}", "1"]}, "not a polynomial"),
        (lambda data: data | {"proof": "yes"}, "unknown field"),
        (lambda data: data | {"identity": {"lhs": "1", "rhs": "1", "vars": []}}, "another"),
        (lambda data: [data], "must be an object"),
    ],
)
def test_certificates_of_provers_are_judged_like_files(change, reason):
    data = json.loads(prove(ROW).certificate.to_json())
    proof = prove(ROW, prover=Scripted(json.dumps(change(data)), kind="certificate"))
    assert proof.status is (Status.OPEN if reason else Status.CERTIFIED)
    assert reason in proof.attempts[0].reason


@pytest.mark.parametrize(
    "text", ["1" + "0" * 5000, '{"format": ' * 5000, '{"base_cases": [1' + "0" * 10**5 + "]}"]
)
def test_json_that_hurts_a_reader_is_refused(text):
    proof = prove(ROW, prover=Scripted(text, kind="certificate"))
    assert "not JSON" in proof.attempts[0].reason


def test_no_proposal_makes_a_false_statement_true():
    texts = [RIGHT, "c-finite", "c-finite | 0 | 30", "c-finite | 30 | 30"]
    proof = prove(LOOKS_TRUE, prover=HybridProver(SymbolicProver(), Scripted(*texts)))
    assert proof.status is Status.OPEN
    assert "the sides differ at n = 20" in {attempt.reason for attempt in proof.attempts}
    assert not any(attempt.accepted for attempt in proof.attempts)


def test_answers_in_code_fences_are_read():
    for text in (f"```\n{RIGHT}\n```", f"Sure!\n\n```text\n{RIGHT}\n```\nDone.", f"  {RIGHT}\n"):
        assert prove(ROW, prover=Scripted(text)).status is Status.CERTIFIED
    assert unfenced("a\n```\nfirst\n```\n```\nlast\n```") == "last"
    assert unfenced("```\nnever closed") == "```\nnever closed"


def test_a_model_may_choose_the_template_and_its_parameters():
    for text in ("c-finite", "c-finite | 0 | 6", "c-finite | 2 | 8"):
        proof = prove(FIBONACCI, prover=Scripted(text))
        assert (proof.template, proof.prover) == ("c-finite", "scripted")


def test_the_first_accepted_proposal_counts_and_no_more_than_n_are_looked_at():
    proof = prove(ROW, prover=Scripted("no", "no", RIGHT, "never reached"))
    assert [attempt.accepted for attempt in proof.attempts] == [False, False, True]
    assert proof.certificate.engine == "a model"
    proof = prove(ROW, prover=Scripted("no", "nor", RIGHT), proposals=2)
    assert proof.status is Status.OPEN
    assert proof.attempts[-1].reason == "more proposals than the 2 that were asked for: 1"


def test_the_second_prover_is_asked_about_what_the_judge_left_open_only():
    second = Scripted(RIGHT)
    prove(ROW, prover=HybridProver(SymbolicProver(), second))
    assert second.asked == []
    proof = prove(ROW, prover=HybridProver(Scripted("wrong"), second))
    assert second.asked == [ROW]
    assert [attempt.accepted for attempt in proof.attempts] == [False, True]
    # As a prover itself it can't know what will be refused.
    assert HybridProver(Scripted("wrong"), second).propose([ROW], 1, 0)[0].candidates[0].text == (
        "wrong"
    )
    assert second.propose([ROW], 1, 0)[0].candidates[0].text == RIGHT


class Claims:
    """Says of everything that it is proved, without a proof."""

    name = "claims"

    def __init__(self, status, candidates=()):
        self.entry = Proposed(candidates, "trust me", status)

    def propose(self, goals, n, seed):
        return [self.entry for _ in goals]


@pytest.mark.parametrize("status", ["proved", "certified", "", None])
def test_a_prover_that_says_proved_is_not_believed(status):
    proof = prove(ROW, prover=Claims(status))
    assert (proof.status, proof.detail, proof.prover) == (Status.OPEN, "trust me", "")


@pytest.mark.parametrize("candidate", [None, {}, "text", Candidate("answer", 3), ["a"]])
def test_candidates_of_other_types_are_refused(candidate):
    proof = prove(ROW, prover=Claims("open", (candidate, Candidate("answer", RIGHT))))
    assert "not a Candidate" in proof.attempts[0].reason
    assert proof.status is Status.CERTIFIED


def test_a_prover_that_does_not_answer_every_goal_is_named():
    class Silent:
        name = "silent"

        def propose(self, goals, n, seed):
            return []

    with pytest.raises(UserError, match="'silent' must return one Proposed for each of 1 goals"):
        prove(ROW, prover=Silent())


def test_an_answer_that_takes_the_judge_too_long_leaves_time_for_the_next():
    vandermonde = Identity.parse("sum(k,0,n,binomial(n,k)*binomial(m,k)) = binomial(n+m,n)")
    large = "(m+n+1)^60"  # with it the recurrence still holds, so the judge multiplies it all out
    slow = f"-(n+m+1)*{large}, (n+1)*{large} | (k+m+n)^60 | (k+2*m-n-1)^60"
    proof = prove(vandermonde, prover=Scripted(slow, "no"), budget_s=3.0)
    assert proof.attempts[0].reason == "the judge: not finished in 1.5 s"
    assert proof.attempts[1].reason.startswith("not of the form")


# --- a language model -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def taught():
    """A random model of a few thousand weights that has learnt two answers."""
    torch.manual_seed(0)
    loaded = load("random:llama?layers=1&hidden=32&heads=2&vocab=300&ctx=128", device="cpu")
    learner = Learner(loaded.model, writing(loaded.tokenizer, "{statement}\n", 24), batch=4)
    pairs = [(Statement(ROW), RIGHT), (Statement(FIBONACCI), "c-finite | 0 | 6")]
    learner.fit(pairs, 100, learning_rate=1e-2, seed=0)
    loaded.model.eval()
    return loaded


def test_a_model_proves_what_it_has_learnt(taught):
    prover = TransformersProver(taught.model, taught.tokenizer, longest=24)
    proof = prove(ROW, prover=prover, proposals=4)
    assert (proof.status, proof.prover) == (Status.CERTIFIED, "model")
    assert verify(proof.certificate, ROW).accepted
    proof = prove(FIBONACCI, prover=HybridProver(SymbolicProver(templates=("wz",)), prover))
    assert (proof.template, proof.prover) == ("c-finite", "model")


def test_answers_depend_on_the_seed_alone(taught):
    hot = TransformersProver(taught.model, taught.tokenizer, longest=8, temperature=3.0, batch=3)
    before = torch.random.get_rng_state()
    one = hot.propose([ROW], 8, 0)[0].candidates
    assert torch.equal(torch.random.get_rng_state(), before)
    assert len(one) == 8
    assert hot.propose([ROW], 8, 0)[0].candidates == one
    assert hot.propose([ROW], 8, 1)[0].candidates != one
    assert hot.propose([ROW], 8, 1)[0].candidates[0] == one[0]  # the likeliest one


def test_a_chat_template_is_used_and_an_untaught_model_proves_nothing(taught):
    loaded = load("random:llama?layers=1&hidden=32&heads=2&vocab=300&ctx=128", device="cpu")
    loaded.tokenizer.chat_template = (
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"
    )
    prover = TransformersProver(loaded.model, loaded.tokenizer, longest=8)
    text = loaded.tokenizer.decode(prover._prompt_ids(prover._question(ROW))[0])
    assert text.startswith(f"<user>{ROW}")
    assert text.endswith("<assistant>")
    proof = prove(ROW, prover=prover, proposals=3)
    assert (proof.status, len(proof.attempts)) == (Status.OPEN, 3)


def test_a_prompt_that_does_not_fit_is_said(taught):
    prover = TransformersProver(taught.model, taught.tokenizer, longest=127)
    assert "don't fit into the model's 128" in prove(ROW, prover=prover).detail


def test_goals_are_put_into_their_own_prompt(taught):
    from icml.wzllm.lean import SubGoal

    prover = TransformersProver(taught.model, taught.tokenizer, longest=24)
    asked = prover._question(SubGoal("hop", "def {statement} F", "Eq {context} F"))
    assert "def {statement} F" in asked
    assert "Goal:\nEq {context} F" in asked


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt": "no place"}, "a prompt needs {statement}"),
        ({"longest": 128}, "leaves no room for a prompt"),
        ({"longest": 0}, "longest and batch must be 1 or more"),
        ({"temperature": float("nan")}, "temperature above 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(taught, options, message):
    with pytest.raises(UserError, match=message):
        TransformersProver(taught.model, taught.tokenizer, **options)


def test_what_training_left_behind_is_loaded_with_its_prompt(taught, tmp_path, capsys):
    """The folder as `icml wzllm train` writes it; the slow test below runs the command itself."""
    run, model = tmp_path / "run", tmp_path / "run" / "bootstrap" / "model"
    run.mkdir()
    recipe = {"statements": {"prompt": "{statement}\n"}, "bootstrap": {"longest": 24}}
    (run / "recipe.json").write_text(json.dumps(recipe))
    with pytest.raises(UserError, match="has no model yet"):
        TransformersProver.load(run)
    taught.model.save_pretrained(model)
    taught.tokenizer.save_pretrained(model)
    prover = TransformersProver.load(run, device="cpu")
    assert (prover.prompt, prover.longest, prover.name) == ("{statement}\n", 24, f"model:{run}")
    assert main(["wzllm", "prove", str(ROW), "--prover", f"model:{run}", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["status"], said["prover"]) == ("certified", f"model:{run}")
    assert said["attempts"][-1]["accepted"]


# --- the command ----------------------------------------------------------------------------


def test_the_command_names_the_prover_and_what_was_refused(taught, tmp_path, capsys):
    model = tmp_path / "bootstrap" / "model"
    taught.model.save_pretrained(model)
    taught.tokenizer.save_pretrained(model)
    recipe = {"statements": {"prompt": "{statement}\n"}, "bootstrap": {"longest": 24}}
    (tmp_path / "recipe.json").write_text(json.dumps(recipe))
    wrong = "sum(k,0,n,binomial(n,k)*3^k) = 4^n"
    status = main(["wzllm", "prove", wrong, "--prover", f"model:{tmp_path}", "--proposals", "2"])
    out = capsys.readouterr().out
    assert status in (0, 1)
    assert "prover       " in out
    assert "proposals judged" in out


def test_a_c_finite_certificate_is_saved_and_checked(tmp_path, capsys):
    file = tmp_path / "file.json"
    assert main(["wzllm", "prove", str(FIBONACCI), "--save", str(file)]) == 0
    assert "induction    equal at n = 0 to 5, hence for all n >= 0" in capsys.readouterr().out
    assert main(["wzllm", "check", str(file)]) == 0
    file.write_text(file.read_text().replace('"order": 6', '"order": 5'))
    assert main(["wzllm", "check", str(file)]) == 1
    assert "the order that follows is 6, not 5" in capsys.readouterr().out


@pytest.mark.kernel
def test_a_c_finite_proof_is_not_called_kernel_proved(capsys):
    assert main(["wzllm", "prove", str(FIBONACCI), "--tier", "kernel"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("certified")
    assert "not printed for the kernel: a proof by bounded induction" in out


@pytest.mark.parametrize("text", ["", "model", "model:", "hybrid:", "symbolic:x", "oracle:x"])
def test_provers_that_are_none_are_refused(text, capsys):
    with pytest.raises(UserError, match="no prover"):
        check_form(text)
    assert main(["wzllm", "prove", str(ROW), "--prover", text]) == 2


def test_a_model_that_is_not_there_is_one_sentence(capsys):
    with pytest.raises(UserError):
        prover_from_text("model:/nowhere/at/all", max_order=4, budget_s=1.0)
    assert main(["wzllm", "prove", str(ROW), "--prover", "model:/nowhere/at/all"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
def test_a_model_of_the_train_command_proves_statements(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "few.yaml").write_text(
        "model: random:llama?layers=1&hidden=32&heads=2&vocab=300&ctx=128\n"
        "statements: {source: 'rows?largest=4', held_out: 4, given: 8}\n"
        "bootstrap: {warm_steps: 300, rounds: 1, steps: 10, learning_rate: 1e-2, batch: 8,\n"
        "  samples: 2, longest: 24}\n"
        "training: {use_cpu: true, bf16: false, gradient_checkpointing: false,\n"
        "  max_completion_length: 24}\n"
    )
    assert main(["wzllm", "train", "few.yaml", "--bootstrap-only"]) == 0
    prover = TransformersProver.load("runs/wzllm/train/few", device="cpu")
    rows = [Row(a, b).identity for a in range(1, 5) for b in range(1, 5)]
    proofs = [prove(row, prover=prover) for row in rows]
    proved = [proof for proof in proofs if proof.status is Status.CERTIFIED]
    assert len(proved) >= 4
    assert all(verify(proof.certificate).accepted for proof in proved)
