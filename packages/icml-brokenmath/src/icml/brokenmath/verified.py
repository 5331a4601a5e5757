"""Statements that a computer has proved to be false, made from statements that it has proved.

A family (`icml.brokenmath.families`) draws parameters and finds the value that makes a statement
true by a closed form; a believable wrong value takes its place. An item is kept only if the
family's checker, which goes another way, proves the original and refutes the statement.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from random import Random
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from icml.brokenmath.families import FAMILIES, Family, Parameters
from icml.brokenmath.items import Item
from icml.core.errors import UserError

__all__ = ["FROZEN_N", "FROZEN_SEED", "Certificate", "NotVerified", "generate", "verify"]

DRAWS = 400
"""In a row without a new statement after which a family is exhausted (ours)."""
DIGITS = 30
"""A claimed value has at most so many (ours); honest ones have seven."""
FAR = 4
"""A wrong value more than so many times off is told without a thought (ours)."""


FROZEN_N = 506
"""Items of the set that comes with the package: 22 a family."""
FROZEN_SEED = 20260101
"""With which `generate` makes that set again, byte by byte."""


class Certificate(BaseModel):
    """From which both truths are derived again."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: Literal["icml-brokenmath certificate 1"] = "icml-brokenmath certificate 1"
    family: Annotated[str, Field(max_length=60)]
    parameters: dict[str, Any]
    """Of the family, which has types and bounds for them."""
    claimed: Annotated[int, Field(gt=-(10**DIGITS), lt=10**DIGITS)]
    """The value in the false statement."""
    true: Annotated[int, Field(gt=-(10**DIGITS), lt=10**DIGITS)]
    """The value in the original."""
    refutation: Annotated[str, Field(max_length=2000)]
    """Why the statement is false, in words."""


class NotVerified(UserError):
    """An item is not what its certificate says; ``flag`` is the kind of fault."""

    def __init__(self, flag: str, message: str) -> None:
        """Keep the kind beside the sentence."""
        super().__init__(message)
        self.flag = flag


def verify(item: Item) -> Certificate:
    """Prove the original of an item and refute its statement, from the certificate's parameters.

    The texts must be those that the family writes for the parameters: a text that was edited
    afterwards isn't what was proved.

    Returns:
        The certificate.

    Raises:
        NotVerified: With the flag ``no certificate``, ``bad certificate``, ``unknown family``,
            ``edited``, ``still true``, ``original false``, ``ill posed`` or ``too easy``.
    """
    if item.certificate is None:
        raise NotVerified("no certificate", f"{item.id} has no certificate")
    try:
        found = Certificate.model_validate(_tuples(item.certificate))
    except ValidationError as error:
        raise NotVerified("bad certificate", _first(item, error)) from error
    family = FAMILIES.get(found.family)
    if family is None:
        raise NotVerified("unknown family", f"{item.id}: no family {found.family!r}")
    try:
        parameters = family.parameters.model_validate(_tuples(found.parameters))
    except ValidationError as error:
        raise NotVerified("bad certificate", _first(item, error)) from error
    return _checked(item, found, family, parameters)


def _checked(
    item: Item, found: Certificate, family: Family[Any], parameters: Parameters
) -> Certificate:
    against = family.decide(parameters, found.true)
    if against is not None:
        raise NotVerified("original false", f"{item.id}: the original is false: {against}")
    refutation = family.decide(parameters, found.claimed)
    if refutation is None:
        raise NotVerified("still true", f"{item.id}: the statement is true as well")
    if not makes_sense(family, parameters, found.claimed):
        raise NotVerified("ill posed", f"{item.id}: there can't be a value {found.claimed}")
    if too_easy(family, parameters, found.claimed, found.true):
        raise NotVerified("too easy", f"{item.id}: {found.claimed} can't be meant for {found.true}")
    made = _item(family, parameters, found.claimed, found.true, refutation)
    for name in ("statement", "original", "solution", "answer", "kind", "truth", "certificate"):
        if getattr(item, name) != getattr(made, name):
            raise NotVerified(
                "edited", f"{item.id}: its {name} isn't what the certificate's parameters give"
            )
    return found


