"""User-Mode Linux from source, with KASAN: a kernel that is an ordinary program.

The first build takes about eight minutes of CPU time; a patch of one file then takes seconds, and
so does a boot. There is one processor and no trap of a real one: a division by zero has no stack.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

from icml.core.errors import UserError
from icml.core.journal import write_atomic
from icml.core.process import ChildResult, run_child
from icml.kenv.backends.module import missing_tools
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
from icml.kenv.guest import boot, compile_reproducer, guest_files, memory_disk, tool
from icml.kenv.models import Availability, Bug, BuildResult, Image, Patch, Reproducer, RunResult
from icml.kenv.protocol import Limits, Prepared
from icml.kenv.sources import (
    ENVIRONMENT,
    FETCH,
    cache_folder,
    compiler,
    full_tree,
    open_folder,
    packages,
    scratch,
)

FRAGMENT = Path(__file__).parents[1] / "data" / "uml.config"
"""Options beyond ``allnoconfig``: the bugs' subsystems, KASAN, what a memory disk needs."""

TOOLS = {
    "gcc": "gcc",
    "make": "make",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "busybox": "busybox-static",
}
"""Programs by the package that has them."""

_FIRST_BUILD_S = 3600.0
_BUILD_ENVIRONMENT = {
    **ENVIRONMENT,
    "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 1970",
    "KBUILD_BUILD_USER": "kenv",
    "KBUILD_BUILD_HOST": "kenv",
}


