"""What the parser finds on consoles of real kernels (boots of our own, trimmed)."""

from pathlib import Path

import pytest

from icml.kenv.report import contains_crash, parse_report

CONSOLES = Path(__file__).parent / "consoles"


def console(name: str) -> str:
    return (CONSOLES / f"{name}.txt").read_text()


@pytest.mark.parametrize(
    ("name", "title", "kind"),
    [
        ("phonet-unpatched", "kernel BUG in pn_socket_autobind", "BUG"),
        ("phonet-warn", "WARNING in pn_socket_autobind", "WARNING"),
        ("omfs-unpatched", "divide error in omfs_get_bucket", "divide error"),
        ("kcm-unpatched", "WARNING in kcm_write_msgs", "WARNING"),
        ("uml-phonet-unpatched", "kernel BUG in pn_socket_autobind", "BUG"),
        ("uml-omfs-unpatched", "kernel panic: Kernel mode signal 8", "panic"),
        ("uml-kasan", "KASAN: slab-out-of-bounds Read in omfs_lookup", "KASAN"),
    ],
)
def test_a_recorded_crash_is_one_report_with_its_title(name, title, kind) -> None:
    (found,) = parse_report(console(name))
    assert (found.title, found.kind, found.panicked, found.comm) == (title, kind, True, "repro")


@pytest.mark.parametrize("name", ["phonet-fixed", "omfs-fixed", "uml-phonet-fixed"])
def test_a_recorded_clean_run_has_no_report(name) -> None:
    assert parse_report(console(name)) == []
    assert not contains_crash(console(name))


def test_a_bug_on_x86_starts_its_stack_at_the_instruction_pointer() -> None:
    (found,) = parse_report(console("phonet-unpatched"))

    certain = [frame for frame in found.stacks["call"] if not frame.question]
    assert [frame.func for frame in certain[:4]] == [
        "pn_socket_autobind",
        "pn_socket_sendmsg",
        "__sock_sendmsg",
        "__sys_sendto",
    ]
    assert certain[0].module == "phonet"
    assert found.pid == 86
    assert "RIP: 0033" in found.raw, "the user-space part is in the text"
    assert all(frame.func.isidentifier() for frame in certain)
    assert found.raw.splitlines()[0].endswith("[ cut here ]------------")


def test_doubtful_frames_are_kept_and_marked() -> None:
    (found,) = parse_report(console("omfs-unpatched"))
    assert {frame.func for frame in found.stacks["call"] if frame.question} >= {"uart_write"}


def test_a_kasan_report_has_access_size_and_the_allocation() -> None:
    (found,) = parse_report(console("uml-kasan"))
    assert (found.access, found.access_size, found.pid) == ("Read", 1, 23)
    assert found.alt_titles == ["bad-access in omfs_lookup"]
    assert "omfs_lookup" in {frame.func for frame in found.stacks["call"]}
    assert found.stacks["alloc"]
    assert not found.corrupted


def test_a_trap_on_uml_without_a_trace_is_called_corrupted() -> None:
    (found,) = parse_report(console("uml-omfs-unpatched"))
    assert found.corrupted
    assert found.stacks == {}


def test_a_panic_before_the_boot_marker_is_a_report_of_its_own() -> None:
    (found,) = parse_report(console("ioapic-before-boot"))
    assert found.title.startswith("kernel panic: IO-APIC + timer doesn't work!")
    assert [frame.func for frame in found.stacks["call"]][:3] == [
        "dump_stack_lvl",
        "panic",
        "setup_IO_APIC",
    ]


def test_carriage_returns_change_nothing() -> None:
    for name in ("phonet-unpatched", "uml-kasan"):
        text = console(name)
        (plain,), (with_returns,) = parse_report(text), parse_report(text.replace("\n", "\r\n"))
        assert with_returns == plain


def test_without_time_stamps_the_same_crash_is_found() -> None:
    import re

    for name in ("phonet-unpatched", "uml-kasan", "kcm-unpatched"):
        text = console(name)
        bare = re.sub(r"(?m)^\[ *[0-9.]+\] ", "", text)
        (stamped,), (found,) = parse_report(text), parse_report(bare)
        assert (found.title, found.stacks) == (stamped.title, stamped.stacks)


def test_the_text_of_a_report_is_the_console_between_its_line_numbers() -> None:
    text = console("kcm-unpatched")
    (found,) = parse_report(text)
    assert found.raw == "\n".join(text.split("\n")[found.start : found.end])
