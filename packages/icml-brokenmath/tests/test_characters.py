"""Halves of characters are joined, or replaced; everything else stays as it is."""

from hypothesis import given
from hypothesis import strategies as st

from icml.brokenmath.characters import whole_text

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
