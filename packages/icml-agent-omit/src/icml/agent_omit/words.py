"""A vocabulary of whole words for the format: what tiny models read and write.

A tag is a word, and so is a whole command or placeholder, so leaving an observation out takes one
token and leaves one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from icml.agent_omit.format import omit_command, placeholder
from icml.agent_omit.vault import COLOURS, DIRECTIONS, FILLERS, Vault
from icml.core.models.tiny import SPECIAL_TOKENS, word_tokenizer

__all__ = ["BOS", "Words", "vault_words"]

PAD, BOS, EOS, UNK = range(len(SPECIAL_TOKENS))
_PAIR = r"<omit(?:ted)?_tool_response_\d+></omit(?:ted)?_tool_response_\d+>"
_WORD = re.compile(rf"{_PAIR}|</?\w+>|[^\s<]+|<")


class Words:
    """Text to token ids and back, without any library.

    Example:
        >>> words = Words(["go", "north"], observations=1)
        >>> ids = words.encode("<think></think><tool_call>go north</tool_call>")
        >>> words.decode(ids)
        '<think> </think> <tool_call> go north </tool_call>'
    """

    def __init__(self, words: Iterable[str], *, observations: int) -> None:
        """Build a vocabulary.

        Args:
            words: Words of observations, thoughts and actions, without tags.
            observations: How many an episode may have.
        """
        tags = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<answer>", "</answer>"]
        for number in range(1, observations + 1):
            tags += [f"<tool_response_{number}>", f"</tool_response_{number}>"]
            tags += [omit_command(number), placeholder(number)]
        self.words = (*tags, *words)
        """In the order of their ids, which begin behind `SPECIAL_TOKENS`."""
        self._texts = (*SPECIAL_TOKENS, *self.words)
        self._ids = {word: number for number, word in enumerate(self._texts)}
        if len(self._ids) != len(self._texts):
            raise ValueError(f"words must be distinct, and none a tag, got {list(self.words)}")

    def __len__(self) -> int:
        """Return the size of the vocabulary, special tokens included."""
        return len(self._texts)

    @property
    def closing_id(self) -> int:
        """Id of ``</tool_call>``, with which an output ends."""
        return self._ids["</tool_call>"]

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text; words that are not in the vocabulary are ``<unk>``."""
        return [self._ids.get(word, UNK) for word in _WORD.findall(text)]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the words of ids with spaces between them; `parse_turn` reads such text too."""
        return " ".join(self._texts[number] for number in ids)

    def tokenizer(self) -> Any:
        """Return a ``transformers.PreTrainedTokenizerFast`` that gives the same ids.

        Its end token is ``</tool_call>``, so that generation stops there.
        """
        from tokenizers import Regex, pre_tokenizers

        tokenizer = word_tokenizer(self.words)
        split = pre_tokenizers.Split(Regex(rf"{_PAIR}|</?\w+>"), behavior="isolated")
        steps: list[Any] = [split, pre_tokenizers.WhitespaceSplit()]
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
        tokenizer.eos_token = "</tool_call>"
        return tokenizer


def vault_words(env: Vault) -> Words:
    """Return the vocabulary of a vault's observations, thoughts and actions."""
    seen, said = ("note", "box", "exit", "keypad", "boxes"), ("see", "so", "go", "press", "open")
    keys = map(str, range(10))
    known = (*seen, *said, "done", "wrong", *keys, *COLOURS, *DIRECTIONS, *FILLERS)
    return Words(known, observations=env.max_steps + 1)
