"""The C-finite template: an identity proved by induction over a bounded number of base cases."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from icml.core.journal import write_atomic
from icml.wzllm.certificate import BadCertificate, all_of, fields
from icml.wzllm.cfinite import MAX_ORDER, MAX_START, Bound, NotCFinite, bound
from icml.wzllm.statement import Identity
from icml.wzllm.values import Meter, TooLarge, Undefined, compiled

__all__ = ["CFINITE_FORMAT", "CFiniteCertificate", "disagreement_cfinite", "find_cfinite"]

CFINITE_FORMAT = "c-finite-certificate/1"
WITNESSES = 8  # values compared beyond the proof, ours
WORK = 30_000_000  # elementary operations for all values, ours


@dataclass(frozen=True)
class CFiniteCertificate:
    """A claim: both sides are C-finite, of orders that add up to ``order``, from ``start`` on.

    Then agreement at ``start .. start + order - 1`` proves agreement from ``start`` on; the values
    before that are compared one by one.
    """

    identity: Identity
    variable: str
    """The one variable."""
    start: int
    """The first value from which on both sides satisfy their recurrences."""
    order: int
    """Of a recurrence for the difference of the sides, at most."""
    steps: tuple[str, ...] = ()
    """How the order follows from the formulas, the record of the proof."""
    engine: str = ""
    """What found it."""

    def to_json(self) -> str:
        """Write the file's text."""
        identity = self.identity
        content: dict[str, Any] = {
            "format": CFINITE_FORMAT,
            "identity": {"lhs": identity.lhs, "rhs": identity.rhs, "vars": list(identity.vars)},
            "variable": self.variable,
            "start": self.start,
            "order": self.order,
            "steps": list(self.steps),
            "engine": self.engine,
        }
        return json.dumps(content, indent=1) + "\n"

    def save(self, path: Path) -> None:
        """Write the file, all of it or nothing."""
        write_atomic(path, self.to_json())

    @classmethod
    def from_content(cls, content: Any) -> CFiniteCertificate:
        """Read what a file's JSON holds; nothing in it is believed.

        Raises:
            BadCertificate: If it has other fields than that.
            BadStatement: If the identity in it isn't a statement.
        """
        data = fields(content, _FIELDS, "the certificate")
        if data["format"] != CFINITE_FORMAT:
            raise BadCertificate(f"format {data['format']!r} isn't {CFINITE_FORMAT!r}")
        identity = fields(data["identity"], {"lhs": str, "rhs": str, "vars": list}, "identity")
        return cls(
            Identity(
                identity["lhs"], identity["rhs"], tuple(all_of(identity["vars"], str, "vars"))
            ),
            data["variable"],
            data["start"],
            data["order"],
            tuple(all_of(data["steps"], str, "steps")),
            data["engine"],
        )


_FIELDS: dict[str, Any] = {
    "format": str,
    "identity": dict,
    "variable": str,
    "start": int,
    "order": int,
    "steps": list,
    "engine": str,
}


def find_cfinite(identity: Identity) -> CFiniteCertificate:
    """Bound the order of both sides; whether they agree is left to the judge.

    Raises:
        NotCFinite: If the statement has more than one variable, or a side isn't C-finite.

    Example:
        >>> row = Identity.parse("sum(k,0,n,fibonacci(k)) = fibonacci(n+2)-1")
        >>> find_cfinite(row).order
        6
    """
    needed = _needed(identity)
    return CFiniteCertificate(
        identity,
        identity.vars[0],
        needed.start,
        needed.order,
        needed.steps,
        f"icml-wzllm {version('icml-wzllm')}",
    )


def _needed(identity: Identity) -> Bound:
    """Return what holds for the difference of the sides.

    Raises:
        NotCFinite: If that isn't known.
    """
    if len(identity.vars) != 1:
        raise NotCFinite(f"the statement has {len(identity.vars)} variables, not one")
    (variable,) = identity.vars
    left, right = bound(identity.left, variable), bound(identity.right, variable)
    steps = tuple(dict.fromkeys((*left.steps, *right.steps)))
    step = "the difference of the sides"
    return Bound(0, 0, steps).then(left.order + right.order, max(left.start, right.start), step)


def disagreement_cfinite(certificate: CFiniteCertificate) -> tuple[str, int]:
    """Judge a certificate: the bound is derived anew from the statement, then values are compared.

    Returns:
        Why it isn't accepted ("" if it is), and how many equations between numbers were compared
        beyond what the proof needs.
    """
    try:
        needed = _needed(certificate.identity)
    except NotCFinite as error:
        return str(error), 0
    wrong = _misread(certificate, needed) or _unequal(certificate)
    return (wrong, 0) if wrong else ("", WITNESSES)


def _misread(certificate: CFiniteCertificate, needed: Bound) -> str:
    """Say what a certificate claims that doesn't follow from its statement."""
    if certificate.variable != certificate.identity.vars[0]:
        return f"{certificate.variable!r} isn't the variable of the statement"
    if certificate.start < needed.start:
        return f"the recurrences hold from {needed.start} on, not {certificate.start}"
    if certificate.order < needed.order:
        return f"the order that follows is {needed.order}, not {certificate.order}"
    if certificate.start > MAX_START or certificate.order > MAX_ORDER:
        return (
            f"start {certificate.start} and order {certificate.order}, at most {MAX_START} and "
            f"{MAX_ORDER} are tried"
        )
    if certificate.steps and certificate.steps != needed.steps:
        return "the record isn't how the order follows"
    return ""


def _unequal(certificate: CFiniteCertificate) -> str:
    """Compare the sides where the proof needs it, and a little further."""
    identity = certificate.identity
    left, right = compiled(identity.left), compiled(identity.right)
    meter = Meter(WORK)
    for value in range(certificate.start + certificate.order + WITNESSES):
        point = {certificate.variable: value}
        try:
            sides = left(dict(point), meter), right(dict(point), meter)
        except Undefined as error:
            if value < certificate.start:
                continue  # the statement says nothing there
            return f"at {certificate.variable} = {value} a side has no value: {error}"
        except TooLarge as error:
            return f"at {certificate.variable} = {value}: {error}"
        if sides[0] != sides[1]:
            return f"the sides differ at {certificate.variable} = {value}"
    return ""
