"""``icml wzllm bench --tier kernel``: accepted proofs are files, and files are not believed."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from icml.core.cli import main
from icml.core.errors import UserError
from icml.wzllm.identities import Item, suite
from icml.wzllm.kernel_bench import outcome, run_kernel_bench, table
from icml.wzllm.proof_file import BadProofFile, ProofFile, read_proof, write_proof
from icml.wzllm.recheck import recheck, recheck_in_new_process
from icml.wzllm.statement import Identity

ROW = Identity.parse("sum(k,0,n,binomial(n,k)) = 2^n")
WEIGHTED = Identity.parse("sum(k,0,n,2^k*binomial(n,k)) = 3^n")
OPEN = "sum(k,0,n,(-1)^k*binomial(m,k)) = (-1)^n*binomial(m-1,n)"
LINES = [
    {"id": "row", "statement": str(ROW), "holds": True},
    {"statement": "sum(k,0,n,k*binomial(n,k)) = n*2^(n-1)"},
    {"id": "partial", "statement": OPEN},
    {"id": "wrong", "statement": "sum(k,0,n,k) = n^2", "holds": False},
]


def bench(capsys, *args):
    status = main(["wzllm", "bench", *map(str, args), "--tier", "kernel"])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.fixture
def listed(tmp_path):
    file = tmp_path / "list.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in LINES) + "not json\n")
    return file


@pytest.fixture(scope="module")
def proofs(tmp_path_factory):
    """The files of two accepted proofs."""
    folder = tmp_path_factory.mktemp("bench")
    run_kernel_bench([Item("row", ROW), Item("weighted", WEIGHTED)], folder)
    return folder / "proofs"


def test_the_table_says_what_became_of_each_and_files_are_checked_again(capsys, listed, tmp_path):
    folder = tmp_path / "out"
    status, out, _ = bench(capsys, listed, "--out", folder)
    rows = {line.split()[0]: line.split(maxsplit=5) for line in out.splitlines()}
    assert status == 1  # for the line that is no statement
    assert rows["row"][1:3] == ["verbatim", "yes"]
    assert rows["sum(k,0,n,k*"][1:3] == ["restated", "yes"]
    assert rows["sum(k,0,n,k*"][5] == "both sides multiplied by 2"
    assert "partial      open" in out
    assert "binomial(m-1,n): that m - 1 is natural" in out
    assert "accepts 2 of 3 certified identities: 1 verbatim, 1 restated; 1 open" in out
    assert "each in a process of its own: 2 accepted, 0 refused, axioms: none" in out
    counts, unread = out.splitlines()[-2:]
    assert counts == "not certified: false: 1  bad statement: 1"
    assert unread == "these are no statements: line 5"
    assert read_proof(folder / "proofs" / "row.lean").identity == ROW
    # Once more: nothing is computed, the same is said.
    before = (folder / "identities.jsonl").read_bytes()
    assert bench(capsys, listed, "--out", folder)[1] == out
    assert (folder / "identities.jsonl").read_bytes() == before


def test_a_file_that_was_changed_is_checked_again_and_refused(capsys, listed, tmp_path):
    folder = tmp_path / "out"
    listed.write_text(listed.read_text().removesuffix("not json\n"))
    assert bench(capsys, listed, "--out", folder)[0] == 0
    file = folder / "proofs" / "row.lean"
    file.write_text(file.read_text().replace("theorem identity ", "axiom identity_new : Z\n\n"
                                             "theorem identity "))  # fmt: skip
    status, out, _ = bench(capsys, listed, "--out", folder)
    assert status == 1
    assert "row          refused   REFUSED" in out
    assert "the word axiom is not accepted" in out
    assert "accepts 1 of 3" in out
    assert "1 accepted, 1 refused" in out
    file.unlink()  # gone: it is proved anew
    status, out, _ = bench(capsys, listed, "--out", folder)
    assert (status, "accepts 2 of 3" in out) == (0, True)


CHANGES = [
    ("the statement of another theorem", "(pw Z (Z.nm 2) n))\n", "(pw Z (Z.nm 3) n))\n",
     "what is stated in Lean"),
    ("the statement and the first line", None, None, "the kernel: "),
    ("another true identity", None, None, "the file says that it is a proof of"),
    ("the first line alone", "-- sum(k,0,n,binomial(n,k)) = 2^n", "-- 0 = 0", "the file says"),
    ("sorry", "(identity_zero) n", "sorry n", "the word sorry is not accepted"),
    ("an axiom", "theorem identity_cancel", "axiom more : Z\n\ntheorem identity_cancel",
     "the word axiom is not accepted"),
    ("an import", "import WZCore\n", "import WZCore\nimport Other\n", "isn't a proof"),
    ("an option", "maxRecDepth 100000", "maxRecDepth 100001", "isn't a proof"),
    ("another theorem at the end", "checked : claimed :=", "checked : True :=", "isn't a proof"),
    ("more at the end", "#print axioms checked\n", "#print axioms checked\n#eval 1\n",
     "isn't a proof"),
    ("a comment that hides the proof", "theorem identity ", "/- theorem identity ",
     "a comment doesn't end"),
    ("a torn file", "#print axioms checked\n", "", "isn't a proof"),
    ("a number that takes for ever", "(pw Z (Z.nm 2) n))\n",
     "(pw Z (Z.nm 2) (Nat.mul 999999999 n)))\n", "what is stated in Lean"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "old", "new", "why"), CHANGES, ids=[c[0] for c in CHANGES])
def test_a_file_that_was_tampered_with_is_refused(proofs, tmp_path, what, old, new, why):
    file = tmp_path / "row.lean"
    text = (proofs / "row.lean").read_text()
    if what == "the statement and the first line":  # of another identity, over this one's proof
        other = read_proof(proofs / "weighted.lean")
        write_proof(file, ProofFile(ROW, read_proof(proofs / "row.lean").statement,
                                          other.theorem, other.text))  # fmt: skip
    elif what == "another true identity":
        file.write_text((proofs / "weighted.lean").read_text())
    else:
        assert text.count(old) >= 1
        file.write_text(text.replace(old, new, 1))
    found = recheck(file, ROW, budget_s=60)
    assert not found.accepted
    assert why in found.why
    if what in ("sorry", "the statement and the first line"):
        assert recheck_in_new_process(file, ROW, budget_s=60).why == found.why


def test_an_untouched_file_is_accepted_by_the_command(proofs, capsys):
    status = main(["wzllm", "check", str(proofs / "row.lean")])
    assert (status, capsys.readouterr().out) == (
        0, f"accepted: {ROW}\nstated in Lean word by word, axioms: none\n"
    )  # fmt: skip
    status = main(["wzllm", "check", str(proofs / "row.lean"), "--statement", str(WEIGHTED)])
    assert status == 1
    assert "the file says that it is a proof of" in capsys.readouterr().out


def test_a_file_that_is_none_is_one_sentence(tmp_path):
    (tmp_path / "other.lean").write_bytes(b"\xff\xfe")
    with pytest.raises(BadProofFile, match="isn't text in UTF-8"):
        read_proof(tmp_path / "other.lean")
    with pytest.raises(BadProofFile, match="No such file"):
        read_proof(tmp_path / "none.lean")
    (tmp_path / "long.lean").write_bytes(b"-" * 5_000_000)
    with pytest.raises(BadProofFile, match="is larger than"):
        read_proof(tmp_path / "long.lean")


def test_a_new_process_that_ends_early_is_no_proof(proofs, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    found = recheck_in_new_process(proofs / "row.lean", ROW, budget_s=60)
    assert (found.accepted, "without an answer" in found.why) == (False, True)


def test_a_folder_of_something_else_is_not_written_to(capsys, listed, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("")
    status, out, err = bench(capsys, listed, "--out", tmp_path / "mine")
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert "letter.txt is in it" in err
    status, _, err = bench(capsys, listed, "--out", listed)
    assert (status, "cannot write" in err) == (2, True)
    with pytest.raises(UserError, match="two identities have the id"):
        run_kernel_bench([Item("a", ROW), Item("a", WEIGHTED)], tmp_path / "twice")


def test_an_identity_that_was_changed_under_its_id_is_proved_anew(proofs):
    found = run_kernel_bench([Item("row", WEIGHTED)], proofs.parent)
    assert found[0]["statement"] == str(WEIGHTED)
    assert outcome(found[0]) == ("verbatim", "")
    assert "verbatim" in table(found)
    run_kernel_bench([Item("row", ROW)], proofs.parent)  # as it was, for the other tests
    assert read_proof(proofs / "row.lean").identity == ROW


@pytest.mark.slow
def test_after_kill_9_the_same_command_ends_in_the_same_table(tmp_path):
    items = [item for item in suite() if item.id in ("wz01", "wz03", "wz08", "wz10", "wz12")]
    rows = [
        {"id": i.id, "lhs": i.identity.lhs, "rhs": i.identity.rhs, "vars": i.identity.vars}
        for i in items
    ]
    file, folder = tmp_path / "list.jsonl", tmp_path / "out"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [Path(sys.executable).with_name("icml"), "wzllm", "bench", file, "--tier", "kernel",
               "--out", folder]  # fmt: skip
    kills = 0
    for lines in (1, 3):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while process.poll() is None and _lines(folder) < lines:
            assert time.monotonic() < deadline
            time.sleep(0.002)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
    finished = _lines(folder)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert kills == 2
    assert 1 <= finished < len(items) == _lines(folder)
    assert "accepts 4 of 5 certified identities: 4 verbatim, 0 restated; 1 open" in done.stdout
    assert "4 accepted, 0 refused, axioms: none" in done.stdout


def _lines(folder):
    try:
        return (folder / "identities.jsonl").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0
