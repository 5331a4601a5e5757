"""A distribution's kernel with one module built from its source, booted in an emulated PC.

No kernel is built: the module is compiled against the distribution's headers (seconds) and put
into a memory disk. A bug has to be in a module, and a patch has to stay in its directory.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from icml.core.errors import UserError
from icml.core.process import ChildResult, run_child
from icml.kenv.building import (
    WorkCopy,
    building,
    digest,
    finish_build,
    keep_objects,
    kept_build,
    make,
    wanted_files,
)
from icml.kenv.console import new_nonce
from icml.kenv.guest import Execute, boot, compile_reproducer, guest_files, memory_disk, tool
from icml.kenv.injection import bug_tree, derive_bug_patch
from icml.kenv.models import Availability, Bug, BuildResult, Image, Patch, Reproducer, RunResult
from icml.kenv.protocol import Limits, Prepared
from icml.kenv.sources import (
    ENVIRONMENT,
    FETCH,
    cache_folder,
    compiler,
    give_away,
    kernel_folder,
    open_folder,
    packages,
    release,
    scratch,
)

TOOLS = {
    "gcc": "gcc",
    "make": "make",
    "qemu-system-x86_64": "qemu-system-x86",
    "busybox": "busybox-static",
}
"""Programs by the package that has them."""

_MEMORY_MB = 384
_COMMAND_LINE = (
    "console=ttyS0 oops=panic panic_on_warn=1 panic=-1 no_timer_check tsc=unstable "
    "mitigations=off random.trust_cpu=on loglevel=7"
)
# Reproducible objects without debugging information, and no host's path in a crash report.
_FLAGS = "-g0 -fmacro-prefix-map={folder}/={directory}/"


def emulator(kernel: Path, disk: str, command_line: str, *, accelerator: str = "tcg") -> list[str]:
    """Return the command that boots a kernel on a PC without network or disks."""
    return [
        "qemu-system-x86_64", "-accel", accelerator, "-M", "pc", "-m", str(_MEMORY_MB),
        "-smp", "1", "-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot",
        "-nic", "none", "-sandbox", "on", "-kernel", str(kernel), "-initrd", disk,
        "-append", command_line,
    ]  # fmt: skip


def missing_tools(tools: dict[str, str]) -> list[str]:
    """Return the packages whose programs are not here."""
    return sorted(
        {
            package
            for name, package in tools.items()
            if shutil.which(name, path=ENVIRONMENT["PATH"]) is None
        }
    )


class ModuleBackend:
    """Builds the bug's module and boots it in qemu."""

    name = "module"
    recorded = False
    verified = True

    def __init__(self, execute: Execute = run_child) -> None:
        """Choose how programs are run: here, or in a container."""
        self._execute = execute

    def available(self) -> Availability:
        """Look for the tools and the kernel; `icml.kenv.doctor` boots them."""
        missing = missing_tools(TOOLS)
        if missing:
            install = f"apt-get install {' '.join(missing)}"
            return Availability(ok=False, reason="tools", missing=missing, hint=install)
        try:
            kernel_folder()
        except UserError as error:
            return Availability(ok=False, reason=str(error), hint=FETCH)
        return Availability(ok=True, reason=f"kernel {release()} under qemu")

    def prepare(self, bug: Bug) -> Prepared:
        """Find the source; nothing is copied yet.

        Raises:
            UserError: If a tool, the kernel or the source is missing.
        """
        for name, package in TOOLS.items():
            tool(name, package)
        kernel_folder()
        tree = bug_tree(bug)
        injected = derive_bug_patch(bug)
        used = [package.sha256 for package in packages() if package.role == "kernel"]
        key = digest(
            "module 1", *used, bug.source.sha256 or "", bug.directory, *bug.config,
            *bug.modules, compiler(), self.name,
            *([] if injected is None else [injected.sha256]),
        )  # fmt: skip
        work = cache_folder() / self.name / f"{bug.id}-{key[:8]}"
        return Prepared(bug, tree, work, key, scope=(bug.directory,))

    def build(self, prepared: Prepared, patch: Patch | None, *, limits: Limits) -> BuildResult:
        """Build the module with a patch; the same patch is built once.

        Raises:
            PatchRejected: If the patch doesn't fit the source.
        """
        wanted = wanted_files(prepared, patch)
        key = digest(prepared.key, patch.sha256 if patch is not None and wanted else "")
        image = Image(key=key, folder=prepared.work / "images" / key)
        with building(prepared):
            return kept_build(image) or self._build(prepared, image, wanted, limits)

    def _build(
        self, prepared: Prepared, image: Image, wanted: dict[str, str | None], limits: Limits
    ) -> BuildResult:
        directory = prepared.bug.directory
        pristine, folder = prepared.tree / directory, prepared.work / "build"
        if not folder.is_dir():
            draft = prepared.work / "build.new"
            shutil.rmtree(draft, ignore_errors=True)
            shutil.copytree(pristine, draft)
            draft.rename(folder)
        copy = WorkCopy(pristine, folder, prepared.work / "touched.json")
        copy.settle({path.removeprefix(f"{directory}/"): text for path, text in wanted.items()})
        for stale in folder.rglob("*.ko"):
            stale.unlink()
        self._forget(folder, wanted)
        flags = _FLAGS.format(folder=folder, directory=directory)
        argv = [
            "make", "-C", str(kernel_folder() / "usr/src" / f"linux-headers-{release()}"),
            f"M={folder}", *prepared.bug.config, f"KCFLAGS={flags}", "-j2", "modules",
        ]  # fmt: skip

        def run() -> ChildResult:
            return self._execute(
                argv,
                timeout_s=limits.build_s,
                memory_mb=limits.memory_mb,
                cwd=folder,
                env=ENVIRONMENT,
                foreign=True,
            )

        def collect(draft: Path) -> None:
            (draft / "modules").mkdir()
            for module in prepared.bug.modules:
                built = folder / f"{module}.ko"
                stored = next((kernel_folder() / "lib/modules").rglob(f"{module}.ko"), None)
                source = built if built.is_file() else stored
                if source is None:
                    raise UserError(f"no module {module}: neither built nor in the kernel")
                shutil.copy(source, draft / "modules")
            order = "".join(f"{name}\n" for name in prepared.bug.modules)
            (draft / "order").write_text(order)
            keep_objects(folder, folder, directory, draft)

        done = make(folder, prepared.work / "dirty", run, lambda: _throw_away(folder))
        shown = {f"{folder}/": f"{directory}/"}
        return finish_build(done, image, collect, shown=shown)

    def _forget(self, folder: Path, wanted: dict[str, str | None]) -> None:
        for path in wanted:
            (folder / f"{Path(path).stem}.o").unlink(missing_ok=True)

    def run(self, image: Image, reproducer: Reproducer, *, limits: Limits) -> RunResult:
        """Boot the kernel, load the modules and run the reproducer."""
        nonce = new_nonce()
        names = (image.folder / "order").read_text().split()
        modules = [(n, (image.folder / "modules" / f"{n}.ko").read_bytes()) for n in names]
        program = compile_reproducer(reproducer, self._execute)
        console = open_folder(image.folder / "consoles") / f"{nonce}.txt"
        with scratch() as folder:
            disk = memory_disk(guest_files(nonce, reproducer, program, modules))
            (folder / "disk").write_bytes(disk)
            kernel = kernel_folder() / "boot" / f"vmlinuz-{release()}"
            return boot(
                emulator(kernel, "disk", _COMMAND_LINE),
                cwd=folder,
                nonce=nonce,
                console=console,
                limits=limits,
                execute=self._execute,
            )


def _throw_away(folder: Path) -> None:
    for pattern in ("*.o", "*.ko", ".*.cmd", "*.mod", "*.mod.c", "*.order", "*.symvers"):
        for file in folder.rglob(pattern):
            file.unlink(missing_ok=True)
    give_away(folder)
