from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml.core.errors import UserError
from icml.kenv.console import markers, new_nonce, read_console

NONCE = "0123456789abcdef0123456789abcdef"
BOOT, EXIT, DONE = markers(NONCE)
STAMP = "[    5.631542] "
CLEAN = f"{STAMP}Run /init\n{BOOT}\nrepro: bind(l) -> 0 errno=0\n{EXIT} 0\n{DONE}\n{STAMP}reboot\n"
CRASH = f"{STAMP}kernel BUG at net/x.c:1!\n{STAMP}RIP: 0010:f+0x1/0x2\n"


def test_a_clean_boot_has_all_markers_and_the_transcript() -> None:
    found = read_console(CLEAN, NONCE)
    assert found == (True, True, 0, ["bind(l) -> 0 errno=0"], None)


def test_a_crash_ends_the_transcript() -> None:
    found = read_console(f"{BOOT}\nrepro: a -> 1\n{CRASH}", NONCE)
    assert (found.booted, found.finished, found.exit) == (True, False, None)
    assert found.transcript == ["a -> 1"]
    assert found.crash is not None
    assert found.crash.title == "kernel BUG in f"


def test_a_crash_before_the_boot_marker_counts_only_where_there_is_none() -> None:
    assert read_console(f"{CRASH}{STAMP}---[ end trace 0 ]---\n{CLEAN}", NONCE).crash is None
    early = read_console(CRASH, NONCE)
    assert (early.booted, early.transcript) == (False, None)
    assert early.crash is not None


def test_markers_of_another_boot_or_without_nonce_say_nothing() -> None:
    other = markers("f" * 32)
    for wrong in (f"{other.boot}\n{other.exit} 0\n{other.done}\n", "KENV_BOOT_OK\nKENV_DONE\n"):
        assert not read_console(wrong, NONCE).booted
    forged = read_console(f"{BOOT}\n{other.exit} 0\n{other.done}\nKENV_DONE\n", NONCE)
    assert (forged.booted, forged.finished) == (True, False)


@pytest.mark.parametrize(
    "console",
    [
        f"{DONE}\n{EXIT} 0\n{BOOT}\n",
        f"{BOOT}\n{DONE}\n",
        f"{BOOT}\n{DONE}\n{EXIT} 0\n",
        f"{EXIT} 0\n{DONE}\n",
        f"x{BOOT}\n{EXIT} 0\n{DONE}\n",
        f"{BOOT}x\n{EXIT} 0\n{DONE}\n",
    ],
)
def test_markers_out_of_order_or_within_other_text_are_no_end(console) -> None:
    assert not read_console(console, NONCE).finished


def test_the_kernels_text_within_a_programs_line_is_taken_out() -> None:
    torn = (
        f"{BOOT}\nrepro: ioctl(l) {STAMP}loop0: detected capacity\n-> 0 errno=0\n"
        f"{EXIT}{STAMP}hello\n 0\n{DONE}\n"
    )
    found = read_console(torn, NONCE)
    assert found.transcript == ["ioctl(l) -> 0 errno=0"]
    assert (found.exit, found.finished) == (0, True)


def test_carriage_returns_change_nothing() -> None:
    assert read_console(CLEAN.replace("\n", "\r\n"), NONCE) == read_console(CLEAN, NONCE)


def test_a_reproducer_killed_by_a_signal_has_its_status_and_nonsense_has_none() -> None:
    assert read_console(f"{BOOT}\n{EXIT} 139\n{DONE}\n", NONCE).exit == 139
    assert read_console(f"{BOOT}\n{EXIT} 9{'9' * 5000}\n{DONE}\n", NONCE).exit is None


def test_the_transcripts_of_recorded_boots_agree_between_two_kernels_up_to_the_crash() -> None:
    def transcript(name: str) -> list[str]:
        text = (Path(__file__).parent / "consoles" / f"{name}.txt").read_text()
        with_nonce = text.replace("KENV_BOOT_OK", BOOT)
        return read_console(with_nonce, NONCE).transcript or []

    crashed, fixed = transcript("phonet-unpatched"), transcript("phonet-fixed")
    assert len(crashed) == 8
    assert fixed[:-1] == crashed
    assert fixed[-1] == "send(a, &x, 1, MSG_DONTWAIT) -> -1 errno=11"


@given(st.text(max_size=300), st.text(max_size=300))
def test_no_text_without_the_nonce_ends_a_boot(before, after) -> None:
    assert not read_console(before + after, NONCE).booted
    assert not read_console(f"{BOOT}\n{after}", NONCE).finished


@pytest.mark.parametrize("nonce", ["", "0123", "g" * 16, "0" * 65, "0" * 16 + "\n"])
def test_a_weak_nonce_is_refused(nonce) -> None:
    with pytest.raises(UserError, match="hexadecimal"):
        markers(nonce)


def test_nonces_are_new_every_time() -> None:
    assert len({new_nonce() for _ in range(100)}) == 100
    assert markers(new_nonce())
