"""Files of items: read as written, and refused where they make no sense."""

import json

import pytest

from icml.brokenmath.items import Item, load_items, save_jsonl
from icml.core.errors import UserError

FACTS = {"id": "a", "statement": "2 + 2 = 5", "original": "2 + 2 = 4"}


def test_what_is_saved_is_loaded(tmp_path) -> None:
    items = [
        Item(**FACTS),
        Item(**FACTS | {"id": "b", "statement": "ü\u2028\n", "certificate": {"n": 3}}),
    ]
    save_jsonl(items, tmp_path / "x.jsonl")
    assert load_items(tmp_path / "x.jsonl") == items


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["{"], "line 1 of .* is no JSON"),
        (["[" * 100_000], "line 1 of .* is no"),
        (["[]"], "line 1 of .* is no item"),
        ([json.dumps(FACTS), json.dumps({"id": "b"})], "line 2 of .* is no item: statement"),
        ([json.dumps(FACTS)] * 2, "line 2 of .*: the id a stands twice"),
        ([json.dumps(FACTS | {"statement": "2 + 2 = 4 "})], "equals the original"),
        ([json.dumps(FACTS | {"colour": "red"})], "colour: Extra inputs"),
        (["x" * (2**20 + 1)], "more than 1048576"),
        ([json.dumps(FACTS | {"id": "x" * 201})], "id: String should have at most 200"),
        ([json.dumps(FACTS | {"statement": "\ud800"})], "half a character"),
        ([json.dumps(FACTS | {"certificate": {"family": "\ud800"}})], "half a character"),
        (
            [
                '{"id":"a","statement":"b","original":"c","certificate":'
                + '{"a":' * 400
                + "1"
                + "}" * 401
            ],
            "nested too deeply",
        ),
        ([""], "holds no item"),
        (['{"id": "a", "statement": "s", "original": "o", "answer": NaN}'], "it knows no NaN"),
        (['{"problem_id": 1, "problem": "s", "original_problem": -Infinity}'], "no -Infinity"),
    ],
)
def test_lines_that_are_no_items_are_refused(tmp_path, lines, reason) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(UserError, match=reason):
        load_items(path)


@pytest.mark.parametrize("source", ["verifed", "OWNER/NAME", "x.parquet", "x.jsonl", "x" * 300])
def test_a_name_of_no_file_is_told_what_items_are(source) -> None:
    with pytest.raises(UserError, match=f"no file {source}: items are verified, .* hf:OWNER/NAME"):
        load_items(source)


def test_a_byte_order_mark_and_a_carriage_return_are_no_part_of_an_item(tmp_path) -> None:
    line = b'{"id": "a", "statement": "s", "original": "o"}\r\n'
    (tmp_path / "x.jsonl").write_bytes(b"\xef\xbb\xbf" + line)
    (found,) = load_items(tmp_path / "x.jsonl")
    assert (found.id, found.statement, found.original) == ("a", "s", "o")


def test_files_that_can_t_be_read_are_refused(tmp_path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=r"line 1 of .*bytes can't be read"):
        load_items(tmp_path / "bytes")
    with pytest.raises(UserError, match="no revision"):
        load_items(tmp_path / "bytes", revision="abc")
