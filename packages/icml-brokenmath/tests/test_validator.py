"""Items are checked in another process, whatever is in them, and every one is told of."""

import json

import pytest

from icml.brokenmath import validator
from icml.brokenmath.items import Item, save_jsonl
from icml.brokenmath.validator import table, validate
from icml.brokenmath.verified import generate
from icml.core.errors import UserError
from icml.core.testing.commands import run_icml

HOSTILE = [
    Item(id="a", statement="\x1b[2J\u202e", original="b", certificate={"family": "digit-sum"}),
    Item(id="b", statement="__import__('os').system('touch /tmp/x')", original="y"),
    Item(id="c", statement="x", original="y", certificate={"family": "\n", "parameters": {"n": 1}}),
]


def test_good_and_bad_items_each_get_their_line() -> None:
    good = generate(23, 4)
    found = validate([*good[:5], *HOSTILE, *good[5:]])
    assert [one.flag for one in found[5:8]] == [
        "bad certificate", "no certificate", "bad certificate",
    ]  # fmt: skip
    assert all(not one.flag for one in found[:5] + found[8:])
    shown = table(found)
    assert "23 of 26 items are verified" in shown
    assert "bad certificate: 2" in shown


def test_an_item_s_words_do_not_steer_the_terminal() -> None:
    steering = Item(
        id="\x1b[2J\x07", statement="x", original="y", kind="\x1b[31mred\nnew" + "w" * 99
    )
    shown = table(validate([steering]))
    assert all(mark == "\n" or mark.isprintable() for mark in shown)
    assert "\\x1b[2J\\x07 has no certificate" in shown
    assert max(map(len, shown.splitlines())) < 100
    assert "0 of 0" in table([])


def test_a_statement_that_stands_twice_is_no_second_item() -> None:
    first = generate(1, 4)[0]
    found = validate([first, first.model_copy(update={"id": "again"})])
    assert [one.flag for one in found] == ["same text", "same text"]


def test_at_the_limit_the_culprit_is_named_and_the_rest_is_checked(monkeypatch) -> None:
    monkeypatch.setattr(validator, "MEMORY_MB", 1)
    found = validate(generate(3, 4))
    assert {one.flag for one in found} == {"not checked"}
    assert found[0].reason == f"{found[0].id}: the checker came to 1 MiB"
    for seconds in (0, -1, float("nan"), float("inf")):
        with pytest.raises(UserError, match="seconds must be positive and finite"):
            validate([], seconds=seconds)


CRASH = """
import os, sys
from icml.brokenmath import verified
def decide(item, real=verified.verify):
    if item.id == "raises":
        raise RuntimeError("a bug")
    if item.id == "dies":
        os._exit(3)
    return real(item)
verified.verify = decide
"""


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(("name", "why"), [("raises", "RuntimeError: a bug"), ("dies", "exit 3")])
def test_an_item_that_crashes_the_checker_is_named_wherever_it_stands(
    place, name, why, tmp_path, monkeypatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(CRASH)
    monkeypatch.syspath_prepend(tmp_path)
    items = generate(3, 4)
    items[place] = items[place].model_copy(update={"id": name})
    found = validate(items)
    assert [one.flag for one in found] == ["not checked" if i == place else "" for i in range(3)]
    assert found[place].reason == f"{name}: the checker crashed: {why}"


def test_a_checker_that_does_not_start_says_so(tmp_path, monkeypatch) -> None:
    (tmp_path / "pydantic.py").write_text("raise SystemExit('no such library')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match="the checker does not start: no such library"):
        validate(generate(1, 4))


def test_the_command_lists_families_and_says_what_is_wrong(tmp_path) -> None:
    items = generate(23, 2)
    save_jsonl(items, tmp_path / "good.jsonl")
    ended = run_icml("brokenmath", "validate", str(tmp_path / "good.jsonl"))
    assert ended.returncode == 0
    assert "23 of 23 items are verified" in ended.stdout
    rows = [json.loads(line) for line in (tmp_path / "good.jsonl").read_text().splitlines()]
    rows[3]["statement"] += "!"
    (tmp_path / "bad.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ended = run_icml("brokenmath", "validate", str(tmp_path / "bad.jsonl"))
    assert ended.returncode == 1
    assert "edited: 1, for example " in ended.stdout


def test_generate_writes_a_new_file_only(tmp_path) -> None:
    out = str(tmp_path / "x.jsonl")
    asked = ("brokenmath", "generate", "--out", out, "--n", "4", "--families", "order", "frobenius")
    assert "4 items, 2 or more of each of 2 families" in run_icml(*asked).stdout
    again = run_icml(*asked)
    assert (again.returncode, "is there already" in again.stderr) == (2, True)
