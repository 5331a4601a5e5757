"""Vault: a small text environment in which it is known what an agent may leave out.

The first room has a note with the colour of a box. Rooms with an exit follow, one of which has a
keypad in the exit's place: its code is the sum of the digits shown, so it takes running sums, a
thought, to tell it. In the last room the box of the note's colour is opened. So one thought is
needed, that at the keypad, and one observation, the note, to the end; everything else is redundant
once it has been acted on. A wrong action ends the episode.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple

from icml.agent_omit.format import write_turn
from icml.core.envs.protocol import EnvStateError, Observation, StepResult

__all__ = ["Kind", "Needed", "Room", "Vault", "expert_outputs", "needed", "rooms_of"]

COLOURS = ("red", "blue", "green", "gold")
DIRECTIONS = ("north", "east", "south", "west")
FILLERS = ("dusty", "cold", "bright", "quiet", "old", "long", "damp", "small")
LONGEST = 1000
"""Most rooms of a vault, and most digits on its keypad: an episode is drawn whole."""
FILLER_WORDS = 5
"""Words a room that say nothing."""

Kind = Literal["note", "walk", "keypad", "final"]


class Room(NamedTuple):
    """One turn: what is seen, what is right, and how an expert gets there."""

    kind: Kind
    text: str
    """What the agent is told."""
    action: str
    """The only right action."""
    thought: str
    """The expert's. The note's colour is in no thought before the last."""


class Needed(NamedTuple):
    """What can't be left out without guessing."""

    thoughts: frozenset[int]
    """Turns, from 1, whose thought is needed."""
    observations: frozenset[int]
    """Observations, from 1, that are needed after their own turn, to the end."""


def rooms_of(seed: int, *, turns: int = 5, digits: int = 3, modulus: int = 5) -> tuple[Room, ...]:
    """Return the rooms of a seed, in the order they are passed."""
    draw = random.Random(seed)
    colour = draw.choice(COLOURS)
    keypad = draw.randrange(2, turns)
    rooms = []
    for turn in range(1, turns + 1):
        filler = " ".join(draw.choice(FILLERS) for _ in range(FILLER_WORDS))
        if turn == keypad:
            rooms.append(_keypad(filler, [draw.randrange(modulus) for _ in range(digits)], modulus))
        elif turn == turns:
            said = f"open {colour}"
            rooms.append(Room("final", f"{filler} boxes", said, f"see boxes so {said}"))
        else:
            way = draw.choice(DIRECTIONS)
            seen, go = f"exit {way}", f"go {way}"
            note = f"note box {colour} " if turn == 1 else ""
            kind: Kind = "note" if turn == 1 else "walk"
            rooms.append(Room(kind, f"{note}{filler} {seen}", go, f"see {seen} so {go}"))
    return tuple(rooms)


def _keypad(filler: str, shown: Sequence[int], modulus: int) -> Room:
    """Return the keypad's room; the thought has the first digit, then each next one and the sum."""
    total, steps = shown[0], [shown[0]]
    for digit in shown[1:]:
        total = (total + digit) % modulus
        steps += [digit, total]
    seen, thought = (" ".join(map(str, numbers)) for numbers in (shown, steps))
    return Room("keypad", f"{filler} keypad {seen}", f"press {total % modulus}", thought)


def needed(rooms: Sequence[Room]) -> Needed:
    """Return the truth about an episode: the keypad's thought and the note.

    Example:
        >>> needed(rooms_of(0)).observations
        frozenset({1})
    """
    keypads = (turn for turn, room in enumerate(rooms, 1) if room.kind == "keypad")
    return Needed(frozenset(keypads), frozenset({1}))


def expert_outputs(
    rooms: Sequence[Room],
    *,
    empty: Collection[int] = (),
    omit: Mapping[int, Sequence[int]] | None = None,
) -> list[str]:
    """Return what an expert writes in each turn.

    Args:
        rooms: The episode.
        empty: Turns whose thought is left empty.
        omit: Observations that a turn leaves out, by turn.
    """
    return [
        write_turn(
            "" if turn in empty else room.thought, (omit or {}).get(turn, ()), action=room.action
        )
        for turn, room in enumerate(rooms, 1)
    ]


class Vault:
    """The environment, as `icml.core.envs.protocol.TextEnv` asks.

    Example:
        >>> env = Vault()
        >>> env.reset(seed=1).text
        'note box blue cold old cold small small exit west'
        >>> env.step("go west").observation.text
        'damp quiet cold small dusty exit west'
    """

    def __init__(self, *, turns: int = 5, digits: int = 3, modulus: int = 5) -> None:
        """Build a vault.

        Args:
            turns: Rooms, 3 to 1000; as many turns lead to the box.
            digits: Digits on the keypad, 1 to 1000.
            modulus: The code is the digits' sum modulo this, 2 to 10.

        Raises:
            ValueError: If a number is out of its range.
        """
        if not (3 <= turns <= LONGEST and 1 <= digits <= LONGEST and 2 <= modulus <= 10):
            raise ValueError(
                f"turns must be 3 to {LONGEST}, digits 1 to {LONGEST} and modulus 2 to 10, got "
                f"{turns=}, {digits=}, {modulus=}"
            )
        self.max_steps, self.digits, self.modulus = turns, digits, modulus
        self.id = f"vault/{turns}-{digits}-{modulus}"
        self.task = (
            "Find the box that the note names. Leave a room by its exit; at a keypad press the sum "
            f"of its digits modulo {modulus}; at the boxes open the right one."
        )
        keys = (f"press {key}" for key in range(modulus))
        self.actions = (
            *(f"go {way}" for way in DIRECTIONS),
            *keys,
            *(f"open {colour}" for colour in COLOURS),
        )
        self._rooms: tuple[Room, ...] = ()
        self._turn = 0
        self._over = True

    def reset(self, seed: int) -> Observation:
        """Begin the episode of ``seed``."""
        self._rooms = self.rooms(seed)
        self._turn, self._over = 0, False
        return self._observe(self._rooms[0].text)

    def rooms(self, seed: int) -> tuple[Room, ...]:
        """Return the rooms of the episode that ``seed`` begins."""
        return rooms_of(seed, turns=self.max_steps, digits=self.digits, modulus=self.modulus)

    def step(self, action: str) -> StepResult:
        """Take one turn; any action but the right one ends the episode without success.

        Raises:
            EnvStateError: Before `reset`, after the end of the episode and after `close`.
        """
        if self._over:
            raise EnvStateError(f"no episode of {self.id} is running: call reset(seed) first")
        action = " ".join(action.split())
        right = action == self._rooms[self._turn].action
        self._turn += 1
        success = right and self._turn == self.max_steps
        self._over = success or not right
        info = {
            "success": success,
            "truncated": False,
            "steps": self._turn,
        } | ({} if action in self.actions else {"invalid_action": True})
        text = "done" if success else "wrong" if not right else self._rooms[self._turn].text
        return StepResult(self._observe(text), float(success), self._over, info)

    def close(self) -> None:
        """End the episode; there is nothing to free."""
        self._over = True

    def expert_actions(self) -> list[str]:
        """Return the right actions from here to the end."""
        if self._over:
            raise EnvStateError(f"no episode of {self.id} is running: call reset(seed) first")
        return [room.action for room in self._rooms[self._turn :]]

    def _observe(self, text: str) -> Observation:
        return Observation(text, () if self._over else self.actions, self.task)
