"""Stack traces of kernels: their lines, and the first frame that can be blamed for a crash."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from icml.kenv.models import Frame

_FRAME = re.compile(
    r"\s*(?:\[<[0-9a-fx]+>\]\s*)?"
    r"(?P<question>\?\s+)?"
    r"(?P<func>[A-Za-z_][\w.$]*)\+0x(?P<offset>[0-9a-f]+)/0x(?P<size>[0-9a-f]+)"
    r"(?:\s+\[(?P<module>[\w-]+)[^\]]*\])?"
    r"(?:\s+(?P<file>[\w./+-]+):(?P<line>[0-9]+))?\s*(?P<inline>\[inline\])?\s*",
    re.ASCII,
)
_INLINE = re.compile(
    r"\s*(?P<func>[A-Za-z_][\w.$]*) (?P<file>[\w./+-]+):(?P<line>[0-9]+) \[inline\]\s*", re.ASCII
)
_POINTER = re.compile(
    r"(?:RIP|EIP|IP):\s+(?!0033:)(?:[0-9a-fx]{4}:)?(?:\[<[0-9a-fx]+>\]\s*)*"
    r"(?P<frame>[A-Za-z_][\w.$]*\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[[^\]]*\])?)",
    re.ASCII,
)
_SUFFIX = re.compile(r"\.(?:constprop|isra|part|cold|llvm|lto_priv)(?:\.[0-9]+)*(?=\.|$)", re.ASCII)
_BETWEEN = re.compile(
    r"\s*(?:</?[A-Z]+[0-9]*>.*|=+|Stack:|(?: ?[0-9a-f]{8,16})+|RIP: 00(?:10|60):.*|Code: .*"
    r"|(?:[A-Z][A-Z0-9]{1,2}|ORIG_RAX|RSP|EFLAGS|FS|CS|CR[0-9]): .*)?\s*",
    re.ASCII,
)
_START = re.compile(
    r"\s*(?:Call [Tt]race:|Backtrace:|backtrace(?: \(crc [0-9a-f]+\))?:).*", re.ASCII
)

_HELPERS = re.compile(
    # sanitizers and what prints their reports
    r"_*k?[amct]san_\w*|kasan_\w*|_*ubsan_\w*|instrument_\w*|dump_stack\w*|_*show_stack\w*"
    r"|print_(?:report|address_description\w*|circular\w*|usage_bug\w*|deadlock_bug\w*|\w*_bug)"
    r"|end_report|check_panic_on_warn|dump_backtrace\w*|show_regs\w*|_*dump_page\w*|_?printk\w*"
    # traps, oopses, warnings
    r"|panic|vpanic|_*warn(?:_printk|_slowpath_\w+|ing_\w+)?|warn_slowpath_\w+|report_bug|handle_bug"
    r"|_*die\w*|oops_\w+|do_error_trap|do_trap\w*|(?:asm_)?exc_\w+|asm_sysvec_\w+|sysvec_\w+"
    r"|invalid_op|page_fault\w*|no_context|_*bad_area\w*|(?:do|handle)_page_fault|error_entry"
    r"|do_(?:user|kern)_addr_fault|_*fortify_\w+|exception_enter|common_exception\w*"
    # memory and strings
    r"|_*mem(?:cpy|set|move|cmp|chr|scan|dup|parse|zero)\w*|_*str(?:n|l|s|r)?(?:len|cpy|cmp|chr|str|cat"
    r"|casecmp|dup|sep|spn|nlen|cspn|copy|pbrk)\w*|strncasecmp|kstrdup\w*|kmemdup\w*"
    r"|_*k[mzcv]*(?:re)?alloc\w*|_*kv?z?free\w*|_*kmem_cache_\w+|_*slab_\w+|_*alloc_pages\w*|vmalloc\w*"
    r"|_*(?:copy|get|put|clear|strncpy|strnlen)_(?:from_|to_|in_)?user\w*|_?copy_(?:from|to)_\w+"
    r"|csum_(?:and_copy|partial)_\w+|_*copy_user_\w+|copyin|copyout|_?copy_(?:from|to)_iter\w*"
    # locks, counters, lists
    r"|_*(?:raw_)?(?:spin|read|write|seq|rw)_?(?:un|try)?_?lock\w*|_*(?:rt_)?mutex_\w+|_*rw_?(?:lock|sem)\w*"
    r"|_*(?:down|up)(?:_(?:read|write|trylock|interruptible|killable|timeout)\w*)?|_*lockdep_\w+"
    r"|(?:check|validate|mark)_(?:lock|chain|prev|noncircular|irq)\w*|_*lock_(?:acquire|release)\w*"
    r"|_*might_(?:sleep|fault|resched|alloc)\w*|_*cant_sleep|_*refcount_\w+|_*kref_\w+"
    r"|(?:raw_|arch_|generic_)*(?:atomic(?:64|_long)?_\w+|(?:test|set|clear|change)_(?:and_\w+_)?bit\w*)"
    r"|_*h?list_(?:add|del)\w*|lockref_\w+|_*bit_spin_\w+|debug_\w+|rcu_lockdep_\w+|(?:rcu_)?is_watching"
    # waiting, and those who watch the waiting
    r"|_*schedule\w*|io_schedule\w*|context_switch|_*wait_for_com\w+|do_wait_for_common|_*cond_resched"
    r"|(?:arch_)?(?:trigger_\w+backtrace\w*|nmi_\w+)|rcu_(?:dump|check|sched|pending)\w*|watchdog\w*"
    r"|print_(?:cpu|other_cpu)_stall\w*|check_cpu_stall\w*|sched_show_task|check_hung\w+|update_process_times"
    r"|_*hrtimer_\w+|tick_\w+|_*sysvec\w*|_*irq_exit\w*|_*do_softirq\w*|handle_softirqs|invoke_softirq"
    r"|update_stack_state|stack_trace_\w+|save_stack\w*|unwind_\w+|arch_stack_walk",
    re.ASCII,
)


def plain_name(func: str) -> str:
    """Return a function's name without what the compiler added to it."""
    return _SUFFIX.sub("", func)