def too_easy(family: Family[Any], parameters: Parameters, claimed: int, true: int) -> bool:
    """Say whether a wrong value gives itself away: it is far from the true one."""
    if family.shown(parameters, claimed) != str(claimed):
        return False  # not a number that is read off
    return claimed > FAR * true + FAR or FAR * claimed + FAR < true


def makes_sense(family: Family[Any], parameters: Parameters, claimed: int) -> bool:
    """Say whether there could be such a value: the statement is wrong, and not meaningless."""
    most = claimed if family.most is None else family.most(parameters)
    return family.least <= claimed <= most


def generate(n: int, seed: int, families: Sequence[str] | None = None) -> list[Item]:
    """Make verified items, in equal shares of the families (at most one more of the first ones).

    The same arguments give the same items on every machine.

    Args:
        n: How many.
        seed: Of the draws.
        families: Names, all by default.

    Raises:
        UserError: If n is no positive number, a family is unknown or named twice, or one has not
            so many different statements.

    Example:
        >>> [item] = generate(1, 7, ["digit-sum"])
        >>> verify(item).family
        'digit-sum'
    """
    if n < 1:
        raise UserError(f"n must be at least 1, got {n}")
    names = list(FAMILIES) if families is None else list(families)
    unknown = [name for name in names if name not in FAMILIES]
    if unknown or not names or len(set(names)) < len(names):
        raise UserError(
            f"families must be different ones of {', '.join(FAMILIES)}; got {', '.join(names)}"
        )
    share, more = divmod(n, len(names))
    columns = [
        _of_family(FAMILIES[name], share + (place < more), seed) for place, name in enumerate(names)
    ]
    # One of each in turn, so that the first items are a fair sample as well.
    return [column[row] for row in range(share + 1) for column in columns if row < len(column)]


def _of_family(family: Family[Any], n: int, seed: int) -> list[Item]:
    rng = Random(f"icml-brokenmath/{family.name}/{seed}")
    found: list[Item] = []
    seen: set[Parameters] = set()
    idle = 0
    while len(found) < n:
        parameters = family.draw(rng)
        item = None if parameters in seen else _draw(family, parameters, rng)
        seen.add(parameters)
        if item is not None:
            found.append(item)
            idle = 0
            continue
        idle += 1
        if idle == DRAWS:
            raise UserError(
                f"the family {family.name} has about {len(found)} different statements, wanted {n}"
            )
    return found


def _draw(family: Family[Any], parameters: Parameters, rng: Random) -> Item | None:
    """Return an item with one of the believable wrong values; None if none of them will do."""
    true = family.value(parameters)
    if family.decide(parameters, true) is not None:
        raise AssertionError(f"{family.name}: two ways disagree for {parameters!r}")  # a bug
    near = list(dict.fromkeys(family.near(parameters, true)))
    rng.shuffle(near)
    for claimed in near:
        refutation = family.decide(parameters, claimed)
        sensible = makes_sense(family, parameters, claimed)
        if refutation and sensible and not too_easy(family, parameters, claimed, true):
            return _item(family, parameters, claimed, true, refutation)
    return None


def _item(
    family: Family[Any], parameters: Parameters, claimed: int, true: int, refutation: str
) -> Item:
    certificate = Certificate(
        family=family.name,
        parameters=parameters.model_dump(mode="json"),
        claimed=claimed,
        true=true,
        refutation=refutation,
    ).model_dump(mode="json")
    mark = hashlib.sha256(json.dumps(certificate, sort_keys=True).encode()).hexdigest()[:10]
    return Item(
        id=f"{family.name}-{mark}",
        statement=family.text(parameters, family.shown(parameters, claimed)),
        original=family.text(parameters, family.shown(parameters, true)),
        solution=family.solution(parameters, true),
        answer=family.shown(parameters, true),
        kind=family.name,
        certificate=certificate,
        competition="verified",
    )


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with lists as tuples: JSON has no tuples, and strict types ask for them."""
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }


def _first(item: Item, error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part)[:60] for part in first["loc"]) or "the whole"
    return f"{item.id}: the certificate doesn't check: {where}: {first['msg'][:200]}"
