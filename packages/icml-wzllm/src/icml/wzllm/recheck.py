"""A proof's file, checked again by a process that has only the file and what it should prove.

``python -m icml.wzllm.recheck`` answers one request, a line of JSON: it reads the file, reads the
Lean statement back and compares it with the identity, and starts the kernel.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from icml.wzllm.lean.readback import Unfaithful, how_restated
from icml.wzllm.proof_file import BadProofFile, read_proof
from icml.wzllm.statement import Identity

__all__ = ["Recheck", "recheck", "recheck_in_new_process"]

READING_S = 60.0
"""What reading a statement back may take (s), on top of the kernel's own limit; ours."""


@dataclass(frozen=True)
class Recheck:
    """What was found in a proof's file."""

    accepted: bool
    why: str = ""
    """Why it isn't accepted."""
    rewritings: tuple[str, ...] = ()
    """How the Lean statement differs from the identity; none if it says the same word by word."""
    axioms: tuple[str, ...] = ()
    seconds: float = 0.0
    """What the kernel took."""
    max_rss_mb: float | None = None


def recheck(path: Path, identity: Identity | None = None, *, budget_s: float) -> Recheck:
    """Check a proof's file, believing nothing in it.

    Args:
        path: The file.
        identity: What it should prove; what it says itself if None.
        budget_s: Seconds for the kernel.

    Raises:
        MissingExtra: If the kernel isn't installed.
        UserError: If it can't be started.
    """
    from icml.wzllm.kernel.wheel import WheelKernel

    try:
        proof = read_proof(path)
        wanted = identity or proof.identity
        if (str(proof.identity), proof.identity.vars) != (str(wanted), wanted.vars):
            return Recheck(False, f"the file says that it is a proof of {proof.identity}")
        rewritings = how_restated(proof.statement, wanted)
    except BadProofFile as error:
        return Recheck(False, str(error))
    except Unfaithful as error:
        return Recheck(False, f"what is stated in Lean: {error}")
    except RecursionError:
        return Recheck(False, "what is stated in Lean is nested too deeply to be read")
    verdict = WheelKernel().check(proof.text, proof.theorem, proof.statement, budget_s)
    why = "" if verdict.accepted else f"the kernel: {'; '.join(verdict.messages[:1])}"
    return Recheck(
        verdict.accepted, why, rewritings, verdict.axioms, verdict.seconds, verdict.max_rss_mb
    )


def recheck_in_new_process(
    path: Path, identity: Identity | None = None, *, budget_s: float
) -> Recheck:
    """Run :func:`recheck` in a process of its own, which ends with this one."""
    fields = identity and {"lhs": identity.lhs, "rhs": identity.rhs, "vars": identity.vars}
    request = {"file": str(path.absolute()), "identity": fields, "budget_s": budget_s}
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "icml.wzllm.recheck"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,  # what a process that has ended didn't take must not be written again at the end
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            # Not closed before the answer is there: for the other side its end is ours.
            with suppress(BrokenPipeError):  # it has ended: the answer is empty
                process.stdin.write(json.dumps(request).encode() + b"\n")
            answer = process.stdout.read()
        except BaseException:
            process.kill()
            raise
    try:
        found = json.loads(answer)
    except ValueError:
        return Recheck(False, f"its process ended without an answer (exit {process.returncode})")
    lists: dict[str, Any] = {name: tuple(found[name]) for name in ("rewritings", "axioms")}
    return Recheck(**(found | lists))


def _answer(request: dict[str, Any]) -> Recheck:
    from icml.core.errors import MissingExtra, UserError
    from icml.wzllm.kernel.wheel import WheelKernel

    fields = request["identity"]
    identity = fields and Identity(fields["lhs"], fields["rhs"], tuple(fields["vars"]))
    try:
        WheelKernel().prepare()  # has a limit of its own
        if hasattr(signal, "setitimer"):
            # The default action of SIGALRM ends the process, whatever it computes.
            signal.setitimer(signal.ITIMER_REAL, request["budget_s"] + READING_S)
        return recheck(Path(request["file"]), identity, budget_s=request["budget_s"])
    except (UserError, MissingExtra) as error:
        return Recheck(False, str(error))


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


def main() -> None:
    """Answer the one request."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process itself
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    print(json.dumps(asdict(_answer(request))), flush=True)
    os._exit(0)  # the thread still reads stdin, which Python would wait for


if __name__ == "__main__":
    main()
