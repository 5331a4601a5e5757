"""What any other program writes as JSON Lines is read, and what is none is refused by its line."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from icml.core.errors import UserError
from icml.core.jsonl import parse_json, read_rows

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture
def rows(tmp_path):
    return tmp_path / "rows.jsonl"


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None
)
@given(
    st.lists(values, max_size=5),
    st.booleans(),
    st.sampled_from([b"\n", b"\r\n", b"\n\n", b"\r\n \t\r\n"]),
    st.booleans(),
    st.booleans(),
)
def test_what_is_written_is_read_whatever_marks_and_line_ends(
    rows, written, ascii_only, end, mark, last
) -> None:
    lines = [json.dumps(value, ensure_ascii=ascii_only).encode() for value in written]
    data = end.join(lines) + (end if last else b"")
    rows.write_bytes((b"\xef\xbb\xbf" if mark else b"") + data)
    step = end.count(b"\n")
    expected = [(f"line {1 + step * n} of {rows}", value) for n, value in enumerate(written)]
    assert list(read_rows(rows)) == expected


def test_other_line_ends_are_part_of_a_text(rows) -> None:
    text = "a\u2028b\u2029c\x85d"
    rows.write_text(json.dumps([text], ensure_ascii=False), encoding="utf-8")
    assert [value for _, value in read_rows(rows)] == [[text]]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"a": 1', "is no JSON: "),
        (b"1 2", "is no JSON: Extra data"),
        (b'{"a": NaN}', "is no JSON: it knows no NaN"),
        (b"[Infinity]", "is no JSON: it knows no Infinity"),
        (b"-Infinity", "is no JSON: it knows no -Infinity"),
        (b"9" * 5000, "is no JSON: Exceeds the limit"),
        (b"[" * 100_000, "nested too deeply"),
        (b'"\xff"', r"can't be read: it is no UTF-8 text \(byte 2\)"),
        (b'"' + b"x" * 2**18 + b'"', "has more than 131072 bytes"),
        (b"\xef\xbb\xbf1", "is no JSON: "),
        (b"\0", "is no JSON: "),
    ],
)
def test_a_line_that_is_no_json_is_refused_by_its_number(rows, line, reason) -> None:
    rows.write_bytes(b"[1]\n\n" + line + b"\n[2]\n")
    found = read_rows(rows, longest=2**17)
    assert next(found)[1] == [1]
    with pytest.raises(UserError, match=rf"^line 3 of .*rows\.jsonl.* {reason}"):
        next(found)


def test_the_longest_line_is_read_and_one_more_byte_is_not(rows) -> None:
    rows.write_bytes(b'"1234567"\n')
    assert [value for _, value in read_rows(rows, longest=10)] == ["1234567"]
    with pytest.raises(UserError, match=r"line 1 of .* has more than 9 bytes"):
        list(read_rows(rows, longest=9))


@pytest.mark.parametrize("name", ["none.jsonl", ".", "\0"])
def test_a_file_that_can_t_be_opened_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="can't be read: "):
        list(read_rows(tmp_path / name))


def test_an_empty_file_has_no_row(rows) -> None:
    rows.write_bytes(b"\xef\xbb\xbf\n \r\n")
    assert list(read_rows(rows)) == []


def test_a_text_of_several_lines_is_parsed_by_the_same_rules() -> None:
    assert parse_json('[\n1,\n"a"]', "it") == [1, "a"]
    with pytest.raises(UserError, match=r"^it is no JSON: it knows no NaN"):
        parse_json("[\nNaN]", "it")
