"""``icml wzllm`` from the command line."""

import json

import pytest

from icml.core.cli import main
from icml.core.testing import check_help_is_light

ROW = "sum(k,0,n,binomial(n,k)) = 2^n"


def run(capsys, *args):
    status = main(["wzllm", *map(str, args)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_help_is_light_and_names_the_commands(capsys):
    check_help_is_light("wzllm")
    status, out, _ = run(capsys, "--help")
    assert status == 0
    assert all(name in out for name in ("prove", "check", "sketch", "bench", "reproduce"))


@pytest.mark.parametrize(
    ("args", "status", "first"),
    [
        ([ROW], 0, f"certified: {ROW}"),
        ([ROW, "--tier", "finite"], 1, f"open: {ROW}"),
        ([f"{ROW}+n"], 3, f"false: {ROW}+n"),
        (["sum(k,0,n,harmonic(k)) = (n+1)*harmonic(n)-n"], 1, "not hypergeometric: "),
        (["sum(k,0,n,binomial(n,k)*binomial(k,m)) = binomial(n,m)*2^(n-m)"], 1, "open: "),
    ],
)
def test_prove_exits_with_what_it_found(capsys, args, status, first):
    found, out, err = run(capsys, "prove", *args)
    assert (found, err) == (status, "")
    assert out.startswith(first)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["prove", "sum(k,0,n"], "an identity has one '='"),
        (["prove", "sum(k,0,n,q(k)) = 1"], "unknown function 'q' at column 11"),
        (["prove", "(" * 900 + "= 1"], "nested more than 100 deep at column 101"),
        (["prove", "9^9^9^9 = 1"], "nothing to check: the exponent"),
        (["prove", "2" * 3000 + " = 1"], "3001 characters, at most 2000"),
        (["prove", "sum(k,0,n,1) = "], "unexpected end at column"),
        (["prove", ROW, "--max-order", -1], "--max-order must be 0 or more, got -1"),
        (["prove", ROW, "--budget", "nan"], "--budget must be a positive number of seconds"),
        (["check", "row.json", "--budget", 0], "--budget must be a positive number of seconds"),
        (["sketch", ROW, "--budget", "inf"], "--budget must be a positive number of seconds"),
        (["bench", "--budget", -1], "--budget must be a positive number of seconds, got -1"),
        (["check", "none.json"], "none.json: No such file"),
        (["bench", "none.jsonl", "--out", "bench.jsonl"], "none.jsonl can't be read"),
    ],
)
def test_what_can_not_be_read_exits_with_2_and_one_sentence(
    capsys, tmp_path, monkeypatch, args, message
):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, *args)
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert message in err


def test_a_budget_that_runs_out_exits_with_4(capsys):
    status, out, _ = run(
        capsys, "prove", "sum(k,0,n,binomial(n,k)*(k+1)^60*(m+k+x+y)^60*binomial(x,k)) = "
        "sum(k,0,n,binomial(n,k)*(k+1)^60*(m+k+x+y)^60*binomial(x,k))", "--budget", 1,
    )  # fmt: skip
    assert status == 4
    assert "timeout: " in out
    assert "not finished in 1 s" in out


def test_a_saved_certificate_is_checked(capsys, tmp_path):
    file = tmp_path / "row.json"
    assert run(capsys, "prove", ROW, "--save", file)[0] == 0
    status, out, _ = run(capsys, "check", file)
    assert (status, out.splitlines()[0]) == (0, f"accepted: {ROW}")
    assert run(capsys, "check", file, "--statement", ROW)[0] == 0
    status, out, _ = run(capsys, "check", file, "--statement", f"{ROW}+n")
    assert (status, "rejected" in out) == (1, True)


def test_a_forged_certificate_exits_with_1(capsys, tmp_path):
    file = tmp_path / "row.json"
    run(capsys, "prove", ROW, "--save", file)
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "recurrence": ["-3", "1"]}))
    status, out, _ = run(capsys, "check", file)
    assert (status, out) == (1, "rejected: the telescoped equation isn't an identity\n")


def test_json_output_can_be_read_by_programs(capsys):
    status, out, _ = run(capsys, "prove", f"{ROW}+n", "--json")
    verdict = json.loads(out)
    assert (status, verdict["status"]) == (3, "false")
    assert verdict["counterexample"] == {"values": {"n": 1}, "lhs": "2", "rhs": "3"}


def test_bench_counts_and_finds_contradictions(capsys, tmp_path):
    file = tmp_path / "two.jsonl"
    lines = [{"id": "a", "statement": ROW, "holds": True}, {"id": "b", "statement": f"{ROW}+n"}]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    status, out, _ = run(capsys, "bench", file, "--out", tmp_path / "out.jsonl")
    assert (status, out.splitlines()[-1]) == (0, "certified: 1  false: 1")
    # The file lied about a.
    file.write_text(json.dumps({**lines[0], "holds": False}) + "\n")
    status, out, _ = run(capsys, "bench", file, "--out", tmp_path / "other.jsonl")
    assert (status, out.splitlines()[-1]) == (1, "these contradict what is known: a")
