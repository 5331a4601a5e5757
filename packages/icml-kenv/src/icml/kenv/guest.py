"""One boot: a memory disk with the reproducer, an emulator under limits, and what its console says.

The guest's first program prints the markers of `icml.kenv.console`. It deletes itself before the
reproducer starts, so that the nonce is neither on the disk nor on the kernel's command line. (A
program that is root in the guest could still find it in memory; it cannot know it beforehand.)
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from icml.core.errors import UserError
from icml.core.journal import write_atomic
from icml.core.process import ChildResult, run_child
from icml.kenv.console import markers, read_console
from icml.kenv.models import Reproducer, RunResult
from icml.kenv.protocol import Limits
from icml.kenv.sources import ENVIRONMENT, cache_folder, open_folder, scratch

Execute = Callable[..., ChildResult]
"""Runs a program under limits: `icml.core.process.run_child`, or the same in a container."""

_INIT = """\
#!/bin/sh
/bin/busybox rm /init
/bin/busybox mkdir -p /proc /sys /dev /tmp
/bin/busybox mount -t proc none /proc
/bin/busybox mount -t sysfs none /sys
/bin/busybox mount -t devtmpfs none /dev
/bin/busybox mount -t tmpfs none /tmp
for module in /modules/*; do
  [ -e "$module" ] || continue
  if ! /bin/busybox insmod "$module"; then
    echo "kenv: the module $module does not load"
    /bin/busybox poweroff -f
  fi
done
/bin/busybox dmesg -n 5
echo "{boot}"
count=0
while [ $count -lt {repeat} ]; do
  /bin/busybox timeout -s KILL {seconds} /reproducer
  status=$?
  if [ $status = 137 ]; then
    echo "kenv: the reproducer did not end"
    /bin/busybox poweroff -f
  fi
  count=$((count + 1))
done
echo "{exit} $status"
/bin/busybox sleep 1
echo "{done}"
/bin/busybox poweroff -f
"""


class ToolMissing(UserError):
    """A program is missing; the message names the package that has it."""


def tool(name: str, package: str) -> Path:
    """Return where a program is.

    Raises:
        ToolMissing: If it is nowhere on the path.
    """
    found = shutil.which(name, path=ENVIRONMENT["PATH"])
    if found is None:
        raise ToolMissing(f"{name} is not here: apt-get install {package}")
    return Path(found)


def init_script(nonce: str, reproducer: Reproducer) -> str:
    """Return the guest's first program."""
    mark = markers(nonce)
    return _INIT.format(
        boot=mark.boot,
        exit=mark.exit,
        done=mark.done,
        repeat=reproducer.repeat,
        seconds=max(1, round(reproducer.timeout_s)),
    )


def memory_disk(files: Mapping[str, tuple[int, bytes]]) -> bytes:
    """Return a compressed cpio archive ("newc") of files and folders for a kernel to start from.

    Args:
        files: Mode (with the type's bits) and content by path; parents come before children.
    """
    parts = []
    for number, (name, (mode, content)) in enumerate([*files.items(), ("TRAILER!!!", (0, b""))], 1):
        links = 2 if mode & 0o040000 else 1
        fields = (number, mode, 0, 0, links, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        head = b"070701" + "".join(f"{field:08X}" for field in fields).encode()
        parts += [_padded(head + name.encode() + b"\0"), _padded(content)]
    return gzip.compress(b"".join(parts), compresslevel=1, mtime=0)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def guest_files(
    nonce: str, reproducer: Reproducer, program: bytes, modules: Sequence[tuple[str, bytes]]
) -> dict[str, tuple[int, bytes]]:
    """Return the files of a guest: busybox, the first program, modules in order, the reproducer."""
    busybox = tool("busybox", "busybox-static").read_bytes()
    folder, file, link = 0o040755, 0o100755, 0o120777
    found = {
        "bin": (folder, b""),
        "bin/busybox": (file, busybox),
        "bin/sh": (link, b"busybox"),
        "modules": (folder, b""),
        "init": (file, init_script(nonce, reproducer).encode()),
        "reproducer": (file, program),
    }
    for number, (name, content) in enumerate(modules):
        found[f"modules/{number:02}-{name}.ko"] = (file, content)
    return found


def compile_reproducer(reproducer: Reproducer, execute: Execute = run_child) -> bytes:
    """Return the reproducer as a static program; compiled once, run in a guest only.

    Raises:
        UserError: If it doesn't compile.
    """
    name = hashlib.sha256(reproducer.text.encode()).hexdigest()
    kept = open_folder(cache_folder() / "reproducers") / name
    if not kept.is_file():
        with scratch() as folder:
            (folder / "reproducer.c").write_text(reproducer.text)
            done = execute(
                ["gcc", "-O1", "-static", "-o", "reproducer", "reproducer.c"],
                timeout_s=120,
                memory_mb=1024,
                cwd=folder,
                env=ENVIRONMENT,
                foreign=True,
            )
            if done.exit != 0:
                raise UserError(f"the reproducer does not compile: {done.stderr[-500:].strip()}")
            write_atomic(kept, (folder / "reproducer").read_bytes())
    return kept.read_bytes()


def boot(
    argv: Sequence[str],
    *,
    cwd: Path,
    nonce: str,
    console: Path,
    limits: Limits,
    execute: Execute = run_child,
) -> RunResult:
    """Run an emulator until it ends or exceeds a limit, and read its console.

    Args:
        argv: The emulator; the guest's console is what it prints.
        cwd: Where it runs, as a user without rights.
        nonce: Of the guest's markers.
        console: The file that keeps the console.
        limits: Time for the boot and the run together, memory, and size of the console.
        execute: How a program is run.
    """
    done = execute(
        argv,
        timeout_s=limits.boot_s + limits.run_s,
        memory_mb=limits.memory_mb,
        cwd=cwd,
        env={**ENVIRONMENT, "TMPDIR": "/dev/shm", "HOME": str(cwd)},
        output_limit=limits.console_bytes,
        foreign=True,
    )
    write_atomic(console, done.stdout)
    read = read_console(done.stdout, nonce)
    return RunResult(
        booted=read.booted,
        finished=read.finished,
        crash=read.crash,
        transcript=read.transcript,
        seconds=done.seconds,
        console=console,
        exit=done.exit,
        infra=_infra(done, booted=read.booted),
        isolation=f"{done.isolation}, vm",
    )


def _infra(done: ChildResult, *, booted: bool) -> str | None:
    if booted:
        return None
    if done.reason == "memory":
        return "the emulator exceeded its memory"
    if not done.stdout.strip():
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return f"the emulator printed nothing ({done.reason}, exit {done.exit}): {last}"
    return None
