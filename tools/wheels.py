"""Checks on what built wheels and sdists hold and on what they install."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path


def find_wheel(folder: Path, distribution: str) -> Path:
    """Return the one wheel of ``distribution`` in ``folder``."""
    (wheel,) = folder.glob(f"{distribution.replace('-', '_')}-*.whl")
    return wheel


def complaints(wheel: Path, module: str) -> list[str]:
    """Say what is wrong with a wheel that should hold the package ``module`` and nothing else.

    Args:
        wheel: The built wheel.
        module: Its import name, for example ``icml.gdpo``.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
    inside = module.replace(".", "/")
    metadata = f"{wheel.name.split('-')[0]}-"
    found = [
        f"{wheel.name} holds {name}, which is outside {inside}/"
        for name in names
        if not name.startswith((f"{inside}/", metadata))
    ]
    wanted = (f"{inside}/__init__.py", f"{inside}/py.typed")
    found += [f"{wheel.name} lacks {name}" for name in wanted if name not in names]
    if not any(name.startswith(metadata) and name.endswith("LICENSE") for name in names):
        found.append(f"{wheel.name} lacks its LICENSE")
    return found


def sdist_complaints(sdist: Path) -> list[str]:
    """Say what a source distribution lacks for somebody who builds and tests from it."""
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    wanted = ("pyproject.toml", "README.md", "LICENSE", "src/icml/", "tests/test_")
    return [f"{sdist.name} lacks {w}" for w in wanted if not any(n.startswith(w) for n in names)]


def size_mb(folder: Path) -> float:
    """Return the size of the files under ``folder`` in MB (10^6 bytes).

    Links are not followed, and cached bytecode isn't counted: whether and when it is written
    depends on the installer and on what has been imported.
    """
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files if path.suffix != ".pyc") / 1e6
