"""The history that the agent sees: what it left out is gone from it, its own words stay (Sec. 2).

The context of turn t is the task, the observations 1 to t or their placeholders, and the outputs
of the turns before. A command of turn t takes effect from turn t + 1 on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypedDict

from icml.agent_omit.format import Turn, observation_message, parse_turn, placeholder

__all__ = ["Message", "OmitContext", "OmitResult", "apply_commands", "strip_thought"]


class Message(TypedDict):
    """A message as chat models take it."""

    role: str
    """``system``, ``user`` or ``assistant``."""
    content: str


class OmitResult(NamedTuple):
    """What became of an output's commands."""

    turn: Turn
    omitted: tuple[int, ...]
    """Observations that this output left out."""
    bad: tuple[int, ...]
    """Numbers that it named in vain: no such observation yet, or left out before."""


def apply_commands(turn: Turn, *, observations: int, omitted: frozenset[int]) -> OmitResult:
    """Decide which commands of an output take effect.

    Args:
        turn: The parsed output.
        observations: How many there have been; the newest may be left out too.
        omitted: Those left out before.
    """
    good = [n for n in turn.omit if 1 <= n <= observations and n not in omitted]
    return OmitResult(turn, tuple(good), tuple(n for n in turn.omit if n not in good))


def strip_thought(output: str) -> str:
    """Return an output with its thought emptied; one without closed tags stays as it is.

    Example:
        >>> strip_thought("<think>ahead</think><tool_call>open</tool_call>")
        '<think></think><tool_call>open</tool_call>'
    """
    before, opening, behind = output.partition("<think>")
    _, closing, rest = behind.partition("</think>")
    return f"{before}{opening}{closing}{rest}" if closing else output


class OmitContext:
    r"""One episode's history, edited as the agent asks.

    The task and the first observation share a message, since chat templates want roles to
    alternate; the task can't be left out.

    Example:
        >>> context = OmitContext("Open the door.")
        >>> context.add_observation("a door ahead")
        1
        >>> go = "<think></think><omit_tool_response_1></omit_tool_response_1>"
        >>> context.add_output(go + "<tool_call>go</tool_call>").omitted
        (1,)
        >>> context.add_observation("a door here")
        2
        >>> context.messages()[0]["content"]
        'Open the door.\n<omitted_tool_response_1></omitted_tool_response_1>'
    """

    def __init__(
        self,
        task: str,
        *,
        system: str | None = None,
        drop_past_thoughts: bool = False,
        special: Sequence[str] = (),
    ) -> None:
        """Begin an episode.

        Args:
            task: The first message's text, before the first observation.
            system: A system message, if there is one.
            drop_past_thoughts: Show earlier outputs with their thoughts emptied, as some chat
                templates do.
            special: Strings that observations must not bring in, a tokenizer's special tokens say.
        """
        self.task, self.system = task, system
        self.drop_past_thoughts = drop_past_thoughts
        self.special = tuple(special)
        self.observations: list[str] = []
        self.outputs: list[str] = []
        self._omitted: frozenset[int] = frozenset()

    @property
    def omitted(self) -> frozenset[int]:
        """Numbers of the observations that are left out."""
        return self._omitted

    def add_observation(self, text: str) -> int:
        """Take in what the environment said, and return its number.

        Raises:
            ValueError: If the observation before has not been answered.
        """
        if len(self.observations) > len(self.outputs):
            raise ValueError(f"observation {len(self.observations)} has no output yet")
        self.observations.append(text)
        return len(self.observations)

    def add_output(self, text: str) -> OmitResult:
        """Take in the agent's output and do what its commands say.

        Raises:
            ValueError: If there is no new observation that it answers.
        """
        if len(self.outputs) >= len(self.observations):
            raise ValueError("an output answers an observation: add that first")
        self.outputs.append(text)
        seen = len(self.observations)
        result = apply_commands(parse_turn(text), observations=seen, omitted=self._omitted)
        self._omitted |= {*result.omitted}
        return result

    def omit(self, *numbers: int) -> None:
        """Leave observations out by a rule's decision; the agent is not asked.

        Raises:
            ValueError: If there is no such observation.
        """
        for number in numbers:
            if not 1 <= number <= len(self.observations):
                raise ValueError(
                    f"there are observations 1 to {len(self.observations)}, got {number}"
                )
        self._omitted |= {*numbers}

    def messages(self) -> list[Message]:
        """Return the history as the agent is to see it now."""
        return self._messages(self._omitted, self.drop_past_thoughts)

    def full_messages(self) -> list[Message]:
        """Return the history with nothing left out."""
        return self._messages(frozenset(), False)

    def _messages(self, omitted: frozenset[int], drop_thoughts: bool) -> list[Message]:
        found: list[Message] = []
        if self.system is not None:
            found.append({"role": "system", "content": self.system})
        for number, text in enumerate(self.observations, 1):
            content = self.shown(number, text, number in omitted)
            found.append({"role": "user", "content": content})
            if number <= len(self.outputs):
                output = self.outputs[number - 1]
                content = strip_thought(output) if drop_thoughts else output
                found.append({"role": "assistant", "content": content})
        return found

    def shown(self, number: int, text: str, omitted: bool) -> str:
        """Return the message in which an observation arrives, or what is left of it."""
        shown = (
            placeholder(number)
            if omitted
            else observation_message(number, text, special=self.special)
        )
        return f"{self.task}\n{shown}" if number == 1 and self.task else shown
