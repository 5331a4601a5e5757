"""The format in which an agent thinks, leaves out and acts, and its parser.

A turn of the agent is ``<think>...</think>``, then any number of
``<omit_tool_response_N></omit_tool_response_N>``, then ``<tool_call>action</tool_call>`` or, at the
end of the task, ``<answer>...</answer>``. What the environment says arrives as
``<tool_response_N>...</tool_response_N>``, N counted from 1; once left out, all that remains of it
is ``<omitted_tool_response_N></omitted_tool_response_N>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

__all__ = [
    "INSTRUCTIONS",
    "Turn",
    "action_of",
    "escape",
    "observation_message",
    "omit_command",
    "parse_turn",
    "placeholder",
    "write_turn",
]

INSTRUCTIONS = (
    "Solve the task turn by turn. In each turn write your thought between <think> and </think>, "
    "or leave it empty where you need none. Tool responses are numbered: write "
    "<omit_tool_response_N></omit_tool_response_N> after the thought to drop response N from all "
    "later turns. Then give one action between <tool_call> and </tool_call>, or the result between "
    "<answer> and </answer>."
)
"""What an agent that knows nothing of the format is told."""

_BLOCK = re.compile(r"</?(?:tool_call|answer|omit_tool_response_[0-9]{1,9})>")
# `int` refuses longer numbers only at thousands of digits; no episode has a billion observations.
_NUMBER = re.compile(r"[0-9]+")
_OURS = re.compile(
    r"<(?=/?(?:think|tool_call|answer|(?:omit_|omitted_)?tool_response_[0-9]*)\s*/?>)",
    re.IGNORECASE,
)


class Turn(NamedTuple):
    """What one output of the agent says."""

    thought: str
    """Without its tags and without white space around it."""
    thought_omitted: bool
    """Whether the tags are there and hold white space at most."""
    omit: tuple[int, ...]
    """Observations it asks to leave out, in order, each once; whether they exist isn't known."""
    action: str | None
    """What is in its one tool call."""
    answer: str | None
    """What is in its one answer."""
    errors: tuple[str, ...]
    """What is malformed, a sentence each."""


def parse_turn(text: str) -> Turn:
    """Read one output of the agent; malformed text is described in ``errors``, never raised.

    **Differs from the authors' code:** the numbers of an opening and a closing tag must agree, a
    command that comes twice counts once, and commands inside a thought or after the call are none.

    Example:
        >>> said = "<omit_tool_response_2></omit_tool_response_2><tool_call>go north</tool_call>"
        >>> parse_turn("<think></think>" + said)
        Turn(thought='', thought_omitted=True, omit=(2,), action='go north', answer=None, errors=())
    """
    errors: list[str] = []
    thought, rest = _split_thought(text, errors)
    omit, calls, answers = _blocks(rest, errors)
    if len(calls) + len(answers) != 1:
        errors.append(f"one tool call or answer is wanted, got {len(calls)} and {len(answers)}")
        calls, answers = [], []
    if calls == [""]:
        errors.append("the tool call is empty")
        calls = []
    return Turn(
        thought=thought or "",
        thought_omitted=thought == "",
        omit=tuple(dict.fromkeys(omit)),
        action=calls[0] if calls else None,
        answer=answers[0] if answers else None,
        errors=tuple(errors),
    )


def action_of(text: str) -> str:
    """Return what an environment is told: the action, or the answer that ends the task.

    Raises:
        ValueError: If the output has neither.

    Example:
        >>> action_of("<think>the door is ahead</think><tool_call>open</tool_call>")
        'open'
    """
    turn = parse_turn(text)
    said = turn.answer if turn.action is None else turn.action
    if said is None:
        raise ValueError("; ".join(turn.errors))
    return said


def _split_thought(text: str, errors: list[str]) -> tuple[str | None, str]:
    """Return the thought, None where there is none, and what follows it."""
    before, opening, behind = text.partition("<think>")
    if not opening:
        errors.append("there is no <think>")
        return None, text
    if before.strip():
        errors.append("there is text before the thought")
    thought, closing, rest = behind.partition("</think>")
    if not closing:
        errors.append("the thought isn't closed")
        return thought.strip() or None, ""
    if "<think>" in rest or "</think>" in rest:
        errors.append("there is more than one thought")
    return thought.strip(), rest


