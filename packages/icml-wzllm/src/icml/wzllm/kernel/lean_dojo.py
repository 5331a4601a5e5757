"""A thin door to LeanDojo; our tests hold it to the library's signatures and do not run it."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

from icml.core.errors import require
from icml.wzllm.kernel.judge import STANDARD_AXIOMS, Message, ask, judge, refused
from icml.wzllm.kernel.protocol import Verdict
from icml.wzllm.kernel.scan import Refused

_COMMAND = re.compile(r"^(?=theorem|lemma|def|abbrev|noncomputable|#print)", re.MULTILINE)


class LeanDojoKernel:
    """Checks proofs command by command at a line of a repository that LeanDojo has traced."""

    backend = "lean-dojo"

    def __init__(self, repo: Any, path: str, line: int) -> None:
        """Name the place.

        Args:
            repo: A ``lean_dojo.LeanGitRepo``.
            path: A file in it that imports what proofs need.
            line: The line of that file before which the proof is read.

        Raises:
            MissingExtra: If lean-dojo is not installed.
        """
        self._library = require("lean_dojo", extra="icml-wzllm[lean-dojo]")
        self._entry = (repo, Path(path), line)

    def check(self, lean: str, theorem: str, statement: str, timeout_s: float) -> Verdict:
        """Say whether ``lean`` proves ``statement``: see :class:`Kernel`."""
        try:
            question = ask(lean, theorem, statement, header="")
        except Refused as error:
            return refused(error, backend=self.backend)
        started = time.monotonic()
        messages: list[Message] = []
        with self._library.Dojo(self._entry, timeout=max(1, int(timeout_s))) as (dojo, state):
            for command in filter(str.strip, _COMMAND.split(question.text)):
                state = dojo.run_cmd(state, command.strip())
                if isinstance(state, self._library.LeanError):
                    messages.append(Message("error", state.error))
                    break
                messages.append(Message("info", state.message or ""))
        return judge(
            question,
            messages,
            trusted=STANDARD_AXIOMS,
            seconds=time.monotonic() - started,
            max_rss_mb=None,
            backend=self.backend,
        )
