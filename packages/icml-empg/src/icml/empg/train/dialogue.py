"""An episode as a dialogue: observations the user's turns, responses the assistant's.

What the policy sees in a turn is what it saw before, its response, and the new observation, token
for token: so an episode is one sequence, as TRL trains it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from icml.core.envs.protocol import Observation
    from icml.core.rl.rollout import History

_MARK = "\N{SYMBOL FOR UNIT SEPARATOR}answer\N{SYMBOL FOR UNIT SEPARATOR}"


class Dialogue:
    """Renders the history of an episode by the tokenizer's chat template, or plainly without one.

    Args:
        tokenizer: Of transformers.
        instructions: What stands before the first observation.
    """

    def __init__(self, tokenizer: Any, instructions: str) -> None:
        """Remember both."""
        self.tokenizer = tokenizer
        self.instructions = instructions

    def render(self, history: History) -> list[int]:
        """Return the token ids of the next turn's prompt."""
        ids = self._ids(self._opening(history.observations[0]))
        turns = zip(history.responses, history.observations[1:], strict=True)
        for response, observation in turns:
            ids = ids + response + self._ids(self._between(response, observation.text))
        return ids

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def _opening(self, first: Observation) -> str:
        parts = [self.instructions]
        if first.admissible_actions:
            parts.append(f"Actions: {', '.join(first.admissible_actions)}.")
        if first.task:
            parts.append(f"Task: {first.task}.")
        text = "\n".join([*parts, first.text])
        if self.tokenizer.chat_template is None:
            return f"{text}\n> "
        return self._chat([{"role": "user", "content": text}])

    def _between(self, response: list[int], observation: str) -> str:
        """Return what stands between a response and the next one."""
        if self.tokenizer.chat_template is None:
            return f"\n{observation}\n> "
        text = self._chat(
            [
                {"role": "user", "content": "?"},
                {"role": "assistant", "content": _MARK},
                {"role": "user", "content": observation},
            ]
        ).split(_MARK)[1]
        if response[-1] == self.tokenizer.eos_token_id:  # the template closes the turn with it
            return text.removeprefix(self.tokenizer.eos_token)
        return text

    def _chat(self, messages: list[dict[str, str]]) -> str:
        return self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )


def parse_action(text: str) -> str:
    r"""Return the action of a response: its last line, after ``Action:`` where there is one.

    Raises:
        ValueError: If the response is empty.

    Example:
        >>> parse_action("The ball is ahead.\nAction: Go forward.")
        'go forward'
    """
    lines = text.strip().splitlines()
    if not lines:
        raise ValueError("the response is empty")
    return lines[-1].lower().rpartition("action:")[2].strip(" .!\"'`*<>")
