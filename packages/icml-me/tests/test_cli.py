"""``icml me`` from the command line."""

import signal
import subprocess
import sys

import pytest

from icml.core.cli import main
from icml.core.models.load import load
from icml.core.testing import check_help_is_light, run_icml

PAIR = ["--models", "random:llama?seed=1", "random:llama?seed=2"]


def run(capsys, *args):
    status = main(["me", *map(str, args)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_help_is_light_and_names_the_commands():
    check_help_is_light("me")
    out = run_icml("me", "--help").stdout
    assert all(name in out for name in ("reproduce", "generate", "bench", "check"))


def test_generate_streams_the_text_and_tells_the_cost(capsys):
    from icml.me import Ensemble

    options = ["--max-new-tokens", 12, "--seed", 4, "--top-k", 20]
    status, out, err = run(capsys, "generate", "once", *options, *PAIR)
    wanted = Ensemble(PAIR[1:]).generate("once", max_new_tokens=12, seed=4, top_k=20)
    assert status == 0
    assert out == wanted.texts[0] + "\n"
    assert "1.00 passes a token" in err


def test_bench_prints_both_speeds_and_their_ratio(capsys):
    status, out, _ = run(capsys, "bench", *PAIR, "--tokens", 6, "--pairs", 3)
    assert status == 0
    assert "CE " in out
    assert "2.00 passes a token" in out
    assert "times as fast (at most 2)" in out


def test_bench_of_one_model_compares_with_generate(capsys):
    status, out, _ = run(capsys, "bench", "--models", PAIR[1], "--tokens", 6, "--pairs", 3)
    assert (status, "ME with one member / transformers' generate: " in out) == (0, True)


def test_check_reports_the_alignment(capsys):
    status, out, _ = run(capsys, "check", *PAIR[1:])
    assert status == 0
    assert out.splitlines()[0].startswith("alignment      identical")
    status, out, _ = run(capsys, "check", "random:llama?vocab=300", "random:llama?vocab=250")
    assert out.splitlines()[0].startswith("alignment      shared_prefix")


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["generate", "a", *PAIR, "--temperature", 0], "favourite of a random member"),
        (["generate", "a", *PAIR, "--weights", "1,x"], "--weights needs numbers"),
        (["generate", "a", *PAIR, "--weights", "1,2,3"], "weights must be one a member, 2"),
        (["generate", "a", "--models", "nowhere/"], "no model at 'nowhere/'"),
        (["bench", *PAIR, "--pairs", 2], "pairs must be at least 3, got 2"),
    ],
)
def test_what_cannot_be_done_exits_with_2_and_one_sentence(capsys, args, reason):
    status, out, err = run(capsys, *args)
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert reason in err


@pytest.mark.slow
def test_ctrl_c_shows_what_was_written_and_exits_with_130(tmp_path):
    """Of a model that has no token for an end: another may be done before the signal."""
    loaded = load("random:llama?ctx=99999")
    loaded.model.config.eos_token_id = loaded.model.generation_config.eos_token_id = None
    loaded.tokenizer.eos_token = None
    for part in (loaded.model, loaded.tokenizer):
        part.save_pretrained(tmp_path / "endless")
    command = [sys.executable, "-m", "icml.core.cli", "me", "generate", "a", "--top-k", "20",
               "--models", str(tmp_path / "endless"), "--max-new-tokens", "90000"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        child.stdout.read(1)
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=60)
    assert child.returncode == 130
    assert b"passes a token" in errors


@pytest.mark.slow
@pytest.mark.usefixtures("model_cache")
def test_smollm2_and_a_copy_of_it_answer_offline(capsys, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    question = "What is the capital of France? Answer in one sentence."
    status, out, err = run(
        capsys, "generate", question, "--seed", 0, "--top-k", 5, "--temperature", 0.3,
        "--max-new-tokens", 24,
    )  # fmt: skip
    assert status == 0
    assert "Paris" in out
    assert "pkg:smollm2?layers=28" in err
