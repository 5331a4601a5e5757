import json
from datetime import UTC, datetime

import pytest

from icml.core.errors import UserError
from icml.core.testing import run_icml
from icml.kenv.bugs import load_bug
from icml.kenv.models import Equivalence, Patch, Verdict
from icml.kenv.results import Result, add_result, as_json, read_results, result_of, write_results

MINIMAL = {"agent": "a", "bug": "b", "title": "kernel BUG in f", "kind": "plausible"}


def test_rows_come_back_from_their_file(tmp_path) -> None:
    fixed = datetime(2025, 3, 1, 12, tzinfo=UTC)
    rows = [
        Result(**MINIMAL, run=n, fix_time=fixed, answer="equivalent", evidence="judge", diff="d")
        for n in (1, 2)
    ]
    write_results(tmp_path / "r.jsonl", rows)
    assert read_results([tmp_path / "r.jsonl"]) == rows
    assert "recorded" not in as_json(rows[0])  # what is at its default is left out


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "line 2"),
        (json.dumps({**MINIMAL, "kind": "fixed"}), "kind"),
        (json.dumps({**MINIMAL, "bug": "../../etc/x"}), "bug"),
        (json.dumps({**MINIMAL, "bug": "x.html"}), "bug"),
        (json.dumps({**MINIMAL, "colour": 1}), "colour"),
        (json.dumps({**MINIMAL, "seconds": -1}), "seconds"),
        (json.dumps({**MINIMAL, "format": "another 7"}), "format"),
        ("[" * 100_000, "line 2"),
        (json.dumps(MINIMAL), "there twice"),
    ],
)
def test_what_is_no_row_is_one_sentence_with_its_line(tmp_path, line, told) -> None:
    (tmp_path / "r.jsonl").write_text(f"{json.dumps(MINIMAL)}\n{line}\n")
    with pytest.raises(UserError) as refused:
        read_results([tmp_path / "r.jsonl"])
    assert told in str(refused.value)
    assert len(str(refused.value)) < 500
    assert "\n" not in str(refused.value)


def test_an_empty_file_and_a_missing_one_are_refused(tmp_path) -> None:
    (tmp_path / "r.jsonl").write_text("\n")
    with pytest.raises(UserError, match="no result"):
        read_results([tmp_path / "r.jsonl"])
    with pytest.raises(UserError, match="No such file"):
        read_results([tmp_path / "none.jsonl"])


def test_a_verdict_becomes_a_row_without_the_fix() -> None:
    bug = load_bug("phonet-autobind")
    same = Equivalence(answer="discrepant", evidence="transcript", witness="line 1: x")
    verdict = Verdict(kind="plausible", backend="module", equivalence=same, key="k")
    row = result_of(bug, verdict, agent="a", model="m", feedback="full", patch=Patch(diff="+x"))
    assert (row.plausible, row.equivalent, row.witness) == (True, False, "line 1: x")
    assert (row.title, row.subsystems, row.diff) == (bug.title, bug.subsystems, "+x")
    assert row.system.text == "a · m · feedback"


def test_equivalence_without_plausibility_does_not_count() -> None:
    row = Result(**{**MINIMAL, "kind": "crash_same"}, answer="equivalent")
    assert not row.equivalent


def test_the_shipped_reproduction_is_a_result_set(request) -> None:
    folder = request.path.parent.parent / "results" / "reproduce"
    if not folder.is_dir():
        pytest.skip("the shipped run is not beside these tests")
    rows = read_results([folder])
    developers = [row for row in rows if row.agent == "developer"]
    assert len(developers) == 3
    assert all(row.equivalent for row in developers)
    assert not any(row.plausible for row in rows if row.agent in ("null", "broken", "comment"))
    runs = [row.run for row in rows if row.agent == "template" and row.bug == "phonet-autobind"]
    assert runs == list(range(1, len(runs) + 1))


def test_stats_prints_rates_and_says_what_is_missing(tmp_path) -> None:
    rows = [
        Result(**{**MINIMAL, "bug": f"b{n}", "kind": kind}, fix_time=f"2025-01-{n + 1:02}T00:00Z")
        for n, kind in enumerate(["plausible"] * 3 + ["crash_same"])
    ]
    write_results(tmp_path / "r.jsonl", rows)
    (tmp_path / "models.toml").write_text('[none]\ncutoff = 2025-01-02\nsource = "us"\n')
    found = run_icml("kenv", "stats", str(tmp_path / "r.jsonl"), "--models",
                     str(tmp_path / "models.toml")).stdout  # fmt: skip
    # Wilson's interval of 3 of 4 by hand: .75 -> [.301, .954]
    assert "plausible   75.0% [30.1%, 95.4%] of 4 bugs" in found
    assert "no gap: 2 bugs fixed before the cutoff and 2 after it: a gap takes 20" in found


