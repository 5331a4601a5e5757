"""What the workspace holds, read from its pyproject files (standard library only)."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = "icml-newpaper"


def project_file(folder: Path) -> dict[str, Any]:
    """Return the parsed ``pyproject.toml`` of ``folder``."""
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))


def members(root: Path = ROOT) -> dict[str, Path]:
    """Map each distribution of the workspace to its folder, in the workspace's order."""
    patterns = project_file(root)["tool"]["uv"]["workspace"]["members"]
    folders = [f.parent for p in patterns for f in sorted(root.glob(f"{p}/pyproject.toml"))]
    return {project_file(folder)["project"]["name"]: folder for folder in folders}


def module_name(folder: Path) -> str:
    """Return the import name of the distribution in ``folder``, for example ``icml.gdpo``."""
    return project_file(folder)["tool"]["uv"]["build-backend"]["module-name"]


def requirements(folder: Path) -> set[str]:
    """Return the names that a distribution requires, those of its extras included."""
    project = project_file(folder)["project"]
    lists = [project.get("dependencies", []), *project.get("optional-dependencies", {}).values()]
    names = {re.split(r"[ ><=!~\[;@]", text, maxsplit=1)[0] for texts in lists for text in texts}
    return {name.lower().replace("_", "-") for name in names}


def needed_members(name: str, root: Path = ROOT) -> list[str]:
    """Return ``name`` and, sorted, every member that it needs directly or through another.

    A requirement with extras (``icml-core[torch]>=0.1``) counts like one without, so that the
    local wheel serves it.
    """
    table = members(root)
    found: set[str] = set()
    waiting = [name]
    while waiting:
        current = waiting.pop()
        found.add(current)
        waiting += (requirements(table[current]) & table.keys()) - found
    return [name, *sorted(found - {name})]


def groups_for_tests(folder: Path) -> list[str]:
    """Return the root's dependency groups that the tests of a distribution need."""
    return project_file(folder)["tool"].get("icml", {}).get("test-groups", [])


def extras_for_readme(folder: Path) -> str:
    """Return the extras that the README's examples need, as ``[kernel]``; "" if there are none."""
    extras = project_file(folder)["tool"].get("icml", {}).get("readme-extras", [])
    return f"[{','.join(extras)}]" if extras else ""


def tracked_files(root: Path = ROOT) -> list[Path]:
    """Return the files that git tracks or would track, relative to ``root``."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    return [Path(name) for name in sorted(set(listed.split("\0"))) if (root / name).is_file()]


def copy_tree(target: Path, root: Path = ROOT) -> None:
    """Copy the tracked files to ``target``, which is emptied first; it becomes a git repository."""
    shutil.rmtree(target, ignore_errors=True)
    for file in tracked_files(root):
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / file, target / file)
    subprocess.run(["git", "init", "-q", str(target)], check=True)
