"""What the search found, as a file that anybody can check: JSON, version 1."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from icml.core.errors import UserError
from icml.core.journal import write_atomic
from icml.wzllm.statement import Identity

__all__ = ["FORMAT", "BadCertificate", "Certificate", "Ratio", "read_certificate"]

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
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadCertificate(f"not a certificate: not JSON ({error})") from None
        data = _fields(content, _FIELDS, "the certificate")
        if data["format"] != FORMAT:
            raise BadCertificate(f"format {data['format']!r} isn't {FORMAT!r}")
        if data["order"] != len(data["recurrence"]) - 1:
            raise BadCertificate(
                f"order {data['order']} doesn't fit {len(data['recurrence'])} coefficients"
            )
        identity = _fields(data["identity"], {"lhs": str, "rhs": str, "vars": list}, "identity")
        right = data["right"]
        return cls(
            Identity(identity["lhs"], identity["rhs"], tuple(_all(identity["vars"], str, "vars"))),
            data["sum_var"],
            data["shift_var"],
            tuple(_all(data["recurrence"], str, "recurrence")),
            _ratio(data["certificate"], "certificate"),
            None if right is None else _ratio(right, "right"),
            tuple(_all(data["boundary"], str, "boundary")),
            tuple(_all(data["base_cases"], int, "base_cases")),
            data["engine"],
        )


def read_certificate(path: Path) -> Certificate:
    """Read a certificate's file.

    Raises:
        BadCertificate: If the file can't be read, is too large, or isn't a certificate.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE + 1)
        if len(content) > MAX_FILE:
            raise BadCertificate(f"{path} is larger than {MAX_FILE} bytes")
        return Certificate.from_json(content.decode("utf-8"))
    except OSError as error:
        raise BadCertificate(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError:
        raise BadCertificate(f"{path} isn't text in UTF-8") from None


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


def _fields(value: Any, wanted: dict[str, Any], where: str) -> dict[str, Any]:
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


def _all(values: list[Any], kind: type, where: str) -> list[Any]:
    for value in values:
        if type(value) is not kind:
            raise BadCertificate(f"{where} holds {value!r}; every entry must be {kind.__name__}")
    return values


def _ratio(value: Any, where: str) -> Ratio:
    return Ratio(**_fields(value, {"num": str, "den": str}, where))
