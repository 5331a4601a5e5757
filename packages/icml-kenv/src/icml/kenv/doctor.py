"""What works on this machine, tried out and not looked up: emulators are booted for seconds.

A device that opens is no proof: `/dev/kvm` has been seen to open and never run a guest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from icml.core.errors import UserError
from icml.core.process import run_child
from icml.kenv.backends.choose import all_backends
from icml.kenv.backends.module import emulator
from icml.kenv.bugs import bug_ids, load_bug
from icml.kenv.console import new_nonce
from icml.kenv.guest import guest_files, memory_disk
from icml.kenv.models import Availability, Reproducer
from icml.kenv.protocol import Backend, Limits
from icml.kenv.sources import ENVIRONMENT, cache_folder, kernel_folder, release, scratch

KVM = "/dev/kvm"
_KVM_SECONDS = 10.0


class Finding(NamedTuple):
    """One line of the doctor's answer."""

    name: str
    ok: bool
    text: str


def examine() -> Iterator[Finding]:
    """Yield what was found, backend after backend; takes up to two minutes on a slow machine."""
    yield Finding("cache", cache_folder().is_dir(), str(cache_folder()))
    for backend in all_backends():
        state = backend.available()
        if state.ok and not state.hint and backend.name in ("module", "uml"):
            state = probe(backend)
        text = state.reason if not state.hint else f"{state.reason}; {state.hint}"
        if not backend.verified:
            text += " (unverified backend)"
        if backend.recorded:
            text += " (recorded, nothing runs)"
        yield Finding(backend.name, state.ok, text)
    yield kvm()
    yield Finding("isolation", True, isolation())


def probe(backend: Backend) -> Availability:
    """Boot the first bug's unpatched kernel: it has to crash as its record says."""
    bug = load_bug(bug_ids()[-1])
    try:
        prepared = backend.prepare(bug)
        build = backend.build(prepared, None, limits=Limits())
        if build.image is None:
            return Availability(
                ok=False, reason=f"{bug.id} does not build: {build.log_tail[-200:]}"
            )
        run = backend.run(build.image, bug.reproducers[0], limits=Limits())
    except UserError as error:
        return Availability(ok=False, reason=str(error))
    if run.crash is None or not run.crash.matches([bug.title, *bug.alt_titles]):
        seen = run.infra or (run.crash.title if run.crash else "no crash")
        return Availability(ok=False, reason=f"{bug.id} booted with: {seen}")
    return Availability(
        ok=True,
        reason=f"booted in {run.seconds:.1f} s and crashed as recorded: {run.crash.title}",
    )


def kvm() -> Finding:
    """Boot a kernel with KVM for at most ten seconds before calling it usable."""
    if not os.access(KVM, os.R_OK | os.W_OK):
        return Finding("kvm", False, f"{KVM} is not there or not ours; emulation does without it")
    try:
        kernel = kernel_folder() / "boot" / f"vmlinuz-{release()}"
        nonce = new_nonce()
        program = Reproducer(text="int main(void) { return 0; }\n")
        with scratch() as folder:
            files = guest_files(nonce, program, b"#!/bin/sh\nexit 0\n", [])
            (folder / "disk").write_bytes(memory_disk(files))
            done = run_child(
                emulator(kernel, "disk", "console=ttyS0 panic=-1", accelerator="kvm"),
                timeout_s=_KVM_SECONDS,
                cwd=folder,
                env=ENVIRONMENT,
            )
    except UserError as error:
        return Finding("kvm", False, f"not tried: {error}")
    if nonce in done.stdout:
        return Finding(
            "kvm", True, f"boots in {done.seconds:.1f} s (the backends emulate all the same)"
        )
    return Finding("kvm", False, f"{KVM} opens, but no guest ran in {_KVM_SECONDS:.0f} s")


def isolation() -> str:
    """Return what contains a build or an emulator here."""
    done = run_child(["true"], timeout_s=20, env=ENVIRONMENT, foreign=True)
    return done.isolation