def is_helper(func: str) -> bool:
    """Say whether a function only reports, copies, locks or allocates for the guilty one."""
    return _HELPERS.fullmatch(func) is not None


def parse_frame(line: str) -> Frame | None:
    """Parse one line of a stack trace without its time stamp, old and new style.

    Example:
        >>> parse_frame(" [<60552d1e>] ? pn_socket_sendmsg.cold+0x3e/0x80 [phonet]").func
        'pn_socket_sendmsg'
    """
    found = _FRAME.fullmatch(line)
    if found is None:
        found = _INLINE.fullmatch(line)
        if found is None:
            return None
        return Frame(
            func=plain_name(found["func"]), file=found["file"], line=int(found["line"]), inline=True
        )
    return Frame(
        func=plain_name(found["func"]),
        offset=int(found["offset"], 16),
        size=int(found["size"], 16),
        file=found["file"],
        line=int(found["line"]) if found["line"] else None,
        module=found["module"],
        inline=found["inline"] is not None,
        question=found["question"] is not None,
    )


def parse_stack(lines: Iterable[str]) -> list[Frame]:
    """Parse the frames that ``lines`` start with, up to the first line of another kind."""
    frames = []
    for line in lines:
        if (frame := parse_frame(line)) is not None:
            frames.append(frame)
        elif _BETWEEN.fullmatch(line) is None:
            break
    return frames


def trace_starts(line: str) -> bool:
    """Say whether a stack trace begins on the next line."""
    return _START.fullmatch(line) is not None


def instruction_pointer(line: str) -> Frame | None:
    """Parse where the kernel was (``RIP:``), None for other lines and for user space."""
    if "IP:" not in line:
        return None
    found = _POINTER.match(line.lstrip())
    return parse_frame(found["frame"]) if found else None


def guilty(frames: Sequence[Frame]) -> Frame | None:
    """Return the innermost frame that is certain and no helper.

    A return address at a function's first byte belongs to a caller that ends in a call which
    doesn't return, so such a frame names the wrong function and is passed over.
    """
    for frame in frames:
        if not frame.question and frame.offset != 0 and not is_helper(frame.func):
            return frame
    return None
