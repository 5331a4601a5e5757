"""Command-line arguments to the frozen dataclass that a command takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_type_hints

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from icml.core.errors import UserError

# No brackets or `--no-` twins in the help that nobody needs: `--quick`, not `--quick | --no-quick`.
_MARKERS = (tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff)


def parse(
    command: Callable[[Any], int | None], args: Sequence[str], *, prog: str, description: str
) -> Any:
    """Return the options of ``command`` that ``args`` give.

    Args:
        command: A function whose one parameter is annotated with a dataclass.
        args: What follows the command's name on the command line.
        prog: The command as the help shows it.
        description: What the help says that it does.

    Raises:
        UserError: If an option is given twice, or the dataclass's ``__post_init__`` refuses the
            values with a ValueError.
        SystemExit: After ``--help`` (0) or an option that cannot be parsed (2).
    """
    hints = get_type_hints(command)
    (options_type,) = (hint for name, hint in hints.items() if name != "return")
    names = [field.name for field in dataclasses.fields(options_type)]
    _refuse_doubles(args, names, prog=prog)
    parsed = tyro.cli(
        _unchecked(options_type),
        args=args,
        prog=prog,
        description=description,
        config=_MARKERS,
        registry=_registry(),
    )
    try:
        return options_type(**{name: getattr(parsed, name) for name in names})
    except UserError:
        raise
    except ValueError as error:
        raise UserError(f"{prog}: {error}") from error


def _refuse_doubles(args: Sequence[str], names: Sequence[str], *, prog: str) -> None:
    """Refuse an option given twice: the parser would keep the last one without a word."""
    given = [arg.partition("=")[0].replace("_", "-") for arg in args]
    for option in (f"--{name.replace('_', '-')}" for name in names):
        if given.count(option) > 1:
            raise UserError(
                f"{prog}: {option} is given twice; give it once (several values follow each other: "
                f"{option} A B)"
            )


def _unchecked(options_type: type) -> type:
    """Return a twin that checks nothing.

    Tyro frames what ``__post_init__`` says in a box that names the class; a command's user
    has never heard of the class, so the check runs outside of tyro.
    """
    return type(options_type.__name__, (options_type,), {"__post_init__": lambda self: None})


def _registry() -> ConstructorRegistry:
    """Return tyro's rules and one more: an optional path reads ``PATH``, not ``{None}|PATH``."""
    registry = ConstructorRegistry()

    @registry.primitive_rule
    def optional_path(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Path | None] | None:
        if info.type != (Path | None):
            return None
        return PrimitiveConstructorSpec(
            nargs=1,
            metavar="PATH",
            instance_from_str=lambda given: Path(given[0]),
            is_instance=lambda value: value is None or isinstance(value, Path),
            str_from_instance=lambda value: [str(value)],
        )

    return registry
