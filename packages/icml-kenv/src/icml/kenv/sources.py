"""Kernels and their sources: which packages of the distribution, where they lie, the fix in them.

Nothing here is downloaded but by `fetch`, which asks apt: apt checks its signed index, and each
package has to have the sha256 that is recorded here as well.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

from filelock import FileLock

from icml.core.errors import UserError
from icml.core.journal import cache_dir, write_atomic
from icml.core.process import NOBODY, run_child
from icml.kenv.bugs import bug_ids, load_bug
from icml.kenv.models import Bug, Patch
from icml.kenv.templates import diff_text

RECORD = Path(__file__).with_name("data") / "packages.json"
SYSTEM_CACHE = Path("/var/cache/icml-kenv")
"""Root's cache: builds run as nobody, who may not enter root's home."""

FETCH = "run `icml kenv fetch` (about 360 MB from Debian 12's mirrors)"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = {"PATH": _PATH, "LC_ALL": "C", "HOME": "/nonexistent"}
"""What a compiler or an emulator gets to see."""


class SourceMissing(UserError):
    """A kernel or its source isn't there; the message says how to get it."""


class StaleSource(UserError):
    """A package or a derived fix is not the recorded one."""


class Package(NamedTuple):
    """A package of the distribution."""

    role: str
    """``kernel`` (image, headers, build tools) or ``source``."""
    name: str
    version: str
    sha256: str

    def file(self, folder: Path) -> Path | None:
        """Return its file in a folder, whatever architecture the name ends with."""
        return next(iter(sorted(folder.glob(f"{self.name}_{self.version}_*.deb"))), None)


@cache
def _record() -> dict[str, object]:
    return json.loads(RECORD.read_text())


def packages() -> list[Package]:
    """Return the packages that the bugs need."""
    rows = _record()["packages"]
    assert isinstance(rows, list)
    return [Package(**row) for row in rows]


def release() -> str:
    """Return the name of the distribution's kernel, for example ``6.1.0-47-amd64``."""
    return str(_record()["release"])


def cache_folder() -> Path:
    """Return where kernels lie: ``$ICML_CACHE/icml-kenv``, or the platform's cache folder.

    For root without ``$ICML_CACHE`` that is ``/var/cache/icml-kenv``.
    """
    if os.geteuid() == 0 and "ICML_CACHE" not in os.environ:
        return SYSTEM_CACHE
    return cache_dir("icml-kenv")


def open_folder(path: Path) -> Path:
    """Make a folder that the user who builds may enter.

    Raises:
        UserError: If root's builds, which run as nobody, could not enter it.
    """
    path.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        closed = next((p for p in (path, *path.parents) if not p.stat().st_mode & 0o001), None)
        if closed is not None:
            raise UserError(
                f"root builds foreign patches as nobody, who may not enter {closed}: "
                "set ICML_CACHE to a folder that others may enter"
            )
    return path


def give_away(path: Path) -> None:
    """Let the user who builds write into a folder: nobody where we are root."""
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)


