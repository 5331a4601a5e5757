"""The Lean base ``WZCore``: its text, and its compiled form in the cache folder."""

from __future__ import annotations

import hashlib
import platform
import re
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from filelock import FileLock

from icml.core.errors import UserError
from icml.core.journal import cache_dir, replace_folder
from icml.wzllm.kernel.wheel_lean import PIN, run_lean, trouble

MODULE = "WZCore"
COMPILE_TIMEOUT_S = 300.0
COMPILE_MEMORY_MB = 1024.0

_DECLARED = re.compile(
    r"^(?:noncomputable |@\[reducible\] )*"
    r"(?:theorem|def|inductive|structure|class|instance) ([\w.']+)",
    re.MULTILINE,
)


@cache
def core_text() -> str:
    """Return the base as Lean text."""
    return files("icml.wzllm").joinpath(f"data/{MODULE}.lean").read_text(encoding="utf-8")


@cache
def core_names() -> frozenset[str]:
    """Return the names that the base declares."""
    return frozenset(_DECLARED.findall(core_text()))


class CompiledBase(NamedTuple):
    """The compiled base."""

    olean: bytes
    compile_seconds: float
    """What compiling took (s) just now; 0 if it was in the cache."""


def compiled_base() -> CompiledBase:
    """Return the compiled base, from the cache if it is there unharmed.

    The file in the cache is used only if it has the digest written beside it when it was compiled;
    else it is compiled anew. Several processes may ask at once: one compiles, the others wait.

    Raises:
        UserError: If the cache folder can't be written, or the base doesn't compile.
        MissingExtra: If Lean is not installed.
    """
    folder = _cache_folder()
    with _locked(folder):
        if (olean := _read(folder)) is not None:
            return CompiledBase(olean, 0.0)
        started = time.monotonic()
        olean = _compile()
        with replace_folder(folder) as draft:
            (draft / f"{MODULE}.olean").write_bytes(olean)
            (draft / "sha256").write_text(_digest(olean))
        return CompiledBase(olean, time.monotonic() - started)


@contextmanager
def lean_path(olean: bytes) -> Generator[Path]:
    """Yield a folder that holds the compiled base alone; anyone may read it, nobody else write."""
    with TemporaryDirectory(prefix="icml-wzllm-") as name:
        folder = Path(name)
        (folder / f"{MODULE}.olean").write_bytes(olean)
        (folder / f"{MODULE}.olean").chmod(0o444)
        folder.chmod(0o755)
        yield folder


def _cache_folder() -> Path:
    parts = (core_text(), PIN, platform.system(), platform.machine())
    return cache_dir("icml-wzllm") / f"{MODULE}-{_digest(chr(0).join(parts).encode())[:16]}"


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    lock = folder.with_suffix(".lock")
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        held = FileLock(lock)
        held.acquire()
    except OSError as error:
        raise UserError(
            f"cannot write {lock}: {error.strerror or error}; "
            "set ICML_CACHE to a folder that can be written"
        ) from error
    try:
        yield
    finally:
        held.release()


def _read(folder: Path) -> bytes | None:
    try:
        olean = (folder / f"{MODULE}.olean").read_bytes()
        digest = (folder / "sha256").read_text()
    except (OSError, UnicodeDecodeError):
        return None
    return olean if digest == _digest(olean) else None


def _compile() -> bytes:
    with TemporaryDirectory(prefix="icml-wzllm-") as name:
        target = Path(name) / f"{MODULE}.olean"
        source = Path(name) / f"{MODULE}.lean"
        source.write_text(core_text(), encoding="utf-8")
        result = run_lean(
            ["-o", str(target), str(source)],
            lean_path=Path(name),
            timeout_s=COMPILE_TIMEOUT_S,
            memory_mb=COMPILE_MEMORY_MB,
            foreign=False,
        )
        said = trouble(result, timeout_s=COMPILE_TIMEOUT_S, memory_mb=COMPILE_MEMORY_MB)
        if said or result.stdout:
            raise UserError(f"the Lean base doesn't compile here: {said} {result.stdout[:500]}")
        return target.read_bytes()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
