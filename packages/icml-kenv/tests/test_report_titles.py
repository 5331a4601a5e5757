"""Title rules, on lines as the kernel's own format strings print them."""

import pytest

from icml.kenv.report import parse_report

HELPERS_THEN = " dump_stack_lvl+0x44/0x5c\n ? guess+0x1/0x9\n"
TRACE = f"Call Trace:\n <TASK>\n{HELPERS_THEN} victim.isra.0+0x11/0x20 [mod]\n caller+0x1/0x2\n"
RIP = "CPU: 1 PID: 7 Comm: my prog Not tainted 6.1.0 #1\nRIP: 0010:victim+0x7a/0xa0 [mod]\n"
RIP_IN_HELPER = "RIP: 0010:memcpy+0x7a/0xa0\n"


@pytest.mark.parametrize(
    ("lines", "title"),
    [
        (
            "BUG: KASAN: slab-use-after-free in victim+0x1/0x2\n"
            "Write of size 8 at addr ffff8880 by task syz-executor.0/33\n",
            "KASAN: slab-use-after-free Write in victim",
        ),
        (
            "BUG: KASAN: use-after-free in memcpy+0x1/0x2\n"
            f"Read of size 64 at addr ffff8880 by task a b/33\n{TRACE}",
            "KASAN: use-after-free Read in victim",
        ),
        (
            "BUG: KASAN: double-free or invalid-free in victim+0x1/0x2\n",
            "KASAN: invalid-free in victim",
        ),
        (f"BUG: KASAN: invalid-free in kfree+0x1/0x2\n{TRACE}", "KASAN: invalid-free in victim"),
        (f"BUG: KASAN: double-free in kfree+0x1/0x2\n{TRACE}", "KASAN: double-free in victim"),
        ("BUG: KMSAN: uninit-value in victim+0x1/0x2\n", "KMSAN: uninit-value in victim"),
        (f"BUG: KMSAN: uninit-value in memcmp+0x1/0x2\n{TRACE}", "KMSAN: uninit-value in victim"),
        (
            f"WARNING: CPU: 0 PID: 85 at mm/x.c:1 0xffffffffc0001234\n{TRACE}",
            "WARNING in victim",
        ),
        (
            "BUG: KFENCE: use-after-free read in victim+0x1/0x2\n",
            "KFENCE: use-after-free read in victim",
        ),
        ("BUG: KCSAN: data-race in zeta / alpha\n", "KCSAN: data-race in alpha / zeta"),
        ("BUG: KCSAN: data-race in victim+0x1/0x2\n", "KCSAN: data-race in victim"),
        (
            f"BUG: unable to handle page fault for address: ff\n#PF: x\nOops: 0000 [#1]\n{RIP}",
            "BUG: unable to handle kernel paging request in victim",
        ),
        (
            "BUG: unable to handle kernel paging request at ffffc900\nIP: victim+0x1/0x2\n",
            "BUG: unable to handle kernel paging request in victim",
        ),
        (
            f"BUG: kernel NULL pointer dereference, address: 0010\n{RIP_IN_HELPER}{TRACE}",
            "BUG: unable to handle kernel NULL pointer dereference in victim",
        ),
        (
            "BUG: unable to handle kernel NULL pointer dereference at           (null)\n"
            "IP: [<ffffffff81234567>] victim+0x1/0x2\n",
            "BUG: unable to handle kernel NULL pointer dereference in victim",
        ),
        (
            "general protection fault, probably for non-canonical address 0xdffffc: 0000 [#1] SMP\n"
            f"KASAN: null-ptr-deref in range [0x0-0x7]\n{RIP}",
            "general protection fault in victim",
        ),
        (f"Oops: general protection fault: 0000 [#1]\n{RIP}", "general protection fault in victim"),
        (
            f"kernel BUG at mm/slub.c:12!\ninvalid opcode: 0000 [#1] SMP\n{RIP}",
            "kernel BUG in victim",
        ),
        (
            f"kernel BUG at lib/l.c:59!\nRIP: 0010:__list_del_entry_valid+0x1/0x2\n{TRACE}",
            "kernel BUG in victim",
        ),
        ("BUG: failure at fs/omfs/dir.c:17/victim()!\n", "kernel BUG in victim"),
        ("WARNING: CPU: 0 PID: 85 at net/x.c:634 victim+0x4be/0x640 [mod]\n", "WARNING in victim"),
        ("WARNING: net/x.c:634 at victim+0x4be/0x640, CPU#0: repro/85\n", "WARNING in victim"),
        (
            "WARNING: CPU: 0 PID: 85 at lib/refcount.c:28 refcount_warn_saturate+0x1/0x2\n"
            f"RIP: 0010:refcount_warn_saturate+0x1/0x2\n{TRACE}",
            "WARNING: refcount bug in victim",
        ),
        (
            "WARNING: possible circular locking dependency detected\n6.1.0 Not tainted\n"
            "repro/85 is trying to acquire lock:\n"
            f"ffff8880 (&sk->lock){{+.+.}}-{{3:3}}, at: victim+0x1/0x2\n{TRACE}",
            "possible deadlock in victim",
        ),
        (f"WARNING: possible recursive locking detected\n{TRACE}", "possible deadlock in victim"),
        (f"WARNING: inconsistent lock state\n{TRACE}", "inconsistent lock state in victim"),
        (f"WARNING: suspicious RCU usage\n{TRACE}", "WARNING: suspicious RCU usage in victim"),
        (
            "INFO: task syz-executor.1:77 blocked for more than 143 seconds.\n"
            "Call Trace:\n __schedule+0x1/0x2\n schedule+0x1/0x2\n victim+0x1/0x2\n",
            "INFO: task hung in victim",
        ),
        (
            f"rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:\n{RIP}",
            "INFO: rcu detected stall in victim",
        ),
        (
            f"INFO: rcu_sched self-detected stall on CPU\n{TRACE}",
            "INFO: rcu detected stall in victim",
        ),
        (
            f"watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [a:7]\n{RIP}",
            "BUG: soft lockup in victim",
        ),
        (
            "BUG: sleeping function called from invalid context at kernel/locking/mutex.c:580\n"
            "Call Trace:\n __might_resched+0x1/0x2\n mutex_lock+0x1/0x2\n victim+0x1/0x2\n",
            "BUG: sleeping function called from invalid context in victim",
        ),
        (
            "BUG: memory leak\nunreferenced object 0xffff8881 (size 32):\n  backtrace:\n"
            "    [<00000000aabbccdd>] kmalloc_trace+0x1/0x2\n    [<00000000aa>] victim+0x1/0x2\n",
            "memory leak in victim",
        ),
        (
            f"UBSAN: array-index-out-of-bounds in fs/x.c:12:3\nindex 9 is out of range\n{TRACE}",
            "UBSAN: array-index-out-of-bounds in victim",
        ),
        (f"divide error: 0000 [#1] PREEMPT SMP\n{RIP}", "divide error in victim"),
        (f"Oops: divide error: 0000 [#1] SMP\n{RIP}", "divide error in victim"),
        (f"invalid opcode: 0000 [#1] SMP\n{RIP}", "invalid opcode in victim"),
        (
            f"BUG: scheduling while atomic: repro/85/0x00000002\n{TRACE}",
            "BUG: scheduling while atomic in victim",
        ),
        (
            f"BUG: Bad page state in process repro  pfn:1234\n{TRACE}",
            "BUG: Bad page state in victim",
        ),
        ("BUG: workqueue lockup - pool cpus=0 node=0 stuck\n", "BUG: workqueue lockup"),
        ("Kernel panic - not syncing: VFS: no root\n", "kernel panic: VFS: no root"),
        ("lost connection to test machine\n", "lost connection to test machine"),
        ("no output from test machine\n", "no output from test machine"),
    ],
)
def test_a_crash_gets_its_title(lines, title) -> None:
    assert [found.title for found in parse_report(lines)] == [title]
    stamped = "".join(f"[   12.345678][  T77] {line}\n" for line in lines.splitlines())
    if "test machine" not in title:
        assert [found.title for found in parse_report(stamped)] == [title]