@contextmanager
def scratch() -> Generator[Path]:
    """Yield a folder of its own that the user who builds may write to; gone afterwards."""
    parent = open_folder(cache_folder() / "scratch")
    for left in parent.iterdir():
        pid = left.name.partition("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists():
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(mkdtemp(prefix=f"{os.getpid()}-", dir=parent))
    try:
        folder.chmod(0o755)
        give_away(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def kernel_folder() -> Path:
    """Return the unpacked kernel with its headers.

    Raises:
        SourceMissing: If it was not fetched.
    """
    return _there(cache_folder() / "kernels" / release(), f"the kernel {release()}")


def source_folder(version: str) -> Path:
    """Return the folder that has the bugs' directories of one source package.

    Raises:
        SourceMissing: If it was not fetched.
    """
    return _there(cache_folder() / "sources" / version, f"the source linux-source-6.1={version}")


def full_tree(version: str) -> Path:
    """Return the whole unpacked tree of one source package, unpacking it where needed (10 s).

    Raises:
        SourceMissing: If the package was not fetched.
    """
    target = cache_folder() / "trees" / version
    if target.is_dir():
        return target
    package = next(p for p in packages() if p.role == "source" and p.version == version)
    file = package.file(cache_folder() / "debs")
    if file is None:
        raise SourceMissing(f"the package {package.name}={version} is missing: {FETCH}")
    with FileLock(open_folder(target.parent) / f"{version}.lock"):
        if not target.is_dir():  # another process may have been faster, and use it by now
            with placed(target) as draft:
                _unpack_source(file, draft, None)
    return target


def kernel_config() -> Path:
    """Return the configuration of the fetched kernel.

    Raises:
        SourceMissing: If it was not fetched.
    """
    return kernel_folder() / "usr/src" / f"linux-headers-{release()}" / ".config"


def tree_named(name: str) -> Path:
    """Return the whole tree of a recorded version, or the folder of that name.

    Raises:
        UserError: If it is neither.
    """
    versions = sorted(p.version for p in packages() if p.role == "source")
    if name in versions:
        return full_tree(name)
    if Path(name).is_dir():
        return Path(name)
    raise UserError(f"{name} is neither a folder nor a version: there are {', '.join(versions)}")


def _there(folder: Path, what: str) -> Path:
    if not folder.is_dir():
        raise SourceMissing(f"{what} is not in {folder.parent}: {FETCH}")
    return folder


def fetch(*, debs: Path | None = None) -> list[Path]:
    """Get the packages and unpack what the bugs need of them; what is there is kept.

    Args:
        debs: A folder that has the package files; None asks apt for those that are missing.

    Returns:
        The folders of the kernel and of the sources.

    Raises:
        UserError: If apt or dpkg is missing or fails, or a package or ``debs`` itself lacks.
        StaleSource: If a package's sha256 is not the recorded one.
    """
    if debs is not None and not debs.is_dir():
        raise UserError(f"{debs} is no folder: give one that has the package files")
    folder = open_folder(cache_folder() / "debs")
    with FileLock(folder / "fetch.lock"):
        return _fetch(folder, debs)


def _fetch(folder: Path, debs: Path | None) -> list[Path]:
    for package in packages():
        file = package.file(folder)
        if file is None or _sha256(file) != package.sha256:
            _get(package, folder, debs)
    directories = [load_bug(name).directory for name in bug_ids()]
    made = []
    kernel = cache_folder() / "kernels" / release()
    if not kernel.is_dir():
        with placed(kernel) as draft:
            _unpack_kernel(folder, draft, kernel)
    made.append(kernel)
    for package in packages():
        if package.role != "source":
            continue
        target = cache_folder() / "sources" / package.version
        if not all((target / directory).is_dir() for directory in directories):
            file = package.file(folder)
            assert file is not None
            with placed(target) as draft:
                _unpack_source(file, draft, directories)
        made.append(target)
    return made


def _get(package: Package, folder: Path, debs: Path | None) -> None:
    with _beside(folder) as draft:
        if debs is not None:
            found = package.file(debs)
            if found is None:
                raise UserError(f"{debs} has no {package.name}_{package.version}_*.deb")
            shutil.copy(found, draft)
        else:
            wanted = f"{package.name}={package.version}"
            _tool(["apt-get", "download", "-q", wanted], draft, f"apt cannot get {wanted}")
        file = package.file(draft)
        if file is None or _sha256(file) != package.sha256:
            raise StaleSource(
                f"{package.name} {package.version} has not the sha256 {package.sha256[:12]}… that "
                "the bugs were recorded with"
            )
        file.replace(folder / file.name)


@contextmanager
def placed(target: Path) -> Generator[Path]:
    """Yield a folder that takes the place of ``target`` when the block ends well.

    Unlike core's it does not wait for the disk: what lies here can be unpacked again.
    """
    open_folder(target.parent)
    with _beside(target.parent) as draft:
        yield draft
        draft.chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)
        draft.rename(target)


@contextmanager
def _beside(folder: Path) -> Generator[Path]:
    draft = Path(mkdtemp(prefix=".getting-", dir=folder))
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _tool(argv: list[str], folder: Path, complaint: str) -> None:
    # apt needs the network, which run_child takes away.
    try:
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise UserError(f"{complaint}: {argv[0]} is not here; use Debian 12 or Ubuntu") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"{complaint}: {last} (is the package index fresh? apt-get update)")


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _unpack_kernel(debs: Path, draft: Path, final: Path) -> None:
    for package in packages():
        file = package.file(debs)
        if package.role == "kernel" and file is not None:
            _tool(["dpkg", "-x", str(file), str(draft)], draft, f"cannot unpack {file.name}")
    # Debian's Makefile names the folder into which the package would be installed.
    makefile = draft / "usr/src" / f"linux-headers-{release()}" / "Makefile"
    text = makefile.read_text()
    write_atomic(makefile, text.replace("/usr/src/", f"{final}/usr/src/"))
    makefile.chmod(0o644)
    wanted = {f"{name}.ko" for bug in bug_ids() for name in load_bug(bug).modules}
    for module in (draft / "lib/modules").rglob("*.ko"):
        if module.name not in wanted:
            module.unlink()
    vmlinuz = draft / "boot" / f"vmlinuz-{release()}"
    vmlinuz.chmod(0o644)


