"""Halves of characters are joined or replaced, marks of turns spaced; all else stays as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml.brokenmath.characters import whole_text, without_marks

PIECES = ["a", "\u00e9", "\U0001f4a1", "\ufeff", "\ud83d", "\udca1", "\ud800", "\udfff"]


def by_hand(text: str) -> str:
    """Go from left to right: a high half and a low one are a character, each other half is none."""
    found, place = [], 0
    while place < len(text):
        mark, after = text[place], text[place + 1 : place + 2]
        if "\ud800" <= mark <= "\udbff" and "\udc00" <= after <= "\udfff":
            found.append(chr(0x10000 + (ord(mark) - 0xD800) * 0x400 + ord(after) - 0xDC00))
            place += 2
            continue
        found.append("\ufffd" if "\ud800" <= mark <= "\udfff" else mark)
        place += 1
    return "".join(found)


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_halves_are_joined_or_replaced_as_by_hand(text) -> None:
    found = whole_text(text)
    assert found == by_hand(text)
    assert found.encode().decode() == found


@given(st.text())
def test_a_text_without_halves_stays_as_it_is(text) -> None:
    assert whole_text(text) == text


MARKS = [
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|start_header_id|>", "<|eot_id|>", "<|turn>",
    "<turn|>", "</s>", "<s>", "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "[INST]",
    "[/INST]", "<<SYS>>", "<</SYS>>", "<\uff5cUser\uff5c>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "[SYSTEM_PROMPT]", "[TOOL_CALLS]",
]  # fmt: skip


@pytest.mark.parametrize("mark", MARKS)
def test_no_mark_of_a_turn_is_left_and_nothing_but_spaces_is_added(mark) -> None:
    found = without_marks(f"a{mark}{mark}\nassistant {mark}")
    assert mark not in found
    assert found.replace(" ", "") == f"a{mark}{mark}\nassistant{mark}"
    assert without_marks(found) == found


@pytest.mark.parametrize(
    "text",
    [
        "|x| < 3 and n > 0",
        "a < b | c > d",
        "P(A | B)",
        "<table>",
        "\\langle x | y \\rangle",
        "x[3]",
    ],
)
def test_ordinary_mathematics_stays_as_it_is(text) -> None:
    assert without_marks(text) == text
