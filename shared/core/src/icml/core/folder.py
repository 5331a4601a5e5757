"""The folder of a run: whose it is, which config it holds, and one process at a time."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icml.core.differences import first_difference
from icml.core.errors import UserError
from icml.core.journal import LOCK, cannot_write, lock_folder, remove_drafts, write_atomic

if TYPE_CHECKING:
    from filelock import BaseFileLock

CONFIG = "config.json"


def config_json(config: object) -> dict[str, Any]:
    """Return a config dataclass as JSON gives it back: every field, nested ones as dicts.

    Raises:
        TypeError: If it is not an instance of a dataclass.
    """
    if not dataclasses.is_dataclass(config) or isinstance(config, type):
        raise TypeError(f"config must be a dataclass instance, got {config!r}")
    from pydantic import TypeAdapter

    dumped = TypeAdapter(type(config)).dump_python(config, mode="json")
    return json.loads(json.dumps(dumped))


def claim_folder(path: Path, *, fresh: bool) -> BaseFileLock:
    """Make the folder of a run and lock it; ``fresh`` first moves a run that is there aside.

    Returns:
        The lock, held; the system lets go of it when the process ends, however it ends.

    Raises:
        UserError: If another process has the folder, it holds something that is not a run, or
            the system refuses.
    """
    try:
        if fresh and (path / CONFIG).exists():
            lock = lock_folder(path)
            lock.release()
            path.rename(_aside(path))
        path.mkdir(parents=True, exist_ok=True)
        lock = lock_folder(path)
        _check_is_run(path)
    except OSError as error:
        raise cannot_write(path, error) from error
    remove_drafts(path)
    return lock


def _aside(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.old-{number}")).exists():
        number += 1
    return aside


def _check_is_run(path: Path) -> None:
    """A folder with other things in it is somebody's: neither write into it nor move it."""
    if (path / CONFIG).exists():
        return
    for entry in path.iterdir():
        if entry.name != LOCK and not entry.name.endswith(".tmp"):
            raise UserError(
                f"{path} is not empty and holds no run ({entry.name} is in it); "
                "use another --out folder"
            )


def settle_config(path: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Write the folder's config.json, or check that the one there has the same paper and config.

    Args:
        path: The run's folder.
        record: Content for a new config.json, with at least ``paper`` and ``config``.

    Returns:
        What config.json holds: ``record``, or that of the first sitting.

    Raises:
        UserError: If the folder holds a run of another paper or with another config; names the
            first field that differs, in the order of the config's fields.
    """
    file = path / CONFIG
    if not file.exists():
        write_config(path, record)
        return record
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        old = stored["paper"], stored["config"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file} is not the config of a run ({error!r})") from error
    new = record["paper"], record["config"]
    difference = first_difference(old[0], new[0], "paper") or first_difference(old[1], new[1])
    if difference is not None:
        raise UserError(
            f"{path} holds a run with another config ({difference}); "
            "use another --out folder, or --fresh to move that run aside"
        )
    return stored


def write_config(path: Path, record: dict[str, Any]) -> None:
    """Write config.json anew."""
    write_atomic(path / CONFIG, json.dumps(record, indent=2, ensure_ascii=False) + "\n")
