"""From the messages of an agent's log to the sizes of its turns.

Messages are as OpenAI's chat interface has them, tool calls included; the parts that Anthropic's
has (``tool_use``, ``tool_result``, ``thinking``) and the ``reasoning_content`` of others are read
too. What an agent wrote before it acted is its thought:

- a ``<think>`` block;
- the text before a line that begins with ``Action:``;
- the text beside tool calls;
- reasoning in a field of its own, which is taken to be shown to no later turn.

Everything before the agent's first message is the task. After it, what tools said is an
observation; in a log without tools, the user's messages are. Where there are tools, a user's
message is an instruction, which no rule leaves out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from icml.agent_omit.format import placeholder
from icml.agent_omit.ledger import TurnSizes

__all__ = ["FRAME", "BadEpisode", "LoggedEpisode", "episode_of", "message_text"]

FRAME = 4  # ours: tokens that chat templates spend on role and ends of a message, about
_INSTRUCTIONS = ("system", "developer", "user")
_TOOLS = ("tool", "function")
_ACTION = re.compile(r"^Action:", re.MULTILINE)

Count = Callable[[str], int]
"""Tokens of a text."""


class BadEpisode(ValueError):
    """Messages that are no episode of an agent; the text quotes nothing from the log."""


class LoggedEpisode(NamedTuple):
    """An episode as the ledger takes it."""

    task: int
    """Tokens before the agent's first message."""
    turns: tuple[TurnSizes, ...]
    pictures: int = 0
    """Parts that are not text; they count as nothing."""


@dataclass
class _Text:
    """What a message says, sorted."""

    said: str = ""
    private: str = ""
    calls: str = ""
    results: str = ""
    pictures: int = 0


def episode_of(messages: Sequence[Any], count: Count) -> LoggedEpisode:
    """Read an episode.

    Args:
        messages: Mappings with a ``role``.
        count: Tokens of a text.

    Raises:
        BadEpisode: If a message is none, a role is unknown, or the agent says nothing.

    Example:
        >>> log = [
        ...     {"role": "user", "content": "What is in a.txt?"},
        ...     {"role": "assistant", "content": "I look.", "tool_calls": [
        ...         {"function": {"name": "read", "arguments": "a.txt"}}]},
        ...     {"role": "tool", "content": "one two three"},
        ...     {"role": "assistant", "content": "Three words."},
        ... ]
        >>> episode_of(log, lambda text: len(text.split())).turns[1].observation - FRAME
        3
    """
    read = [(_role(message), _read(message)) for message in messages]
    has_tools = any(role in _TOOLS or text.results for role, text in read)
    task, turns, pictures = 0, [], sum(text.pictures for _, text in read)
    observation, kept = 0, 0
    for role, text in read:
        if role == "assistant":
            turns.append(_turn(text, observation, kept, len(turns) + 1, count))
            observation = kept = 0
            continue
        seen, instructions = _heard(role, text, count, has_tools=has_tools)
        if turns:
            observation, kept = observation + seen, kept + instructions
        else:
            task += seen + instructions
    if not turns:
        raise BadEpisode("no message is the agent's (role assistant)")
    return LoggedEpisode(task, tuple(turns), pictures)


def _heard(role: str, text: _Text, count: Count, *, has_tools: bool) -> tuple[int, int]:
    """Return the tokens of what may be left out, and of what stays, in a message to the agent."""
    if role in _TOOLS:
        return count(text.said + text.results) + FRAME, 0
    if role == "user" and not has_tools:
        return count(text.said) + FRAME, 0
    seen = count(text.results) + FRAME if text.results else 0
    return seen, count(text.said) + FRAME if text.said or not seen else 0


def _turn(text: _Text, observation: int, kept: int, number: int, count: Count) -> TurnSizes:
    thought, action = _split(text)
    stays = count(placeholder(number)) + FRAME if observation else 0
    return TurnSizes(
        observation=observation + kept,
        thought=count(thought),
        action=count(action) + FRAME,
        placeholder=stays + kept,
        private=count(text.private),
    )


def _split(text: _Text) -> tuple[str, str]:
    """Return an output's visible thought and the rest of it."""
    before, opening, behind = text.said.partition("<think>")
    inside, closing, rest = behind.partition("</think>")
    if closing:
        return inside, f"{before}{opening}{closing}{rest}{text.calls}"
    if text.calls:
        return text.said, text.calls
    acting = _ACTION.search(text.said)
    if acting is None:
        return "", text.said
    return text.said[: acting.start()], text.said[acting.start() :]


def _role(message: Any) -> str:
    if not isinstance(message, Mapping):
        raise BadEpisode("a message is no JSON object")
    role = message.get("role")
    if role != "assistant" and role not in _INSTRUCTIONS and role not in _TOOLS:
        known = ", ".join((*_INSTRUCTIONS, "assistant", *_TOOLS))
        raise BadEpisode(f"a message's role is none of {known}")
    return role


def message_text(message: Mapping[str, Any]) -> str:
    """Return all the text of a message; two messages with the same one say the same."""
    text = _read(message)
    return "\n".join((text.said, text.calls, text.results))


def _read(message: Mapping[str, Any]) -> _Text:
    text = _Text()
    _read_content(message.get("content"), text)
    for name in ("reasoning_content", "reasoning"):
        if isinstance(message.get(name), str):
            text.private += message[name]
            break
    calls = message.get("tool_calls") or ()
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        raise BadEpisode("a message's tool_calls are no list")
    for call in (*calls, *([message["function_call"]] if message.get("function_call") else [])):
        if not isinstance(call, Mapping):
            raise BadEpisode("a tool call is no JSON object")
        inner = call.get("function", call)
        called = inner if isinstance(inner, Mapping) else call
        name = inner if isinstance(inner, str) else called.get("name", "")
        text.calls += f"{_plain(name)} {_plain(called.get('arguments', ''))}\n"
    return text


def _read_content(content: Any, text: _Text) -> None:
    if content is None:
        return
    if isinstance(content, str):
        text.said += content
        return
    if not isinstance(content, Sequence):
        raise BadEpisode("a message's content is neither text nor a list of parts")
    for part in content:
        _read_part(part, text)


def _read_part(part: Any, text: _Text) -> None:
    if isinstance(part, str):
        text.said += part
        return
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(kind, str):
        raise BadEpisode("a part of a message's content has no type")
    if kind in ("text", "input_text", "output_text", "refusal"):
        text.said += _plain(part.get("text", part.get("refusal", "")))
    elif kind in ("thinking", "reasoning"):
        text.private += _plain(part.get("thinking", part.get("reasoning", part.get("text", ""))))
    elif kind == "tool_use":
        text.calls += f"{_plain(part.get('name', ''))} {_plain(part.get('input', ''))}\n"
    elif kind == "tool_result":
        inside = _Text()
        _read_content(part.get("content"), inside)
        text.results += inside.said
        text.pictures += inside.pictures
    else:
        text.pictures += 1


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
