"""``icml brokenmath generate | validate``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg


def _required(name: str) -> Any:
    return arg(metavar=name, help_behavior_hint="(required)")


@dataclass(frozen=True)
class GenerateOptions:
    """How many items, of which families, and where they go."""

    out: Annotated[Path, _required("FILE")]
    """JSON Lines, an item each; a file that is there is not replaced."""
    n: int = 506
    """Items, as many of each family, or one more of some; by default as many as the frozen set."""
    seed: int = 0
    """The same seed gives the same items."""
    families: tuple[str, ...] = ()
    """Names of families; all by default."""


def generate(options: GenerateOptions) -> None:
    """Make false statements that are verified to be false, from true ones that are verified."""
    from collections import Counter

    from icml.brokenmath.items import save_jsonl
    from icml.brokenmath.verified import generate as make
    from icml.core.errors import UserError

    if options.out.exists():
        raise UserError(f"{options.out} is there already: name a new file")
    items = make(options.n, options.seed, options.families or None)
    save_jsonl(items, options.out)
    shares = Counter(item.kind for item in items)
    print(f"{options.out}: {len(items)} items, {min(shares.values())} or more of each of "
          f"{len(shares)} families")  # fmt: skip


@dataclass(frozen=True)
class ValidateOptions:
    """What is checked."""

    items: Annotated[Positional[str], _required("ITEMS")]
    """A file of items, verified (the set that comes with the package), or hf: and a data set."""
    revision: Annotated[
        str | None, arg(metavar="COMMIT", help_behavior_hint="(of a data set on the hub)")
    ] = None
    """Commit of a data set on the hub, 40 hex digits."""
    seconds: float = 60.0
    """Limit for 250 items."""


def validate(options: ValidateOptions) -> int:
    """Prove each original and refute each statement again, in a process under limits.

    Exits with 1 if an item is not verified.
    """
    from icml.brokenmath.items import load_items
    from icml.brokenmath.validator import table
    from icml.brokenmath.validator import validate as check

    checked = check(load_items(options.items, revision=options.revision), seconds=options.seconds)
    print(table(checked))
    return 1 if any(one.flag for one in checked) else 0
