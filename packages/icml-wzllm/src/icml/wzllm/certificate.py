"""What the search found, as a file that anybody can check: JSON, version 1."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from icml.core.errors import UserError
from icml.core.journal import write_atomic
from icml.wzllm.statement import Identity

__all__ = [
    "FORMAT", "MAX_FILE", "BadCertificate", "Certificate", "Ratio", "all_of", "fields",
    "json_content",
]  # fmt: skip

FORMAT = "wz-certificate/1"
MAX_FILE = 4 * 2**20  # bytes, ours: the suite's largest has 2 kB


class BadCertificate(UserError):
    """The file isn't a certificate of this version; the message says why."""


class Ratio(NamedTuple):
    """A rational function, both polynomials in the statement language."""

    num: str
    den: str


@dataclass(frozen=True)
class Certificate:
    """A claim that can be checked without knowing how it was found.

    With F the summand of the sum on one side and G = R F,
    ``sum_j recurrence[j] F(n+j, k) = G(n, k+1) - G(n, k)``. Summed over k this gives
    ``sum_j recurrence[j] f(n+j) = B(n)``, with B the sum of ``boundary``; the other side satisfies
    it too, and both sides agree at every n of ``base_cases``.
    """

    identity: Identity
    sum_var: str
    """The summation variable k, the same for both sides."""
    shift_var: str
    """The variable n in which the recurrence is."""
    recurrence: tuple[str, ...]
    """Coefficients a_0 to a_J: polynomials in the free variables."""
    certificate: Ratio
    """R for the sum."""
    right: Ratio | None = None
    """R for the sum on the other side, where that is a sum as well; the same recurrence."""
    boundary: tuple[str, ...] = ("0",)
    """Terms whose sum is B(n)."""
    base_cases: tuple[int, ...] = ()
    """Values of n at which the sides are compared, for all values of the other variables."""
    engine: str = ""
    """What found it."""

    @property
    def order(self) -> int:
        """The order J of the recurrence; 0 where Gosper's algorithm sums in closed form."""
        return len(self.recurrence) - 1

    def to_json(self) -> str:
        """Write the file's text."""
        identity = self.identity
        content: dict[str, Any] = {
            "format": FORMAT,
            "identity": {"lhs": identity.lhs, "rhs": identity.rhs, "vars": list(identity.vars)},
            "sum_var": self.sum_var,
            "shift_var": self.shift_var,
            "order": self.order,
            "recurrence": list(self.recurrence),
            "certificate": self.certificate._asdict(),
            "right": None if self.right is None else self.right._asdict(),
            "boundary": list(self.boundary),
            "base_cases": list(self.base_cases),
            "engine": self.engine,
        }
        return json.dumps(content, indent=1) + "\n"

    def save(self, path: Path) -> None:
        """Write the file, all of it or nothing."""
        write_atomic(path, self.to_json())

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Read a file's text; nothing in it is believed (``verify`` checks it).

        Raises:
            BadCertificate: If it isn't JSON of this version, or has other fields than that.
            BadStatement: If the identity in it isn't a statement.
        """
        return cls.from_content(json_content(text))

    @classmethod
    def from_content(cls, content: Any) -> Certificate:
        """Read what a file's JSON holds: see :meth:`from_json`."""
        data = fields(content, _FIELDS, "the certificate")
        if data["format"] != FORMAT:
            raise BadCertificate(f"format {data['format']!r} isn't {FORMAT!r}")
        if data["order"] != len(data["recurrence"]) - 1:
            raise BadCertificate(
                f"order {data['order']} doesn't fit {len(data['recurrence'])} coefficients"
            )
        identity = fields(data["identity"], {"lhs": str, "rhs": str, "vars": list}, "identity")
        right = data["right"]
        return cls(
            Identity(
                identity["lhs"], identity["rhs"], tuple(all_of(identity["vars"], str, "vars"))
            ),
            data["sum_var"],
            data["shift_var"],
            tuple(all_of(data["recurrence"], str, "recurrence")),
            _ratio(data["certificate"], "certificate"),
            None if right is None else _ratio(right, "right"),
            tuple(all_of(data["boundary"], str, "boundary")),
            tuple(all_of(data["base_cases"], int, "base_cases")),
            data["engine"],
        )


def json_content(text: str) -> Any:
    """Return what a certificate's text holds.

    Raises:
        BadCertificate: If it isn't JSON, or is too long.
    """
    if len(text) > MAX_FILE:
        raise BadCertificate(f"a certificate of {len(text)} characters, at most {MAX_FILE} allowed")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadCertificate(f"not a certificate: not JSON ({error})") from None


_FIELDS: dict[str, Any] = {
    "format": str,
    "identity": dict,
    "sum_var": str,
    "shift_var": str,
    "order": int,
    "recurrence": list,
    "certificate": dict,
    "right": (dict, type(None)),
    "boundary": list,
    "base_cases": list,
    "engine": str,
}


def fields(value: Any, wanted: dict[str, Any], where: str) -> dict[str, Any]:
    """Return an object of a file that has exactly the wanted fields, of the wanted types.

    Raises:
        BadCertificate: If it hasn't.
    """
    if not isinstance(value, dict):
        raise BadCertificate(f"{where} must be an object, got {type(value).__name__}")
    for name in value:
        if name not in wanted:
            raise BadCertificate(f"{where} has an unknown field {name!r}")
    for name, kind in wanted.items():
        if name not in value:
            raise BadCertificate(f"{where} lacks the field {name!r}")
        if not isinstance(value[name], kind) or isinstance(value[name], bool):
            raise BadCertificate(f"{name} has the wrong type {type(value[name]).__name__}")
    return value


def all_of(values: list[Any], kind: type, where: str) -> list[Any]:
    """Return a list of a file whose entries all have one type.

    Raises:
        BadCertificate: If one hasn't.
    """
    for value in values:
        if type(value) is not kind:
            raise BadCertificate(f"{where} holds {value!r}; every entry must be {kind.__name__}")
    return values


def _ratio(value: Any, where: str) -> Ratio:
    return Ratio(**fields(value, {"num": str, "den": str}, where))
