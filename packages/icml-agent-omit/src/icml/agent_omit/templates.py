"""Chat templates of real models: which of them can carry an edited history, and the history itself.

A chat template renders a whole history anew in every turn, and some change what the agent wrote:
they strip past thoughts, rewrite them, or open the thought themselves. Here the template is asked
once, for what stands between two messages; after that the history is kept as token segments, one a
message. Outputs are the ids that were drawn, and only an observation that is left out is encoded
again. So what the model saw is what the trainer scores, whatever the template does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from icml.agent_omit.context import OmitContext
from icml.agent_omit.format import INSTRUCTIONS, action_of
from icml.agent_omit.transcript import OmitTranscript
from icml.core.errors import UserError

__all__ = ["ChatTranscript", "TemplateReport", "chat_transcript", "inspect_template"]

Treatment = Literal["keeps", "rewrites", "strips"]

# Words that no template has, without white space, which templates trim.
_USERS = ("Uq7x", "Vq7x", "Wq7x")
_SYSTEM, _THOUGHT, _ACTION, _MARK = "Sq7x", "Tq7x", "Aq7x", "{text}"
_OPENED = re.compile(r"<think>\s*\Z")


class TemplateReport(NamedTuple):
    """What a chat template does to an agent's outputs."""

    thoughts: Treatment
    """What becomes of a past thought."""
    empty_thoughts: Treatment
    """What becomes of past thought tags with nothing in them."""
    opened: str
    """What the template writes before the agent does, such as ``<think>`` and a line's end: it
    counts as prompt, and the agent's output lacks it. Empty for most."""
    opening: str
    """The first message, instructions and all, up to the agent's turn; ``{text}`` stands for what
    the message says."""
    following: str
    """From the end of the agent's turn to its next one, with ``{text}`` for the message between."""

    @property
    def changes(self) -> str:
        """What the template would do to thoughts, in a few words; empty if nothing."""
        found = []
        if self.thoughts != "keeps":
            found.append(f"{self.thoughts} past thoughts")
        elif self.empty_thoughts != "keeps":
            found.append(f"{self.empty_thoughts} empty thoughts")
        if self.opened:
            found.append("opens the thought itself")
        return " and ".join(found)


def inspect_template(tokenizer: Any, *, instructions: str = INSTRUCTIONS) -> TemplateReport:
    """Try a tokenizer's chat template on a small history.

    Args:
        tokenizer: Of transformers.
        instructions: What the agent is told first, as the system's message; at the head of the
            first message where the template has no system.

    Raises:
        UserError: If there is no template, or it loses, repeats or reorders messages.
    """
    if not tokenizer.chat_template:
        raise UserError(
            "the tokenizer has no chat template: set tokenizer.chat_template, or use OmitTranscript"
        )
    system = _takes_system(tokenizer)
    plain = _render(tokenizer, _ACTION, system=system)
    first, second, third = _USERS
    words = [first, _ACTION, second, _ACTION, third]
    before, _, closing, *_, generation = _between(plain, words)
    opened = _OPENED.search(generation)
    written = generation[: opened.start()] if opened else generation
    full, empty = (f"<think>{thought}</think>{_ACTION}" for thought in (_THOUGHT, ""))
    with_full, with_empty = (_render(tokenizer, said, system=system) for said in (full, empty))
    rewritten = re.search(rf"<think>\s*</think>\s*{_ACTION}", with_empty)
    head = before.replace(_SYSTEM, instructions) if system else f"{before}{instructions}\n"
    return TemplateReport(
        thoughts=_treatment(written + full in with_full, _THOUGHT in with_full),
        empty_thoughts=_treatment(written + empty in with_empty, rewritten is not None),
        opened=opened[0] if opened else "",
        opening=head + _MARK + generation,
        following=closing + _MARK + generation,
    )


def _treatment(verbatim: bool, there: bool) -> Treatment:
    return "keeps" if verbatim else "rewrites" if there else "strips"


def _takes_system(tokenizer: Any) -> bool:
    """Return whether a system's message is rendered; some templates raise, some drop it."""
    from jinja2 import TemplateError

    try:
        return _render(tokenizer, _ACTION, system=True).count(_SYSTEM) == 1
    except TemplateError:
        return False


def _render(tokenizer: Any, output: str, *, system: bool) -> str:
    first, second, third = _USERS
    said = {"role": "assistant", "content": output}
    head = [{"role": "system", "content": _SYSTEM}] if system else []
    asked = [{"role": "user", "content": text} for text in (first, second, third)]
    messages = [*head, asked[0], said, asked[1], said, asked[2]]
    return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)


def _between(text: str, words: Sequence[str]) -> list[str]:
    """Return what stands before each word, and after the last.

    Raises:
        UserError: If the words aren't in the text in this order and nowhere else.
    """
    pattern = "|".join(sorted(set(words)))
    if re.findall(pattern, text) != list(words):
        raise UserError("the chat template loses, repeats or reorders messages: it can't be used")
    return re.split(pattern, text)


@dataclass(frozen=True)
class ChatTranscript(OmitTranscript):
    """Renders an episode for a chat model; `chat_transcript` makes one."""

    opened: str = ""
    """What the template writes before the agent does."""
    eos_id: int | None = None
    """Token that ends the agent's turn, where the agent draws it itself."""

    def prompt(
        self, context: OmitContext, responses: Sequence[Sequence[int]], omitted: frozenset[int]
    ) -> list[int]:
        """Return a history's token ids; see `OmitTranscript.prompt`."""
        ids = list(self.begin)
        for number, text in enumerate(context.observations, 1):
            message = self.message(context, number, text, number in omitted)
            ended = bool(ids) and number > 1 and ids[-1] == self.eos_id == message[0]
            ids += message[1:] if ended else message
            if number <= len(responses):
                ids += responses[number - 1]
        return ids

    def parse(self, text: str) -> str:
        """Return what the environment is told; the ``parse`` of `icml.core.rl.rollout.collect`.

        Raises:
            ValueError: If the output has no action.
        """
        return action_of(self.opened + text)


def chat_transcript(
    tokenizer: Any,
    *,
    instructions: str = INSTRUCTIONS,
    on_change: Literal["refuse", "account"] = "refuse",
) -> ChatTranscript:
    """Return what renders episodes for a chat model.

    Args:
        tokenizer: Of transformers, with its chat template.
        instructions: What the agent is told first.
        on_change: What to do about a template that changes thoughts. ``refuse``; or ``account``:
            the history keeps what the agent wrote, as training needs it, which is then not what a
            server shows that renders the template itself; a thought that the template opens counts
            as prompt, and is put back before the output is parsed.

    Raises:
        UserError: If the template changes thoughts and isn't to be accounted for, or can't be used
            at all.
    """
    report = inspect_template(tokenizer, instructions=instructions)
    if report.changes and on_change == "refuse":
        raise UserError(
            f"the chat template {report.changes}: with it the agent would not see what it wrote. "
            "Take a template that keeps thoughts, or on_change='account' to keep the history as "
            "it was written"
        )
    eos = tokenizer.eos_token_id

    def encode(text: str) -> list[int]:
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    def decode(ids: Sequence[int]) -> str:
        written = list(ids[:-1]) if ids and ids[-1] == eos else list(ids)
        return report.opened + tokenizer.decode(written)

    return ChatTranscript(
        encode,
        decode,
        opening=report.opening,
        following=report.following,
        special=tuple(tokenizer.all_special_tokens),
        opened=report.opened,
        eos_id=eos,
    )
