"""BabyAI for the format: thoughts for its expert, and the vocabulary of a small clone."""

from __future__ import annotations

from icml.agent_omit.words import Words
from icml.core.envs.babyai import WORDS

__all__ = ["babyai_words", "expert_thought"]


def expert_thought(task: str, observation: str, action: str) -> str:
    r"""Return what minigrid's bot might have thought: it plans without a word.

    Example:
        >>> expert_thought("go to a red ball", "a red ball 2 steps ahead\nwall ahead", "go forward")
        'you go to a red ball , that is a red ball 2 steps ahead , then go forward'
    """
    first = observation.partition("\n")[0]
    return f"you {task} , that is {first} , then {action}"


def babyai_words(max_turns: int) -> Words:
    """Return the vocabulary of tasks, observations, thoughts and actions of BabyAI.

    Args:
        max_turns: Longest episode, in turns.
    """
    return Words(WORDS, observations=max_turns + 1)
