"""A kernel behind a Kimina Lean server: one plain HTTP request a check."""

from __future__ import annotations

import time
from typing import Any

from icml.core.errors import UserError, require
from icml.wzllm.kernel.judge import STANDARD_AXIOMS, Message, Question, ask, judge, refused
from icml.wzllm.kernel.protocol import Verdict
from icml.wzllm.kernel.scan import Refused

MATHLIB_HEADER = "import Mathlib\nset_option autoImplicit false"
"""First lines of files for a Lean that has Mathlib."""


GRACE_S = 5.0
"""What the server gets to say that it stopped Lean (s); ours."""


class KiminaKernel:
    """Checks proofs on a server that speaks Kimina's ``POST /api/check``.

    Example:
        >>> kernel = KiminaKernel("http://127.0.0.1:8000")
        >>> kernel.check("theorem two : 1 + 1 = 2 := rfl", "two", "1 + 1 = 2", 60)  # doctest: +SKIP
    """

    backend = "kimina"

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        header: str = MATHLIB_HEADER,
        trusted_axioms: tuple[str, ...] = STANDARD_AXIOMS,
    ) -> None:
        """Name the server.

        Args:
            url: Address of the server, without the path.
            api_key: Sent as a bearer token, if the server wants one.
            header: First lines of every file; the server's Lean must have what they import.
            trusted_axioms: Axioms that a proof may rest on.

        Raises:
            MissingExtra: If httpx is not installed.
        """
        self._httpx = require("httpx", extra="icml-wzllm[kimina]")
        self._url = url.rstrip("/") + "/api/check"
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._header = header
        self._trusted = trusted_axioms

    def check(self, lean: str, theorem: str, statement: str, timeout_s: float) -> Verdict:
        """Say whether ``lean`` proves ``statement``: see :class:`Kernel`.

        Raises:
            UserError: If the server isn't there or doesn't answer in its language.
        """
        try:
            question = ask(lean, theorem, statement, header=self._header)
        except Refused as error:
            return refused(error, backend=self.backend)
        started = time.monotonic()
        answer = self._post(question, timeout_s)
        error = "" if answer is None else _error(answer)
        return judge(
            question,
            [] if answer is None else _messages(answer),
            trouble=f"no answer within {timeout_s:g} s" if answer is None else error,
            trusted=self._trusted,
            seconds=time.monotonic() - started,
            max_rss_mb=None,
            backend=self.backend,
        )

    def _post(self, question: Question, timeout_s: float) -> dict[str, Any] | None:
        """Return what the server said of the file; None if it took too long."""
        snippet = {"id": question.recheck, "code": question.text}
        body = {"snippets": [snippet], "timeout": max(1, int(timeout_s)), "reuse": False}
        try:
            reply = self._httpx.post(
                self._url, json=body, headers=self._headers, timeout=timeout_s + GRACE_S
            )
            reply.raise_for_status()
            (answer,) = reply.json()["results"]
            if answer["id"] != question.recheck or not isinstance(answer, dict):
                raise ValueError("the answer is to another question")
            return answer
        except self._httpx.TimeoutException:
            return None
        except self._httpx.HTTPError as error:
            raise UserError(f"the Lean server {self._url} doesn't answer: {error}") from error
        except (ValueError, TypeError, KeyError) as error:
            raise UserError(
                f"{self._url} doesn't answer as a Kimina Lean server does: {error}"
            ) from error


def _error(answer: dict[str, Any]) -> str:
    """Return what went wrong outside of the file itself."""
    return answer.get("error") or (answer.get("response") or {}).get("message") or ""


def _messages(answer: dict[str, Any]) -> list[Message]:
    said = (answer.get("response") or {}).get("messages") or []
    return [Message(one["severity"], one["data"], one["pos"]["line"]) for one in said]
