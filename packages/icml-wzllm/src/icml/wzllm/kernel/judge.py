"""The file that Lean is given, and the rule by which its answer is accepted.

``#print axioms`` alone proves nothing: for a theorem whose proof failed it may say that there are
no axioms, or name the theorem itself as one. So a proof is accepted only if Lean ended well, said
no error, and our own theorem at the end of the file, which states what was to be proved and rests
on the foreign theorem, depends on no axiom that isn't trusted. The statement is read *before* the
foreign text, which therefore cannot change what it means.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Sequence
from typing import NamedTuple

from icml.wzllm.kernel.protocol import Verdict
from icml.wzllm.kernel.scan import Refused, scan

STANDARD_AXIOMS = ("propext", "Classical.choice", "Quot.sound")
"""What nearly all of Mathlib rests on."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_ANSWER = re.compile(r"'(?P<name>[^']+)' (?:does not depend on any axioms|depends on axioms: "
                     r"\[(?P<axioms>[^\]]*)\])")  # fmt: skip


class Message(NamedTuple):
    """One message of Lean."""

    severity: str
    text: str
    line: int | None = None

    def sentence(self) -> str:
        """Return the message with its place."""
        where = "" if self.line is None else f"line {self.line}: "
        return where + self.text


class Question(NamedTuple):
    """A file for Lean, and the name of our own theorem at its end."""

    text: str
    recheck: str


def ask(
    lean: str, theorem: str, statement: str, *, header: str, taken: Collection[str] = ()
) -> Question:
    """Put foreign text between our header, our statement and our re-check.

    Args:
        lean: Foreign declarations.
        theorem: Name of the one that proves the statement.
        statement: A proposition in the header's words.
        header: First lines of the file: imports and options.
        taken: Names that the foreign text may not declare.

    Raises:
        Refused: If the text, the name or the statement holds something that is never accepted.
    """
    if not _NAME.fullmatch(theorem):
        raise Refused(f"the theorem's name must be letters, digits and _, got {theorem!r}")
    if ":=" in statement:
        raise Refused("a statement may not hold :=")
    nonce = secrets.token_hex(8)
    text = (
        f"{header}\n"
        f"noncomputable def claim_{nonce} : Prop :=\n  ({scan(statement)})\n\n"
        f"{scan(lean, taken=taken)}\n\n"
        f"theorem recheck_{nonce} : _root_.claim_{nonce} := @_root_.{theorem}\n"
        f"#print axioms recheck_{nonce}\n"
    )
    return Question(text, f"recheck_{nonce}")


def judge(
    question: Question,
    messages: Sequence[Message],
    *,
    trouble: str = "",
    trusted: Collection[str] = (),
    seconds: float,
    max_rss_mb: float | None,
    backend: str,
    isolation: str = "",
) -> Verdict:
    """Accept a proof, or say why not.

    Args:
        question: What Lean was given.
        messages: What it said.
        trouble: How Lean ended, in words, if not well.
        trusted: Axioms that a proof may rest on.
        seconds: Wall time (s).
        max_rss_mb: Largest resident size (MiB), if known.
        backend: Which Lean this was.
        isolation: What contained its processes.
    """
    complaints = [trouble] if trouble else []
    complaints += [message.sentence() for message in messages if message.severity == "error"]
    axioms = _axioms(question, messages)
    if axioms is None:
        complaints.append("Lean said nothing about the axioms of our re-check")
    elif strange := [name for name in axioms if name not in trusted]:
        complaints.append(f"the proof rests on {', '.join(strange)}")
    return Verdict(
        not complaints, axioms or (), tuple(complaints), seconds, max_rss_mb, backend, isolation
    )  # fmt: skip


def refused(error: Refused, *, backend: str) -> Verdict:
    """Return the verdict on a text that Lean is not even shown."""
    return Verdict(False, (), (f"refused before Lean saw it: {error}",), 0.0, None, backend)


def _axioms(question: Question, messages: Sequence[Message]) -> tuple[str, ...] | None:
    for message in messages:
        found = _ANSWER.search(message.text)
        if found and found["name"] == question.recheck:
            return tuple(re.split(r",\s*", found["axioms"].strip())) if found["axioms"] else ()
    return None