class UmlBackend:
    """Builds a whole kernel that runs as a program; all bugs of a source share one tree."""

    name = "uml"
    recorded = False
    verified = True

    def available(self) -> Availability:
        """Look for the tools and the source; a first build is made where it is asked for."""
        missing = missing_tools(TOOLS)
        if missing:
            install = f"apt-get install {' '.join(missing)}"
            return Availability(ok=False, reason="tools", missing=missing, hint=install)
        debs = cache_folder() / "debs"
        if not any(package.file(debs) for package in packages() if package.role == "source"):
            return Availability(ok=False, reason=f"no source is in {debs}", hint=FETCH)
        if not self.built:
            build = "`icml kenv build phonet-autobind --backend uml`"
            return Availability(
                ok=True, reason="no tree is built yet", hint=f"{build} takes 8 minutes of CPU time"
            )
        return Availability(ok=True, reason="a built tree of User-Mode Linux with KASAN")

    @property
    def built(self) -> bool:
        """There is a built tree, so that a patch takes seconds."""
        versions = [package.version for package in packages() if package.role == "source"]
        return any((_work(version) / "built.json").is_file() for version in versions)

    def prepare(self, bug: Bug) -> Prepared:
        """Lay out the whole source (10 s the first time).

        Raises:
            UserError: If a tool or the source is missing, or the bug is an injected one.
        """
        if bug.bug_patch is not None or bug.bug_source is not None:
            raise UserError(f"{bug.id} is an injected bug: use --backend module")
        for name, package in TOOLS.items():
            tool(name, package)
        tree = full_tree(bug.source.version)
        key = digest("uml 1", bug.source.sha256 or "", FRAGMENT.read_text(), compiler())
        return Prepared(bug, tree, _work(bug.source.version), key)

    def build(self, prepared: Prepared, patch: Patch | None, *, limits: Limits) -> BuildResult:
        """Build the kernel with a patch; the first build of a tree may take an hour.

        Raises:
            PatchRejected: If the patch doesn't fit the source.
        """
        wanted = wanted_files(prepared, patch)
        directory = prepared.bug.directory
        key = digest(prepared.key, directory, patch.sha256 if patch and wanted else "")
        image = Image(key=key, folder=prepared.work / "images" / key)
        with building(prepared):
            return kept_build(image) or self._build(prepared, image, wanted, limits)

    def _build(
        self, prepared: Prepared, image: Image, wanted: dict[str, str | None], limits: Limits
    ) -> BuildResult:
        work, directory = prepared.work, prepared.bug.directory
        source, objects = work / "source", work / "objects"
        if not source.is_dir():
            draft = work / "source.new"
            shutil.rmtree(draft, ignore_errors=True)
            shutil.copytree(prepared.tree, draft, symlinks=True, copy_function=_link)
            draft.rename(source)
        WorkCopy(prepared.tree, source, work / "touched.json").settle(wanted)
        objects.mkdir(exist_ok=True)
        stamp = work / "built.json"
        first = not stamp.is_file() or json.loads(stamp.read_text()).get("key") != prepared.key
        (objects / "linux").unlink(missing_ok=True)
        for path in wanted:
            (objects / path).with_suffix(".o").unlink(missing_ok=True)

        def run() -> ChildResult:
            done: ChildResult | None = None
            for target in (["allnoconfig"] if first else []) + ["linux"]:
                done = run_child(
                    _make(source, objects, work / "fragment.config", target),
                    timeout_s=_FIRST_BUILD_S if first else limits.build_s,
                    memory_mb=limits.memory_mb,
                    cwd=objects,
                    env=_BUILD_ENVIRONMENT,
                    foreign=True,
                )
                if done.reason != "exit" or done.exit:
                    break
            assert done is not None
            return done

        def collect(draft: Path) -> None:
            shutil.copy(objects / "linux", draft / "linux")
            (draft / "linux").chmod(0o755)
            keep_objects(objects / directory, source / directory, directory, draft)

        write_atomic(work / "fragment.config", FRAGMENT.read_text())
        (work / "fragment.config").chmod(0o644)
        done = make(objects, work / "dirty", run, lambda: _throw_away(objects))
        shown = {f"{source}/": ""}
        result = finish_build(done, image, collect, shown=shown)
        if result.ok:
            write_atomic(stamp, json.dumps({"key": prepared.key}))
        return result

    def run(self, image: Image, reproducer: Reproducer, *, limits: Limits) -> RunResult:
        """Start the kernel as a program of a user without rights."""
        nonce = new_nonce()
        program = compile_reproducer(reproducer)
        console = open_folder(image.folder / "consoles") / f"{nonce}.txt"
        with scratch() as folder:
            (folder / "disk").write_bytes(memory_disk(guest_files(nonce, reproducer, program, [])))
            kernel = image.folder / "linux"
            command = (
                f"exec {kernel} mem=256M initrd=disk con0=fd:0,fd:1 con=null panic=-1 "
                "panic_on_warn=1 loglevel=7 2>&1"
            )
            return boot(
                ["sh", "-c", command], cwd=folder, nonce=nonce, console=console, limits=limits
            )


def _work(version: str) -> Path:
    name = hashlib.sha256(FRAGMENT.read_bytes()).hexdigest()[:8]
    return cache_folder() / "uml" / f"{version}-{name}"


def _make(source: Path, objects: Path, fragment: Path, target: str) -> list[str]:
    # Without SUBARCH in each call the first one configures a 32-bit kernel.
    return [
        "make", "-C", str(source), f"O={objects}", "ARCH=um", "SUBARCH=x86_64",
        f"KCONFIG_ALLCONFIG={fragment}", "-j2", target,
    ]  # fmt: skip


def _link(old: str, new: str) -> None:
    Path(new).hardlink_to(old)


def _throw_away(objects: Path) -> None:
    """Delete the objects that an interrupted build may have half written.

    Make records the command of each object when it is whole: one that is newer than its record,
    or has none, is not to be trusted.
    """
    for file in objects.rglob("*.[oa]"):
        record = file.with_name(f".{file.name}.cmd")
        if not record.is_file() or record.stat().st_mtime_ns < file.stat().st_mtime_ns:
            file.unlink()
    for name in ("vmlinux", "vmlinux.o", "linux"):
        (objects / name).unlink(missing_ok=True)