def _blocks(rest: str, errors: list[str]) -> tuple[list[int], list[str], list[str]]:
    """Read commands, calls and answers."""
    omit: list[int] = []
    said: dict[str, list[str]] = {"tool_call": [], "answer": []}
    for name, inside in _pairs(rest, errors):
        if name in said:
            said[name].append(inside)
        elif said["tool_call"] or said["answer"]:
            errors.append(f"<{name}> comes after the tool call")
        elif inside:
            errors.append(f"<{name}> isn't empty")
        else:
            omit += _numbers(name)
    return omit, said["tool_call"], said["answer"]


def _pairs(rest: str, errors: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and the content of each tag that is closed, in time linear in the length.

    A call or an answer that holds another tag is none, but was one attempt: its content is empty.
    """
    opened: re.Match[str] | None = None
    end = 0
    for tag in _BLOCK.finditer(rest):
        name, closes = tag[0].strip("</>"), tag[0].startswith("</")
        between = rest[end : tag.start()].strip()
        end = tag.end()
        if opened is None:
            if between:
                errors.append("there is text between the tags")
            if closes:
                errors.append(f"{tag[0]} closes nothing")
            opened = None if closes else tag
            continue
        wanted = opened[0].strip("<>")
        if closes and name == wanted:
            yield name, between
            opened = None
            continue
        errors.append(f"{opened[0]} is followed by {tag[0]}")
        opened = None if closes else tag
        if wanted in ("tool_call", "answer"):
            yield wanted, ""
    if opened is not None:
        errors.append(f"{opened[0]} isn't closed")
    elif rest[end:].strip():
        errors.append("there is text after the last tag")


def _numbers(name: str) -> list[int]:
    return [int(number) for number in _NUMBER.findall(name)]


def write_turn(
    thought: str, omit: Iterable[int] = (), *, action: str | None = None, answer: str | None = None
) -> str:
    """Write the output that `parse_turn` reads back.

    Raises:
        ValueError: Unless there is exactly one of ``action`` and ``answer``.

    Example:
        >>> write_turn("", action="go north")
        '<think></think><tool_call>go north</tool_call>'
    """
    if (action is None) == (answer is None):
        raise ValueError(f"give an action or an answer, got {action=} and {answer=}")
    commands = "".join(map(omit_command, omit))
    tag, said = ("tool_call", action) if answer is None else ("answer", answer)
    return f"<think>{thought}</think>{commands}<{tag}>{said}</{tag}>"


def omit_command(number: int) -> str:
    """Return the command that leaves an observation out."""
    return f"<omit_tool_response_{number}></omit_tool_response_{number}>"


def observation_message(number: int, text: str, *, special: Sequence[str] = ()) -> str:
    """Return an observation as the agent sees it, with tags inside it escaped.

    Args:
        number: Its number, from 1.
        text: What the environment said; it is not trusted.
        special: Further strings that must not come through, such as a tokenizer's special tokens.
    """
    inside = escape(text, special=special)
    return f"<tool_response_{number}>{inside}</tool_response_{number}>"


def placeholder(number: int) -> str:
    """Return what is left of an observation that was left out: one line."""
    return f"<omitted_tool_response_{number}></omitted_tool_response_{number}>"


def escape(text: str, *, special: Sequence[str] = ()) -> str:
    """Take the power from tags in foreign text: an environment must not omit, call or answer.

    The ``<`` of each tag of the format becomes ``&lt;``; a special string gets a space behind its
    first character. Text without either stays as it is.

    Example:
        >>> escape("a < b, <omit_tool_response_1></omit_tool_response_1>")
        'a < b, &lt;omit_tool_response_1>&lt;/omit_tool_response_1>'
    """
    for token in special:
        if len(token) > 1:
            text = text.replace(token, f"{token[0]} {token[1:]}")
    return _OURS.sub("&lt;", text)
