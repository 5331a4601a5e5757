"""A proof as a Lean file on disk: all that Lean needs but the base, and what it is a proof of.

Any Lean of the base's version checks it, once ``WZCore.lean`` is compiled and on ``LEAN_PATH``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from icml.core.errors import UserError
from icml.core.journal import write_atomic
from icml.wzllm.kernel.scan import LONGEST
from icml.wzllm.kernel.wheel import HEADER
from icml.wzllm.parser import split_equation
from icml.wzllm.statement import BadStatement, Identity

__all__ = ["BadProofFile", "ProofFile", "read_proof", "write_proof"]

MAX_FILE = 4 * LONGEST + 20_000
"""Bytes that are read at most: the longest text, four bytes a character, and our own lines."""

_FILE = re.compile(
    r"-- (?P<identity>[^\n]*)\n"
    r"-- for all non-negative whole (?P<variables>[^\n]*)\n"
    + re.escape(HEADER)
    + r"\n\nnoncomputable def claimed : Prop :=\n  \((?P<statement>[^\n]*)\)\n\n"
    r"(?P<text>.*)\n\n"
    r"theorem checked : claimed := @(?P<theorem>\w+)\n#print axioms checked\n",
    re.DOTALL,
)


class BadProofFile(UserError):
    """The file isn't a proof as :func:`write_proof` writes it."""


@dataclass(frozen=True)
class ProofFile:
    """What a file says; none of it is believed."""

    identity: Identity
    """What it claims to be a proof of."""
    statement: str
    """The proposition in Lean, in the base's words."""
    theorem: str
    """Name of the theorem that proves it."""
    text: str
    """Declarations with that theorem."""


def write_proof(path: Path, proof: ProofFile) -> None:
    """Write a proof's file.

    Raises:
        UserError: If the system refuses.
    """
    variables = ", ".join(proof.identity.vars)
    write_atomic(
        path,
        f"-- {proof.identity}\n-- for all non-negative whole {variables}\n{HEADER}\n\n"
        f"noncomputable def claimed : Prop :=\n  ({proof.statement})\n\n"
        f"{proof.text.strip()}\n\n"
        f"theorem checked : claimed := @{proof.theorem}\n#print axioms checked\n",
    )


def read_proof(path: Path) -> ProofFile:
    """Read a proof's file.

    Raises:
        BadProofFile: If it can't be read or has anything but our own lines around the proof.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE + 1)
        if len(content) > MAX_FILE:
            raise BadProofFile(f"{path} is larger than {MAX_FILE} bytes")
        found = _FILE.fullmatch(content.decode("utf-8"))
    except OSError as error:
        raise BadProofFile(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError:
        raise BadProofFile(f"{path} isn't text in UTF-8") from None
    if found is None:
        raise BadProofFile(
            f"{path} isn't a proof as `icml wzllm bench --tier kernel` writes it: "
            "the lines around the proof are others"
        )
    try:
        lhs, rhs, _ = split_equation(found["identity"])
        identity = Identity(lhs.strip(), rhs.strip(), tuple(found["variables"].split(", ")))
    except BadStatement as error:
        raise BadProofFile(f"{path}: the statement in its first line: {error}") from error
    return ProofFile(identity, found["statement"], found["theorem"], found["text"])