def _unpack_source(deb: Path, draft: Path, directories: Iterable[str] | None) -> None:
    with _beside(draft.parent) as work:
        _tool(["dpkg", "-x", str(deb), str(work)], work, f"cannot unpack {deb.name}")
        (archive,) = work.rglob("linux-source-*.tar.xz")
        top = archive.name.removesuffix(".tar.xz")
        wanted = [top] if directories is None else [f"{top}/{name}" for name in directories]
        into = ["-C", str(draft), "--strip-components=1", "--no-same-owner"]
        _tool(["tar", "-xJf", str(archive), *into, *wanted], work, f"cannot unpack {archive.name}")


def derive_fix(bug: Bug) -> Patch | None:
    """Return the developers' fix: recorded, or the recorded hunks of the two sources' difference.

    Returns:
        None where the bug records neither.

    Raises:
        SourceMissing: If a source was not fetched.
        StaleSource: If the difference is not the recorded one.
    """
    if bug.bug_patch is not None or bug.bug_source is not None:
        from icml.kenv.injection import injected_fix  # it reads sources, too

        return injected_fix(bug)
    if bug.fix is not None or bug.fix_source is None:
        return bug.fix
    wanted = bug.fix_source
    fix = hunks_between(bug.source.version, wanted.source.version, wanted.hunks)
    if wanted.sha256 is not None and fix.sha256 != wanted.sha256:
        raise StaleSource(
            f"the fix of {bug.id} derived from {wanted.source.version} is not the recorded one"
        )
    return fix


def source_with(version: str, directory: str) -> Path:
    """Return a tree that has a directory: what was fetched for the bugs, else the whole one.

    Raises:
        SourceMissing: If the package was not fetched.
    """
    tree = source_folder(version)
    return tree if (tree / directory).is_dir() else full_tree(version)


def hunks_between(old: str, new: str, hunks: Mapping[str, Sequence[int]]) -> Patch:
    """Return chosen hunks of the difference of two releases.

    Args:
        old: Version of the source that the patch applies to.
        new: Version that has the change.
        hunks: Per file, the hunks counted from 1; no number stands for all.

    Raises:
        SourceMissing: If a source was not fetched.
    """
    parts = []
    for path, numbers in hunks.items():
        sides = [source_with(v, str(Path(path).parent)) / path for v in (old, new)]
        texts = [side.read_bytes().decode(errors="surrogateescape") for side in sides]
        parts.append(_chosen_hunks(diff_text(path, *texts), numbers))
    return Patch(diff="".join(parts))


def _chosen_hunks(diff: str, numbers: Sequence[int]) -> str:
    head, *hunks = diff.split("\n@@ ")
    chosen = [h for n, h in enumerate(hunks, 1) if not numbers or n in numbers]
    return "\n@@ ".join([head, *(hunk.rstrip("\n") for hunk in chosen)]) + "\n"


def compiler() -> str:
    """Return the compiler's name and version, which decide what a build gives."""
    found = run_child(["gcc", "--version"], timeout_s=20, env=ENVIRONMENT)
    return found.stdout.splitlines()[0] if found.stdout else "gcc"
