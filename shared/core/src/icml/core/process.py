"""Foreign programs under limits: time, memory and output of a whole tree of processes.

Nothing that a child started outlives :func:`run_child`. Where the system lets us, the child gets
process and network namespaces of its own: the kernel then ends all of its descendants with it,
also when our own process is killed, and it reaches no network. Elsewhere it gets a process group,
and whatever was seen of its tree is ended; :attr:`ChildResult.isolation` says which.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Literal, NamedTuple

import psutil

from icml.core.errors import UserError

Reason = Literal["exit", "timeout", "memory", "output"]
"""What ended a child: itself, or the limit that it exceeded."""

NOBODY = 65534
"""User and group of ``nobody`` on Linux."""

_MIB = 2**20
_CHUNK = 65536
_SHORTEST_LOOK, _LONGEST_LOOK = 0.005, 0.05  # seconds between two looks at the tree's memory


class ChildResult(NamedTuple):
    """How a child ended and what it wrote."""

    exit: int | None
    """Exit status, 128 + n after signal n; None where a limit ended the child."""
    stdout: str
    """What it wrote, undecodable bytes replaced; a cut keeps the head and the tail."""
    stderr: str
    seconds: float
    """Wall time (s)."""
    max_rss_mb: float
    """Largest resident size of the whole tree that was seen (MiB)."""
    reason: Reason
    isolation: str
    """``namespaces`` or ``process group``, with ``, nobody`` where the user was changed."""


def run_child(
    argv: Sequence[str | os.PathLike[str]],
    *,
    timeout_s: float,
    memory_mb: float | None = None,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | bytes | None = None,
    output_limit: int = 8 * _MIB,
    foreign: bool = False,
) -> ChildResult:
    r"""Run a program to its end or to the first limit that it exceeds, and leave nothing running.

    Ctrl-C ends the tree before it goes on to the caller. Address space is never limited: programs
    that reserve gigabytes and use little are common.

    Args:
        argv: Program and arguments. A bare name is looked up on our own ``PATH``.
        timeout_s: Wall time (s), finite.
        memory_mb: Resident size of the whole tree (MiB), looked at every 5 to 50 ms.
        cwd: Folder to run in; by default the present one.
        env: The whole environment of the child; empty by default.
        stdin: What the child reads; nothing by default.
        output_limit: Bytes each of the two streams may have; the child ends at the first more.
        foreign: The program, or what it interprets, is not to be trusted: root starts it as
            ``nobody``, and nobody gains new privileges.

    The limits hold for root too: they are watched from outside, not asked of the kernel.

    Raises:
        ValueError: If a limit is no limit, or there is no program.
        UserError: If the program or the folder is not there, or nobody may not run the program
            that root is to start as nobody.

    Example:
        >>> import sys
        >>> run_child([sys.executable, "-c", "print(6 * 7)"], timeout_s=30).stdout
        '42\n'
    """
    _check_limits(timeout_s, memory_mb, output_limit)
    command = _resolve(argv, foreign=foreign)
    folder = Path(cwd or ".")
    if not folder.is_dir():
        raise UserError(f"the folder {folder} to run {command[0]} in is not there")
    wrapper = _wrapper(foreign)
    started = time.monotonic()
    process = subprocess.Popen(
        [*wrapper.prefix, *command],
        stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=dict(env or {}),
        start_new_session=True,
        bufsize=0,
    )
    tree = _Tree(process)
    with _streams(process, stdin, output_limit) as streams, tree.ended_at_last():
        reason = _watch(process, tree, streams, started + timeout_s, memory_mb)
        if reason != "exit":
            for stream in streams:
                stream.stop()  # unshare complains when its child is killed
    if reason == "exit" and any(stream.full for stream in streams):
        reason = "output"
    stdout, stderr = (stream.text() for stream in streams)
    return ChildResult(
        exit=_status(process) if reason == "exit" else None,
        stdout=stdout,
        stderr=stderr,
        seconds=time.monotonic() - started,
        max_rss_mb=tree.peak / _MIB,
        reason=reason,
        isolation=wrapper.isolation,
    )


def _check_limits(timeout_s: float, memory_mb: float | None, output_limit: int) -> None:
    """Refuse what would never be exceeded, or always."""
    limits = {"timeout_s": timeout_s, "memory_mb": memory_mb, "output_limit": output_limit}
    for name, limit in limits.items():
        if limit is None and name == "memory_mb":
            continue
        number = isinstance(limit, int | float) and not isinstance(limit, bool)
        if not number or not 0 < limit < math.inf:
            raise ValueError(f"{name} must be a finite number above 0, got {limit!r}")


def _resolve(argv: Sequence[str | os.PathLike[str]], *, foreign: bool) -> list[str]:
    if not argv or isinstance(argv, str):
        raise ValueError(f"argv must be a program and its arguments, got {argv!r}")
    program, *arguments = (os.fspath(part) for part in argv)
    found = shutil.which(program)
    if found is None:
        raise UserError(f"the program {program} is not there or may not be run: install it")
    found = os.path.abspath(found)
    if foreign and os.name == "posix" and os.geteuid() == 0 and not _open_to_others(Path(found)):
        raise UserError(
            f"root runs foreign programs as nobody, who may not run {found}: "
            "install it where others may read, or work as another user"
        )
    return [found, *arguments]


def _open_to_others(program: Path) -> bool:
    program = program.resolve()
    return all(path.stat().st_mode & 0o001 for path in (program, *program.parents))


class _Wrapper(NamedTuple):
    """What is put before a command to contain it."""

    prefix: tuple[str, ...]
    isolation: str


@cache
def _wrapper(foreign: bool) -> _Wrapper:
    """Return the strongest wrapper that this system runs."""
    for wrapper in _wrappers(foreign):
        with suppress(OSError, subprocess.TimeoutExpired):
            tried = subprocess.run([*wrapper.prefix, "true"], capture_output=True, timeout=10)
            if tried.returncode == 0:
                return wrapper
    return _Wrapper((), "process group")


def _wrappers(foreign: bool) -> Iterator[_Wrapper]:
    # The kernel forgets --pdeathsig when the user changes, so each program of the chain sets it.
    die = ("setpriv", "--pdeathsig", "KILL")
    root = os.name == "posix" and os.geteuid() == 0
    drop: tuple[str, ...] = ()
    if foreign:
        drop = (*die, "--no-new-privs")
        if root:
            drop += (f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    suffix = ", nobody" if foreign and root else ""
    # The first process of a namespace is deaf to its own signals: a shell takes that place.
    first = ("sh", "-c", '"$@"; exit $?', "sh")
    spaces = ("--fork", "--pid", "--mount-proc", "--net", "--kill-child")
    for user in ((), ("--user", "--map-current-user")):
        inside = ("unshare", *user, *spaces, *drop, *first)
        yield _Wrapper((*die, *inside), f"namespaces{suffix}")
    yield _Wrapper(drop or die, f"process group{suffix}")


class _Tree:
    """A child and its descendants, also those that were seen once and lost their parent."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._seen: dict[int, psutil.Process] = {}
        self.peak = 0
        """Largest resident size so far (bytes)."""

    def look(self) -> int:
        """Return the resident size of the tree now (bytes)."""
        size = 0
        for member in self._members():
            with suppress(psutil.Error):
                size += member.memory_info().rss
        self.peak = max(self.peak, size)
        return size

    def _members(self) -> list[psutil.Process]:
        members: list[psutil.Process] = []
        with suppress(psutil.Error):
            top = psutil.Process(self._process.pid)
            members = [top, *top.children(recursive=True)]
        self._seen.update((member.pid, member) for member in members)
        return members

    @contextmanager
    def ended_at_last(self) -> Generator[None]:
        """End everything however the block ends."""
        try:
            yield
        finally:
            self.end()

    def end(self) -> None:
        """End all members and wait until they are gone."""
        self._members()
        deadline = time.monotonic() + 5
        # A member may start another one while it is being ended, so look again until none is left.
        # The top of namespaces goes last: it waits until the kernel has ended all inside.
        while (living := self._living()) and time.monotonic() < deadline:
            for member in living:
                with suppress(psutil.Error):  # psutil spares a number that was given away since
                    member.kill()
            time.sleep(0.002)
            self._members()
        with suppress(OSError, AttributeError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()

    def _living(self) -> list[psutil.Process]:
        return [
            member
            for member in self._seen.values()
            if member.pid != self._process.pid and _lives(member)
        ]


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _watch(
    process: subprocess.Popen[bytes],
    tree: _Tree,
    streams: Sequence[_Stream],
    deadline: float,
    memory_mb: float | None,
) -> Reason:
    """Return when the child has ended (``exit``) or has exceeded a limit."""
    pause = _SHORTEST_LOOK
    while True:
        size = tree.look()
        if any(stream.full for stream in streams):
            return "output"
        if memory_mb is not None and size > memory_mb * _MIB:
            return "memory"
        left = deadline - time.monotonic()
        if left <= 0:
            return "timeout"
        try:
            process.wait(min(pause, left))
        except subprocess.TimeoutExpired:
            pause = min(pause * 1.2, _LONGEST_LOOK)
        else:
            break
    return "exit"


def _status(process: subprocess.Popen[bytes]) -> int:
    code = process.returncode
    return code if code >= 0 else 128 - code


@contextmanager
def _streams(
    process: subprocess.Popen[bytes], stdin: str | bytes | None, limit: int
) -> Generator[list[_Stream]]:
    """Feed and drain a child's pipes from threads until it has ended."""
    assert process.stdout is not None
    assert process.stderr is not None
    streams = [_Stream(process.stdout, limit), _Stream(process.stderr, limit)]
    threads = [threading.Thread(target=stream.drain, daemon=True) for stream in streams]
    if process.stdin is not None:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        threads.append(threading.Thread(target=_feed, args=(process.stdin, data), daemon=True))
    for thread in threads:
        thread.start()
    try:
        yield streams
    finally:
        for thread in threads:
            thread.join(1)  # forever only if a process that we never saw holds the pipe
        for pipe in (process.stdout, process.stderr):
            with suppress(OSError):
                pipe.close()


def _feed(pipe: IO[bytes], data: bytes | None) -> None:
    with suppress(OSError), pipe:  # the child need not read it all
        rest = memoryview(data or b"")
        while rest:
            rest = rest[pipe.write(rest) :]


class _Stream:
    """What came through one pipe: all of it, or its head and its tail."""

    def __init__(self, pipe: IO[bytes], limit: int) -> None:
        self._pipe = pipe
        self._limit = limit
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0
        self._stopped = False

    @property
    def full(self) -> bool:
        return self._total > self._limit

    def stop(self) -> None:
        """Drop what comes from now on."""
        self._stopped = True

    def drain(self) -> None:
        """Read to the end; what is too much is read all the same, so that nobody blocks."""
        with suppress(OSError, ValueError):
            while chunk := self._pipe.read(_CHUNK):
                if self._stopped:
                    continue
                self._total += len(chunk)
                room = max(0, self._limit // 2 - len(self._head))
                self._head += chunk[:room]
                self._tail += chunk[room:]
                del self._tail[: -(self._limit - self._limit // 2) or len(self._tail)]

    def text(self) -> str:
        left_out = self._total - len(self._head) - len(self._tail)
        mark = f"\n[... {left_out} bytes left out ...]\n".encode() if left_out else b""
        return (bytes(self._head) + mark + bytes(self._tail)).decode(errors="replace")
