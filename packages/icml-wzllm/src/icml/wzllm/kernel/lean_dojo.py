"""A thin door to LeanDojo; not run by our tests, which only hold it to the library's signatures."""

from __future__ import annotations

import time
from typing import Any

from icml.core.errors import require
from icml.wzllm.kernel.judge import Message, ask, judge, refused
from icml.wzllm.kernel.kimina import MATHLIB_HEADER
from icml.wzllm.kernel.protocol import Verdict
from icml.wzllm.kernel.scan import Refused

EXTRA = "icml-wzllm[lean-dojo]"


class LeanDojoKernel:
    """Checks proofs in a repository that LeanDojo has traced.

    LeanDojo runs a file of a repository; ours is put into it by ``write``, a function from text to
    a ``lean_dojo.LeanGitRepo`` whose ``path`` in it holds that text.
    """

    backend = "lean-dojo"

    def __init__(self, write: Any, path: str, *, header: str = MATHLIB_HEADER) -> None:
        """Name the repository's file.

        Raises:
            MissingExtra: If lean-dojo is not installed.
        """
        self._library = require("lean_dojo", extra=EXTRA)
        self._write, self._path, self._header = write, path, header

    def check(self, lean: str, theorem: str, statement: str, timeout_s: float) -> Verdict:
        """Say whether ``lean`` proves ``statement``: see :class:`Kernel`."""
        try:
            question = ask(lean, theorem, statement, header=self._header)
        except Refused as error:
            return refused(error, backend=self.backend)
        started = time.monotonic()
        trouble = ""
        messages: list[Message] = []
        try:
            said = self._library.check_proof(
                self._library.Theorem(self._write(question.text), self._path, question.recheck)
            )
            messages = [Message("info", str(said))]
        except Exception as error:  # the library raises its own kinds, which differ by release
            trouble = f"LeanDojo failed: {error}"
        seconds = time.monotonic() - started
        return judge(
            question, messages, trouble=trouble, seconds=seconds, max_rss_mb=None,
            backend=self.backend,
        )  # fmt: skip
