"""``icml agent-omit replay``: what fixed rules of omission would have saved on agents' logs.

The prompts of every logged episode are counted again under each rule. That says what omission
saves if the agent acts as it did; whether it still would is not in a log.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from icml.agent_omit.ledger import Ledger, ledger_of
from icml.agent_omit.logs import Found, read_log
from icml.agent_omit.messages import BadEpisode, LoggedEpisode, episode_of
from icml.agent_omit.rules import Both, KeepLast, NoThought, OmissionRule, Random, omissions
from icml.core.errors import UserError

__all__ = ["Replay", "Sums", "count_words", "replay", "standard_rules", "token_counter"]

_WORD = re.compile(r"\w+|[^\w\s]")
_FULL = "nothing left out"


def count_words(text: str) -> int:
    """Count words and marks: a stand-in for tokens where no tokenizer is named.

    Example:
        >>> count_words("go to (1, 2)")
        7
    """
    return sum(1 for _ in _WORD.finditer(text))


def token_counter(source: str | None) -> Callable[[str], int]:
    """Return what counts a text's tokens.

    Args:
        source: A ``tokenizer.json``, a folder or a hub id, ``pkg:smollm2``; None counts words and
            marks.

    Raises:
        UserError: If there is no such tokenizer.
    """
    if source is None:
        return count_words
    from icml.agent_omit.tokenizers import load_encoder

    encode = load_encoder(source)
    return lambda text: len(encode(text))


def standard_rules(keep_last: int = 2) -> list[OmissionRule]:
    """Return the rules that ``replay`` tries."""
    middle, last = NoThought(middle=True), KeepLast(keep_last)
    return [middle, NoThought(), last, Both(middle, last), Random(0.5)]


@dataclass
class Sums:
    """Tokens of all episodes under one rule."""

    prompt: int = 0
    output: int = 0
    final: int = 0
    turns: list[int] = field(default_factory=list)
    """Prompt and output of the first turn, the second, ..., over the episodes that have it."""
    split: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """Prompts and outputs."""
        return self.prompt + self.output

    def add(self, ledger: Ledger) -> None:
        """Add an episode."""
        self.prompt += ledger.prompt
        self.output += ledger.output
        self.final += ledger.final
        self.split.update(ledger.split())
        spent = [turn.prompt + turn.output for turn in ledger.turns]
        self.turns = [a + b for a, b in zip_longest(self.turns, spent, fillvalue=0)]


@dataclass
class Replay:
    """What was found; its `lines` are what the command prints."""

    sums: dict[str, Sums]
    """By rule, the first without any omission."""
    episodes: int = 0
    lengths: list[int] = field(default_factory=list)
    """Number of episodes that have a first turn, a second, ..."""
    pictures: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    first_place: dict[str, str] = field(default_factory=dict)

    def add(self, episode: LoggedEpisode, rules: Sequence[OmissionRule]) -> None:
        """Count an episode under each rule."""
        count = len(episode.turns)
        self.sums[_FULL].add(ledger_of(episode.task, episode.turns))
        for rule in rules:
            left_out = omissions(rule, count, episode=self.episodes)
            self.sums[rule.name].add(ledger_of(episode.task, episode.turns, left_out))
        self.episodes += 1
        self.pictures += episode.pictures
        self.lengths = [a + b for a, b in zip_longest(self.lengths, [1] * count, fillvalue=0)]

    def skip(self, reason: str, place: str) -> None:
        """Count what could not be read."""
        self.skipped[reason] += 1
        self.first_place.setdefault(reason, place)

    def saved(self, rule: str) -> float:
        """Return the fraction of all tokens that a rule saves; negative where it adds some."""
        full = self.sums[_FULL].total
        return 1 - self.sums[rule].total / full if full else 0.0

    def lines(self, turns: int = 10) -> Iterator[str]:
        """Return the report, line by line.

        Args:
            turns: Rows of the table by turn.
        """
        full = self.sums[_FULL]
        yield (
            f"{self.episodes} episode{'s' * (self.episodes != 1)}, {sum(self.lengths)} turns, "
            f"{full.total:,} tokens read and written"
        )
        shares = (f"{what}s {full.split[what] / full.total:.0%}" for what in full.split)
        yield f"of these: {', '.join(shares)}".replace("tasks", "task")
        yield ""
        yield from self._by_rule()
        yield ""
        yield from self._by_turn(turns)
        yield ""
        yield from self._notes()

    def _by_rule(self) -> Iterator[str]:
        width = max(map(len, self.sums))
        yield f"{'rule':<{width}}{'read':>12}{'written':>11}{'last context':>14}{'saved':>8}"
        for name, sums in self.sums.items():
            saved = "" if name == _FULL else f"{self.saved(name):.1%}"
            yield (
                f"{name:<{width}}{sums.prompt:>12,}{sums.output:>11,}{sums.final:>14,}{saved:>8}"
            ).rstrip()

    def _by_turn(self, rows: int) -> Iterator[str]:
        names = list(self.sums)
        yield "tokens of a turn, mean over the episodes that have it:"
        yield "turn  episodes" + "".join(f"{chr(97 + i):>10}" for i in range(len(names)))
        for turn in _spread(len(self.lengths), rows):
            count = self.lengths[turn]
            means = "".join(f"{sums.turns[turn] / count:>10,.0f}" for sums in self.sums.values())
            yield f"{turn + 1:>4}{count:>10}{means}"
        yield "; ".join(f"{chr(97 + i)}: {name}" for i, name in enumerate(names))

    def _notes(self) -> Iterator[str]:
        for reason, count in self.skipped.most_common():
            yield f"skipped {count}: {reason} (first: {self.first_place[reason]})"
        if not self.sums[_FULL].split["thought"]:
            yield "no thoughts were found: rules about thoughts save nothing here"
        if self.pictures:
            yield f"{self.pictures} parts are no text, such as pictures, and were not counted"
        yield (
            "These are tokens, not success: a log can't tell whether the agent would still have "
            "acted as it did. `icml agent-omit analyse` measures that for an agent that "
            "can be run."
        )


def _spread(length: int, rows: int) -> list[int]:
    """Return up to so many of the indices 0 to length - 1: the first, the last, and between."""
    if length <= rows:
        return list(range(length))
    return sorted({round(row * (length - 1) / (rows - 1)) for row in range(rows)})


def replay(
    paths: Iterable[Path],
    *,
    rules: Sequence[OmissionRule] | None = None,
    count: Callable[[str], int] = count_words,
) -> Replay:
    """Count logged episodes under rules.

    Args:
        paths: Logs, see `icml.agent_omit.logs`.
        rules: `standard_rules` if None.
        count: Tokens of a text.

    Raises:
        UserError: If a file can't be read or is named twice, or there is no episode in any.
        MissingExtra: If a log is inspect-ai's and that is not installed.
    """
    rules = standard_rules() if rules is None else rules
    found = Replay({name: Sums() for name in (_FULL, *(rule.name for rule in rules))})
    files = list(paths)
    _refuse_twice(files)
    for path in files:
        for item in read_log(path):
            place = item.place if len(files) == 1 else f"{item.place} of {path.name}"
            _take(found, item, rules, count, place)
    if not found.episodes:
        reasons = "; ".join(f"{reason} ({count})" for reason, count in found.skipped.most_common(3))
        raise UserError(
            f"no episode of an agent in {', '.join(map(str, files))}: {reasons or 'it is empty'}"
        )
    return found


def _refuse_twice(files: Sequence[Path]) -> None:
    """Refuse a log that would count twice, also by another name of the same place."""
    seen: dict[Path, Path] = {}
    for path in files:
        before = seen.setdefault(path.resolve(), path)
        if before is not path:
            raise UserError(f"{path} and {before} are the same log: name it once")


def _take(
    found: Replay,
    item: Found,
    rules: Sequence[OmissionRule],
    count: Callable[[str], int],
    place: str,
) -> None:
    if item.skipped:
        found.skip(item.skipped, place)
        return
    try:
        episode = episode_of(item.messages, count)
    except BadEpisode as error:
        found.skip(str(error), place)
    except RecursionError:
        found.skip("values are nested too deeply", place)
    else:
        found.add(episode, rules)
