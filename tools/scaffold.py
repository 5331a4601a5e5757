"""Writes a new paper package from the living template, ``shared/newpaper``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tools.workspace import ROOT, TEMPLATE, members, module_name, tracked_files

NEVER_UPLOADED = 'classifiers = ["Private :: Do Not Upload"]\n'


class Names(NamedTuple):
    """What one new paper is called in the places where it is named."""

    command: str
    """The sub-command of ``icml`` and, after ``icml-``, the distribution: ``two-words``."""
    module: str
    """The last part of the import name: ``two_words``."""
    title: str
    """Its name in prose: ``TwoWords``."""


def parse_name(text: str) -> Names:
    """Return the names of the package that ``text`` asks for.

    Args:
        text: Lower-case words joined by hyphens; a leading ``icml-`` is dropped.

    Raises:
        ValueError: If ``text`` is anything else.

    Example:
        >>> parse_name("icml-two-words")
        Names(command='two-words', module='two_words', title='TwoWords')
    """
    command = text.removeprefix("icml-")
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", command):
        raise ValueError(f"a package is named like two-words or icml-two-words, not {text!r}")
    return Names(command, command.replace("-", "_"), command.title().replace("-", ""))


def rename(text: str, names: Names) -> str:
    """Replace the template's names in ``text``: folder and import name first, then the command."""
    text = text.replace("shared/newpaper", f"packages/icml-{names.command}")
    text = re.sub(r"(icml[./_])newpaper", rf"\g<1>{names.module}", text)
    return text.replace("newpaper", names.command).replace("NewPaper", names.title)


def write_package(names: Names, root: Path = ROOT) -> Path:
    """Copy the template's tracked files to ``packages/``, renamed; return the new folder.

    Raises:
        FileExistsError: If the package is there already.
    """
    target = root / "packages" / f"icml-{names.command}"
    if target.exists():
        raise FileExistsError(f"{target} exists already")
    source = members(root)[TEMPLATE]
    for file in tracked_files(root):
        if (root / file).is_relative_to(source):
            place = target / rename(str((root / file).relative_to(source)), names)
            place.parent.mkdir(parents=True, exist_ok=True)
            text = (root / file).read_text(encoding="utf-8")
            place.write_text(rename(text, names).replace(NEVER_UPLOADED, ""), encoding="utf-8")
    return target


def update_import_contract(root: Path = ROOT) -> None:
    """List every member in the root's import-linter contract.

    Raises:
        ValueError: If one of the two lists isn't where it was.
    """
    modules = sorted(module_name(folder) for folder in members(root).values())
    papers = " | ".join(module for module in modules if module != "icml.core")
    quoted = ", ".join(f'"{module}"' for module in modules)
    file = root / "pyproject.toml"
    text = file.read_text(encoding="utf-8")
    for pattern, line in (
        (r"^root_packages = \[[^\]]*\]", f"root_packages = [{quoted}]"),
        (r'^layers = \["icml\.[^\]]*\]', f'layers = ["{papers}", "icml.core"]'),
    ):
        text, count = re.subn(pattern, line, text, flags=re.MULTILINE)
        if count != 1:
            raise ValueError(f"{file}: expected one line like {line!r}, found {count}")
    file.write_text(text, encoding="utf-8")