def test_models_that_are_none_are_one_sentence(tmp_path) -> None:
    write_results(tmp_path / "r.jsonl", [Result(**MINIMAL)])
    (tmp_path / "m.toml").write_text('["m"]\ncutoff = "soon"\n')
    ended = run_icml(
        "kenv", "stats", str(tmp_path / "r.jsonl"), "--models", str(tmp_path / "m.toml")
    )
    assert ended.returncode == 2
    assert "wanted a table a model with cutoff" in ended.stderr


def test_the_answer_of_the_server_is_a_result_set(tmp_path) -> None:
    session = {
        "session_id": "s", "bug_id": "phonet-autobind", "agent": "a", "model": "m",
        "feedback": "full", "max_runs": 4, "runs": 1, "opened": "2026-01-01T00:00:00Z",
        "kind": "plausible", "plausible": True, "equivalence": "discrepant", "key": "k",
    }  # fmt: skip
    earlier = {**session, "opened": "2025-12-31T00:00:00Z", "kind": "crash_same"}
    open_yet = {**session, "kind": None}
    (tmp_path / "r.json").write_text(json.dumps([session, open_yet, earlier]))
    rows = read_results([tmp_path / "r.json"])
    assert [(r.run, r.kind, r.answer) for r in rows] == [
        (1, "crash_same", "discrepant"),
        (2, "plausible", "discrepant"),
    ]
    assert rows[0].title == load_bug("phonet-autobind").title
    (tmp_path / "r.json").write_text('[{"bug_id": 1}]')
    with pytest.raises(UserError, match="Field required"):
        read_results([tmp_path / "r.json"])


def test_verdicts_are_added_as_runs_and_none_of_them_twice(tmp_path) -> None:
    bug, file = load_bug("phonet-autobind"), tmp_path / "r.jsonl"
    for key, diff in (("1", "+x"), ("1", "+x"), ("2", "+y")):
        verdict = Verdict(kind="crash_same", backend="module", key=key)
        add_result(file, bug, verdict, agent="a", patch=Patch(diff=diff))
    assert [(row.run, row.diff) for row in read_results([file])] == [(1, "+x"), (2, "+y")]


def test_eval_keeps_a_row_and_asks_for_a_name(tmp_path) -> None:
    file = tmp_path / "r.jsonl"
    asked = ("kenv", "eval", "phonet-autobind", "--backend", "replay", "--results", str(file))
    assert "--results needs --agent" in run_icml(*asked).stderr
    run_icml(*asked, "--agent", "null")
    (row,) = read_results([file])
    assert (row.agent, row.kind, row.backend) == ("null", "patch_empty", "replay")


def test_names_do_not_steer_the_terminal(tmp_path) -> None:
    write_results(tmp_path / "r.jsonl", [Result(**{**MINIMAL, "agent": "\x1b[2J\u202ea"})])
    shown = run_icml("kenv", "stats", str(tmp_path / "r.jsonl")).stdout
    assert shown.startswith("\ufffd[2J\ufffda\n")


def test_long_and_blank_names_of_a_servers_sessions_are_rows(tmp_path, shelf) -> None:
    sessions = [
        {
            "session_id": f"s{n}",
            "bug_id": "phonet-autobind",
            "agent": agent,
            "model": "m" * 200,
            "feedback": "none",
            "max_runs": 1,
            "runs": 0,
            "opened": f"2026-01-0{n + 1}T00:00:00Z",
            "kind": "plausible",
        }
        for n, agent in enumerate(["", "  ", "a" * 200, "a" * 120 + "b"])
    ]
    (tmp_path / "r.json").write_text("\n" + json.dumps(sessions, indent=1))
    rows = read_results([tmp_path / "r.json"], bugs=shelf)
    names = [(row.agent, row.run) for row in rows]
    assert names == [("unnamed", 1), ("unnamed", 2), ("a" * 120, 1), ("a" * 120, 2)]
    with pytest.raises(UserError, match="no bug 'phonet-autobind'"):
        read_results([tmp_path / "r.json"], bugs=tmp_path)