@pytest.mark.parametrize(
    ("line", "alternative"),
    [
        ("BUG: KASAN: use-after-free in victim+0x1/0x2", "bad-access in victim"),
        ("BUG: KMSAN: uninit-value in victim+0x1/0x2", "bad-access in victim"),
        (f"BUG: kernel NULL pointer dereference, address: 0\n{RIP}", "bad-access in victim"),
        (f"BUG: unable to handle page fault for address: ff\n{RIP}", "bad-access in victim"),
        (f"general protection fault: 0000 [#1]\n{RIP}", "bad-access in victim"),
        ("BUG: KASAN: invalid-free in victim+0x1/0x2", "invalid-free in victim"),
        (f"watchdog: BUG: soft lockup - CPU#1 stuck for 22s!\n{RIP}", "stall in victim"),
        (f"INFO: rcu_sched self-detected stall on CPU\n{RIP}", "stall in victim"),
    ],
)
def test_crashes_that_one_bug_shows_in_several_ways_share_a_title(line, alternative) -> None:
    (found,) = parse_report(line)
    assert found.alt_titles == [alternative]
    assert found.matches([alternative])
    assert not found.matches(["bad-access in other"])


@pytest.mark.parametrize(
    "kind", ["kernel BUG at a.c:1!", "WARNING: CPU: 0 PID: 1 at a.c:1 f+0x1/0x2"]
)
def test_other_crashes_have_no_alternative(kind) -> None:
    (found,) = parse_report(kind)
    assert found.alt_titles == []


