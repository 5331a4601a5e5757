"""Errors that a user can mend, and optional libraries that name their install line."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


class UserError(ValueError):
    """Something the user can mend: the command line prints its message alone and exits 2."""


class MissingExtra(ImportError):
    """An optional library is not installed; the message carries the install line."""


def require(module: str, *, extra: str) -> ModuleType:
    """Import an optional library.

    Args:
        module: Dotted name of the module to import.
        extra: Requirement that brings it, for example ``icml-core[torch]``.

    Returns:
        The imported module.

    Raises:
        MissingExtra: If the library is not installed. A library that is installed but fails
            while importing one of its own dependencies raises its own error.

    Example:
        >>> require("json", extra="icml-core[torch]").dumps([1])
        '[1]'
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        wanted = module.split(".")[0]
        if error.name is None or error.name.split(".")[0] != wanted:
            raise
        raise MissingExtra(f"{wanted} is not installed: pip install '{extra}'") from error
