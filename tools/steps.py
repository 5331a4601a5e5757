"""Steps that several sessions of the noxfile share."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import nox
from tools.wheels import find_wheel
from tools.workspace import ROOT, groups_for_tests, members, module_name, needed_members

MEMBERS = members()
CONSTRAINTS = "constraints.txt"
WORKERS = min(4, os.cpu_count() or 1)
"""Test processes at a time: each imports torch, which takes memory."""


def build(session: nox.Session, names: list[str], out: Path, *kinds: str) -> None:
    """Build distributions into ``out``, which is emptied first; ``kinds`` are uv's options."""
    shutil.rmtree(out, ignore_errors=True)
    for name in names:
        session.run(
            "uv", "build", "-q", "--package", name, "--out-dir", str(out), *kinds, external=True
        )


def build_wheels(session: nox.Session, name: str, extra: str = "") -> list[str]:
    """Build the wheels of ``name`` and of the members it needs; return what to install."""
    out = Path(session.create_tmp()).resolve() / "wheels"
    names = needed_members(name)
    build(session, names, out, "--wheel")
    return [f"{find_wheel(out, n)}{extra if n == name else ''}" for n in names]


def install(session: nox.Session, name: str, *options: str) -> None:
    """Install the built wheels of ``name`` and of the members it needs, with what tests need."""
    reinstall = [x for n in needed_members(name) for x in ("--reinstall-package", n)]
    groups = [x for group in groups_for_tests(MEMBERS[name]) for x in ("--group", group)]
    wheels = build_wheels(session, name, "[test]")
    session.install(*options, *reinstall, *groups, "pytest-xdist", *wheels)


def run_pytest(session: nox.Session, name: str, *options: str) -> None:
    """Run the tests of ``name``, its README's examples and those in its installed docstrings.

    A file's tests stay in one process, as they share what their fixtures made, and a README's
    examples their names.
    """
    folder = MEMBERS[name]
    session.run(
        "pytest", "--doctest-modules", "--pyargs", f"{folder.relative_to(ROOT)}/tests",
        f"{folder.relative_to(ROOT)}/README.md", module_name(folder),
        "-n", str(WORKERS), "--dist=loadfile", "--no-loadscope-reorder",
        *options, *session.posargs,
        env={
            # Models are converted once for all packages and sessions.
            "ICML_CACHE": os.environ.get("ICML_CACHE", str(ROOT / ".nox" / "cache")),
            # The processes share the cores already.
            "OMP_NUM_THREADS": "1",
        },
    )  # fmt: skip


def omit_members() -> list[str]:
    """Return the options that keep members out of a resolution: they are built, not fetched."""
    return [x for name in MEMBERS for x in ("--no-emit-package", name)]


def resolve(session: nox.Session, out: Path, *options: str) -> None:
    """Resolve the whole workspace into ``out``; pins already there are kept if they can be."""
    sources = ["pyproject.toml"]
    sources += [str(p.relative_to(ROOT) / "pyproject.toml") for p in MEMBERS.values()]
    session.run(
        "uv", "pip", "compile", "-q", "--universal", "--all-extras",
        "--group", "dev", "--group", "models", "--no-header", "--no-annotate",
        *omit_members(), "-o", str(out), *options, *sources,
        # Either would put this machine's build of torch into the file.
        env={"UV_FIND_LINKS": None, "UV_TORCH_BACKEND": None}, silent=True, external=True,
    )  # fmt: skip
    if "://" in out.read_text():
        session.error("the resolution names a host or a path of this machine")
