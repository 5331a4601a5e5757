"""What a scripted model says: rules tried in order. Nothing here needs inspect-ai."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import numpy as np

from icml.core.errors import UserError

_TOKEN = re.compile(r"\w+|[^\w\s]")


class Message(Protocol):
    """What a rule reads of a message; inspect's messages have it."""

    @property
    def role(self) -> str:
        """``system``, ``user``, ``assistant`` or ``tool``."""
        ...

    @property
    def text(self) -> str:
        """All text of it."""
        ...


@dataclass(frozen=True)
class Call:
    """A reply that calls a tool."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    """Said along with the call."""


Reply = str | Call
Failure = Literal["rate_limit", "timeout"]
Answer = Reply | Sequence[Reply] | Callable[[Sequence[Any], np.random.Generator], Reply]


@dataclass(frozen=True)
class Rule:
    """Answers where it applies."""

    reply: Answer
    """One reply; a list, whose items answer the first, second, … time that the rule applies in a
    conversation (round and round, shifted by the request's seed); or a function of the messages
    and a generator that follows from their content and the seeds."""
    when: str | Callable[[Sequence[Any]], bool] | None = None
    """A regular expression searched for in the last message's text, a predicate of all messages,
    or None: always."""
    fails: Sequence[Failure] = ()
    """What the first attempts at each request end with, before it is answered."""

    def __post_init__(self) -> None:
        """Refuse a list of nothing, and failures that there are not."""
        if isinstance(self.reply, Sequence) and not isinstance(self.reply, str) and not self.reply:
            raise UserError("a rule's list of replies is empty: give at least one")
        unknown = [kind for kind in self.fails if kind not in get_args(Failure)]
        if unknown:
            raise UserError(f"fails lists rate_limit and timeout, got {unknown[0]!r}")

    def applies(self, messages: Sequence[Message]) -> bool:
        """Say whether this rule answers a conversation."""
        if self.when is None:
            return True
        if callable(self.when):
            return bool(self.when(messages))
        return bool(messages) and re.search(self.when, messages[-1].text) is not None


def count_tokens(text: str) -> int:
    r"""Count tokens as scripted models do: words and single signs, ``\w+|[^\w\s]``.

    Example:
        >>> count_tokens("if (x) return -EINVAL;")
        8
    """
    return sum(1 for _ in _TOKEN.finditer(text))


def cut(text: str, tokens: int) -> str:
    """Return the part of a text that has at most so many tokens."""
    for number, token in enumerate(_TOKEN.finditer(text)):
        if number == tokens:
            return text[: token.start()]
    return text


def content(messages: Sequence[Any]) -> str:
    """Return what a model reads of messages: roles, texts and tool calls, but no random ids."""
    parts = []
    for message in messages:
        calls = [
            [call.function, call.arguments] for call in getattr(message, "tool_calls", None) or []
        ]
        parts.append([message.role, message.text, *calls])
    return json.dumps(parts, sort_keys=True, default=str)


def chosen(rules: Sequence[Rule], messages: Sequence[Message]) -> Rule:
    """Return the first rule that applies.

    Raises:
        UserError: If there is none: a script that knows no answer is wrong.
    """
    for rule in rules:
        if rule.applies(messages):
            return rule
    last = messages[-1].text if messages else ""
    raise UserError(f"no rule of the script answers {last[:200]!r}: add one, or one without `when`")


def reply_to(
    rules: Sequence[Rule], rule: Rule, messages: Sequence[Message], *, seeds: Sequence[int | None]
) -> Reply:
    """Return a rule's reply, which follows from the conversation and the seeds alone.

    Args:
        rules: All of the script.
        rule: The one that applies.
        messages: The conversation.
        seeds: Of the script and of the request.
    """
    if isinstance(rule.reply, str | Call):
        return rule.reply
    if isinstance(rule.reply, Sequence):
        said = [messages[:i] for i, each in enumerate(messages) if each.role == "assistant"]
        before = sum(next((r for r in rules if r.applies(part)), None) is rule for part in said)
        return rule.reply[(before + (seeds[-1] or 0)) % len(rule.reply)]
    told = json.dumps(list(seeds)) + content(messages)
    digest = hashlib.sha256(told.encode(errors="surrogatepass")).digest()
    return rule.reply(messages, np.random.default_rng(int.from_bytes(digest[:16])))


def read_script(path: Path) -> list[Rule]:
    """Read rules from a JSON file, for inspect's command line.

    The file is a list of ``{"when": "a regular expression", "reply": "text"}``; a reply may be
    ``{"tool": "name", "arguments": {}}`` or a list of replies; ``fails`` lists failures.

    Raises:
        UserError: If the file can't be read or isn't such a list.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read the script {path}: {error}") from error
    if not isinstance(found, list):
        raise UserError(f"the script {path} must be a list of rules")
    return [_rule(entry, f"rule {number} of {path}") for number, entry in enumerate(found, 1)]


def _rule(entry: Any, place: str) -> Rule:
    if not isinstance(entry, dict) or "reply" not in entry or entry.keys() - _RULE_KEYS:
        raise UserError(f"{place} must have a reply, and besides only `when` and `fails`")
    when, fails = entry.get("when"), entry.get("fails", [])
    try:
        re.compile(when or "")
    except (re.error, TypeError) as error:
        raise UserError(f"{place}: `when` is no regular expression: {error}") from error
    if not isinstance(fails, list):
        raise UserError(f"{place}: `fails` must be a list, got {fails!r}")
    reply = entry["reply"]
    replies = [_reply(one, place) for one in (reply if isinstance(reply, list) else [reply])]
    try:
        return Rule(replies if isinstance(reply, list) else replies[0], when=when, fails=fails)
    except UserError as error:
        raise UserError(f"{place}: {error}") from error


_RULE_KEYS = {"when", "reply", "fails"}


def _reply(value: Any, place: str) -> Reply:
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and isinstance(value.get("tool"), str):
        known = {key: value[key] for key in ("tool", "arguments", "text") if key in value}
        arguments, text = known.get("arguments", {}), known.get("text", "")
        if known == value and isinstance(arguments, dict) and isinstance(text, str):
            return Call(**known)
    raise UserError(f"{place}: a reply is a text or {{'tool': …, 'arguments': …}}, got {value!r}")
