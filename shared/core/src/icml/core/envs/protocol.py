"""The protocol of text environments: every agent method of ours acts through it.

An environment may also offer ``expert_actions() -> list[str]``: what a good player would do from
here to the episode's end. `icml.core.testing.text_env.check_text_env` tries all these rules on any
environment.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

__all__ = ["EnvStateError", "Observation", "StepResult", "TextEnv"]


class EnvStateError(RuntimeError):
    """A step was asked for before ``reset``, after the episode's end or after ``close``."""


class Observation(NamedTuple):
    """What the agent is told."""

    text: str
    """What it perceives now."""
    admissible_actions: tuple[str, ...] | None = None
    """The actions it may take; None: any text. Empty once the episode is over."""
    task: str | None = None
    """Its instruction, constant within an episode."""


class StepResult(NamedTuple):
    """What an action led to."""

    observation: Observation
    reward: float
    done: bool
    """Whether the episode is over, by success, failure or the limit on steps."""
    info: dict[str, Any]
    """``success`` (bool), ``truncated`` (bool: ended by the limit on steps), ``steps`` (int: taken
    so far); ``invalid_action`` (True) where the action was not understood."""


@runtime_checkable
class TextEnv(Protocol):
    """One episode at a time of a task that is seen and acted on in text.

    Instances are not safe to share between threads.
    """

    id: str
    """Name that tells environments apart, such as ``babyai/GoToLocal``."""
    max_steps: int
    """An episode is over after this many steps, if not before."""

    def reset(self, seed: int) -> Observation:
        """Begin the episode that ``seed`` determines, byte for byte and in any process."""
        ...

    def step(self, action: str) -> StepResult:
        """Act.

        An action that is not understood or not admissible, the empty one always, is no exception:
        it is answered in text with reward 0 and ``info["invalid_action"]``, and counts as a step.

        Raises:
            EnvStateError: Before ``reset``, after the episode's end, and after ``close``.
        """
        ...

    def close(self) -> None:
        """Free what the environment holds; a second call does nothing."""
        ...
