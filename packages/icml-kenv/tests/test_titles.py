import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from icml.kenv.titles import TITLE_LENGTH, normalise_title


@pytest.mark.parametrize(
    ("title", "wanted"),
    [
        ("INFO: task syz-executor.3/1234 hung", "INFO: task syz-executor hung"),
        ("INFO: task syz-executor0:4536 hung", "INFO: task syz-executor hung"),
        ("bug in syzkaller123", "bug in syzkaller"),
        ("BUG at ffff88ae828eb000", "BUG at ADDR"),
        ("BUG at 0xdeadbeef", "BUG at ADDR"),
        ("bad ip 192.168.0.1!", "bad ip IP!"),
        ("kernel BUG at net/phonet/socket.c:213!", "kernel BUG at net/phonet/socket.c:LINE!"),
        ("lock at kernel/fork.c:123:4", "lock at kernel/fork.c:LINE"),
        ("WARNING in kcm_write_msgs+0x4be/0x640", "WARNING in kcm_write_msgs"),
        ("soft lockup - CPU#3 stuck", "soft lockup - CPU stuck"),
        ("leak of 5 in 7 objects", "leak of NUM in NUM objects"),
        ("file q12345678", "file qNUM"),
        ("WARNING in\tF\x00\x1b[1m  x ", "WARNING in F[1m x"),
        ("WARNING in tcp_v4_rcv", "WARNING in tcp_v4_rcv"),
        ("WARNING in decade", "WARNING in decade"),
    ],
)
def test_what_differs_from_run_to_run_is_replaced(title, wanted) -> None:
    assert normalise_title(title) == wanted


parts = st.sampled_from(
    [
        "syz-executor",
        ".3",
        "/1",
        ":",
        "syzkaller",
        "0x",
        "abcdef12",
        "1.2.3.4",
        ".c:12:3",
        "+0x1/0x2",
        "CPU#",
        "7",
        "1234567",
        " ",
        "\t",
        "\x00",
        "NUM",
        "é",
    ]
)


@given(st.one_of(st.text(), st.lists(parts, max_size=60).map("".join)))
@example("x" * 115 + " 12345678901234")
def test_a_normalised_title_stays_as_it_is(title) -> None:
    once = normalise_title(title)
    assert normalise_title(once) == once
    assert len(once) <= TITLE_LENGTH
    assert once == once.strip()
