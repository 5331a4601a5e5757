"""Builds that make runs again and again in one folder: only what a patch changes is compiled.

Two things must never happen: an object of an earlier patch in a later kernel, and a kernel of an
earlier build after a failed one. So the sources are set to what the patch says before each build,
an interrupted build throws all objects away, and only a build that ended well gives an image.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from icml.core.journal import write_atomic
from icml.core.process import ChildResult
from icml.kenv.apply import patched_files
from icml.kenv.models import BuildResult, CompileError, Image, Patch
from icml.kenv.protocol import Prepared
from icml.kenv.sources import give_away, open_folder

_ERROR = re.compile(
    r"^(?P<file>[^\s:]+):(?P<line>[0-9]+):(?:(?P<column>[0-9]+):)? (?:fatal )?error: (?P<text>.*)$"
)
_OTHER = re.compile(r"^(?:ERROR: modpost: |.*: undefined reference to |make.*\*\*\* )")
_LOG_TAIL = 8000  # characters
_MOST_ERRORS = 20


def digest(*parts: str) -> str:
    """Return a digest of texts, in which the border between two of them counts."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


class WorkCopy:
    """A copy of a source folder that is set to any patch, touching no other file's time.

    Args:
        pristine: The folder that is copied; never written to.
        copy: Where it is copied to; its files may be hard links to the pristine ones.
        state: A file that says which files differ, kept so that a kill is mended.
    """

    def __init__(self, pristine: Path, copy: Path, state: Path) -> None:
        """Name the folders; nothing is written yet."""
        self.pristine, self.copy, self._state = pristine, copy, state

    def settle(self, wanted: Mapping[str, str | None]) -> list[str]:
        """Give every file its pristine content, or that in ``wanted`` (None: it is not there).

        Returns:
            The paths that were written or removed.
        """
        earlier = json.loads(self._state.read_text()) if self._state.exists() else []
        write_atomic(self._state, json.dumps(sorted({*earlier, *wanted})))
        changed = [path for path in {*earlier, *wanted} if self._set(path, wanted)]
        write_atomic(self._state, json.dumps(sorted(wanted)))
        return changed

    def _set(self, path: str, wanted: Mapping[str, str | None]) -> bool:
        source, target = self.pristine / path, self.copy / path
        if path in wanted:
            text = wanted[path]
            content = None if text is None else text.encode(errors="surrogateescape")
        else:
            content = source.read_bytes() if source.is_file() else None
        now = target.read_bytes() if target.is_file() else None
        if content == now:
            return False
        target.unlink(missing_ok=True)  # a hard link's other name keeps its content
        if content is not None:
            with target.open("xb") as file:
                file.write(content)
        return True


@contextmanager
def building(prepared: Prepared) -> Generator[None]:
    """Hold a bug's build folder: one build at a time, of whatever process."""
    open_folder(prepared.work)
    with FileLock(prepared.work / "build.lock"):
        yield


def wanted_files(prepared: Prepared, patch: Patch | None) -> dict[str, str | None]:
    """Return the content of the files that a patch touches.

    Raises:
        PatchRejected: If it doesn't fit.
    """
    if patch is None or patch.empty:
        return {}
    files = patched_files(prepared.tree, patch.changes)
    return {path: file.new for path, file in files.items()}


def make(
    folder: Path, dirty: Path, run: Callable[[], ChildResult], throw_away: Callable[[], None]
) -> ChildResult:
    """Run make so that a kill of it, or of us, leaves no half-written object to be used.

    Args:
        folder: Given to the user who builds.
        dirty: A file that is there while make runs.
        run: Runs make.
        throw_away: Deletes all objects.
    """
    if dirty.exists():
        throw_away()
    give_away(folder)
    write_atomic(dirty, "")
    done = run()
    if done.reason == "exit":
        dirty.unlink()
    return done


def finish_build(
    done: ChildResult,
    image: Image,
    collect: Callable[[Path], None],
    *,
    shown: Mapping[str, str],
) -> BuildResult:
    """Turn make's end into a result; a good build's files are put in place at once.

    Args:
        done: How make ended.
        image: The folder's key and place.
        collect: Fills a folder with what boots, and ``objects``.
        shown: Host's paths by what stands for them in messages.
    """
    text = done.stdout + done.stderr
    for path, name in shown.items():
        text = text.replace(path, name)
    ok = done.reason == "exit" and done.exit == 0
    if ok:
        draft = image.folder.with_name(f".{image.key}.{os.getpid()}")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        collect(draft)
        shutil.rmtree(image.folder, ignore_errors=True)
        draft.rename(image.folder)
    return BuildResult(
        ok=ok,
        seconds=done.seconds,
        timed_out=done.reason == "timeout",
        log_tail=text[-_LOG_TAIL:],
        errors=[] if ok else _complaints(done, text),
        image=image if ok else None,
        objects=object_files(image) if ok else [],
        isolation=done.isolation,
    )


def _complaints(done: ChildResult, text: str) -> list[CompileError]:
    if done.reason in ("memory", "output"):
        return [CompileError(message=f"the build exceeded its {done.reason} limit")]
    return compile_errors(text)


def kept_build(image: Image) -> BuildResult | None:
    """Return the result of a build that is there already."""
    started = time.monotonic()
    if not image.folder.is_dir():
        return None
    objects = object_files(image)
    seconds = time.monotonic() - started
    return BuildResult(ok=True, seconds=seconds, image=image, objects=objects, cache_hit=True)


def object_files(image: Image) -> list[Path]:
    """Return the object files that an image was linked from."""
    return sorted((image.folder / "objects").rglob("*.o"))


def objects_by_source(build: BuildResult) -> dict[str, bytes]:
    """Return a build's object files by the path of their source in the tree."""
    if build.image is None:
        return {}
    root = build.image.folder / "objects"
    return {
        str(file.relative_to(root).with_suffix(".c")): file.read_bytes() for file in build.objects
    }


def keep_objects(built: Path, sources: Path, directory: str, draft: Path) -> None:
    """Copy the object files of a directory's C sources into an image."""
    target = draft / "objects" / directory
    target.mkdir(parents=True)
    for source in sources.glob("*.c"):
        file = built / f"{source.stem}.o"
        if file.is_file():
            shutil.copy(file, target)


def compile_errors(log: str) -> list[CompileError]:
    """Return what a compiler or make complains of, the compiler's words first.

    Example:
        >>> compile_errors("fs/x.c:17:3: error: expected ';'")[0].line
        17
    """
    found = []
    others = []
    for line in log.splitlines():
        match = _ERROR.match(line)
        if match:
            column = match["column"]
            found.append(
                CompileError(
                    message=match["text"],
                    file=match["file"],
                    line=int(match["line"]),
                    column=int(column) if column else None,
                )
            )
        elif _OTHER.match(line):
            others.append(CompileError(message=line.strip()))
    return (found or others)[:_MOST_ERRORS]
