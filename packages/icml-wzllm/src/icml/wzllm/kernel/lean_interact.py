"""A kernel behind LeanInteract: a local Lean project, through the REPL that the library drives."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from icml.core.errors import UserError, require
from icml.wzllm.kernel.judge import STANDARD_AXIOMS, Message, ask, judge, refused
from icml.wzllm.kernel.kimina import MATHLIB_HEADER
from icml.wzllm.kernel.protocol import Verdict
from icml.wzllm.kernel.scan import Refused

COMMANDS_PER_SERVER = 500
"""After that many files the server is started anew, since a REPL keeps what it has read; ours."""


class LeanInteractKernel:
    """Checks proofs with ``lean_interact.LeanServer``, which it starts and restarts itself.

    Use it as a context manager, or call :meth:`close`.
    """

    backend = "lean-interact"

    def __init__(
        self,
        config: Any,
        *,
        header: str = MATHLIB_HEADER,
        trusted_axioms: tuple[str, ...] = STANDARD_AXIOMS,
    ) -> None:
        """Start nothing yet.

        Args:
            config: A ``lean_interact.LeanREPLConfig``: which Lean, which project.
            header: First lines of every file; the project must have what they import.
            trusted_axioms: Axioms that a proof may rest on.

        Raises:
            MissingExtra: If lean-interact is not installed.
        """
        self._library = require("lean_interact", extra="icml-wzllm[lean]")
        self._config = config
        self._header = header
        self._trusted = trusted_axioms
        self._server: Any = None
        self._asked = 0

    def __enter__(self) -> LeanInteractKernel:
        """Return the kernel itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """End the server."""
        self.close()

    def close(self) -> None:
        """End the server and its children."""
        server, self._server = self._server, None
        if server is not None:
            server.kill()

    def check(self, lean: str, theorem: str, statement: str, timeout_s: float) -> Verdict:
        """Say whether ``lean`` proves ``statement``: see :class:`Kernel`.

        Raises:
            UserError: If the server can't be started.
        """
        try:
            question = ask(lean, theorem, statement, header=self._header)
        except Refused as error:
            return refused(error, backend=self.backend)
        self._start()
        started = time.monotonic()
        messages, trouble = self._run(question.text, timeout_s)
        seconds = time.monotonic() - started
        memory = None if self._server is None else self._server.get_memory_usage()
        return judge(
            question,
            messages,
            trouble=trouble,
            trusted=self._trusted,
            seconds=seconds,
            max_rss_mb=memory,
            backend=self.backend,
        )

    def _start(self) -> None:
        if self._server is not None and self._server.is_alive():
            if self._asked < COMMANDS_PER_SERVER:
                return
            self.close()
        try:
            self._server = self._library.LeanServer(self._config)
        except (OSError, AssertionError) as error:
            raise UserError(f"the Lean server can't be started: {error}") from error
        self._asked = 0

    def _run(self, text: str, timeout_s: float) -> tuple[list[Message], str]:
        """Return what Lean said, and how it failed if it did; a failed server is given up."""
        self._asked += 1
        try:
            # The library's own default is to wait for ever.
            said = self._server.run(self._library.Command(cmd=text), timeout=timeout_s)
        except TimeoutError:
            trouble = f"stopped after {timeout_s:g} s"
        except (OSError, ValueError) as error:  # a dead child, or no JSON
            trouble = f"the Lean server ended: {str(error).splitlines()[0]}"
        else:
            if isinstance(said, self._library.interface.LeanError):
                return [], f"the Lean server refused the file: {said.message}"
            found = [Message(one.severity, one.data, one.start_pos.line) for one in said.messages]
            return found, ""
        with suppress(OSError):
            self.close()
        return [], trouble
