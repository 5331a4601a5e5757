import json

import pytest

from icml.core.errors import UserError
from icml.wzllm.bench import contradicts, read_items, run_bench

LINES = [
    {"id": "row", "statement": "sum(k,0,n,binomial(n,k)) = 2^n", "holds": True},
    {"id": "wrong", "lhs": "sum(k,0,n,k)", "rhs": "n^2", "holds": False},
    {"id": "strange", "statement": "sum(k,0,n, = 1", "holds": None},
]


@pytest.fixture
def items(tmp_path):
    file = tmp_path / "identities.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in LINES) + "\nnot json\n")
    return list(read_items(file))


def test_every_line_gets_a_status_and_bad_ones_do_not_stop_the_rest(items, tmp_path):
    records = run_bench(items, tmp_path / "out.jsonl")
    assert [record["status"] for record in records] == [
        "certified", "false", "bad statement", "bad statement"
    ]  # fmt: skip
    assert records[1]["counterexample"]["values"] == {"n": 2}  # 0+1+2 = 3, not 4
    assert "column 11" in records[2]["detail"]
    assert not any(map(contradicts, records))


def test_a_list_is_continued_and_a_torn_last_line_dropped(items, tmp_path):
    out = tmp_path / "out.jsonl"
    first = run_bench(items[:2], out)
    torn = out.read_text().splitlines(keepends=True)
    out.write_text(torn[0] + torn[1][:20])
    told = []
    again = run_bench(items[:2], out, tell=told.append)
    assert [record["id"] for record in told] == ["wrong"]
    assert [r["status"] for r in again] == [r["status"] for r in first]
    assert len(out.read_text().splitlines()) == 2


def test_two_records_with_one_id_are_refused(items, tmp_path):
    with pytest.raises(UserError, match="two identities have the id 'row'"):
        run_bench([items[0], items[0]], tmp_path / "out.jsonl")


def test_a_file_of_something_else_is_not_appended_to(items, tmp_path):
    (tmp_path / "out.jsonl").write_text('{"other": 1}\n')
    with pytest.raises(UserError, match="damaged in line 1"):
        run_bench(items, tmp_path / "out.jsonl")


@pytest.mark.parametrize(
    ("holds", "status", "wrong"),
    [(True, "false", True), (False, "proved", True), (False, "false", False),
     (True, "open", False), (None, "false", False)],
)  # fmt: skip
def test_only_an_answer_can_contradict_what_is_known(holds, status, wrong):
    assert contradicts({"holds": holds, "status": status}) == wrong