@pytest.mark.parametrize(
    "reason",
    [
        "Fatal exception",
        "Fatal exception in interrupt",
        "kernel: panic_on_warn set ...",
        "BUG!",
        "KASAN: panic_on_warn set ...",
        "softlockup: hung tasks",
        "hung_task: blocked tasks",
    ],
)
def test_a_panic_that_follows_a_report_belongs_to_it(reason) -> None:
    (found,) = parse_report(f"kernel BUG at a.c:1!\n{RIP}Kernel panic - not syncing: {reason}\n")
    assert found.panicked
    (alone,) = parse_report(f"kernel BUG at a.c:1!\n{RIP}")
    assert not alone.panicked


def test_the_registers_printed_again_after_a_trace_are_no_second_crash() -> None:
    again = f"divide error: 0000 [#1]\n{RIP}{TRACE}---[ end trace 0 ]---\nRIP: 0010:other+0x1/0x2\n"
    (found,) = parse_report(again)
    assert found.title == "divide error in victim"
    assert "other" not in found.raw


def test_each_of_two_crashes_keeps_its_own_text() -> None:
    first, second = parse_report(
        f"WARNING: CPU: 0 PID: 1 at a.c:1 one+0x1/0x2\n{TRACE}---[ end trace 0 ]---\nhello\n"
        f"divide error: 0000 [#1]\n{RIP}"
    )
    assert (first.title, second.title) == ("WARNING in one", "divide error in victim")
    assert "divide" not in first.raw
    assert "hello" not in second.raw


def test_user_space_is_never_blamed() -> None:
    user = "RIP: 0033:main+0x1/0x2\n"
    (found,) = parse_report(f"divide error: 0000 [#1]\n{user}{TRACE}")
    assert found.title == "divide error in victim"


def test_a_return_address_at_a_functions_first_byte_is_passed_over() -> None:
    trace = "Call Trace:\n innocent.cold+0x0/0x56\n victim+0x3/0x9\n"
    (found,) = parse_report(f"WARNING: suspicious RCU usage\n{trace}")
    assert found.title.endswith("in victim")


def test_a_program_cannot_announce_a_crash_where_the_kernel_stamps_its_lines() -> None:
    forged = "[    0.000000] Linux version 6.1\nBUG: KASAN: use-after-free in f\nKENV_X BUG: no\n"
    assert parse_report(forged) == []
    assert parse_report("repro: BUG: bad thing -> 0\nKENV_DONE BUG: bad thing\n") == []


def test_a_programs_unfinished_line_does_not_hide_the_kernels() -> None:
    text = "[    0.000000] Linux version 6.1\nrepro: half a li[    1.234567] kernel BUG at a.c:1!\n"
    (found,) = parse_report(text)
    assert found.title == "kernel BUG"
