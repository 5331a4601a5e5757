"""Environments by name, for the command line."""

from __future__ import annotations

from collections.abc import Callable

from icml.agent_omit.vault import Vault
from icml.core.envs.protocol import TextEnv
from icml.core.errors import UserError

__all__ = ["environment"]


def environment(name: str) -> tuple[Callable[[object], TextEnv], int]:
    """Return what makes an environment, and its longest episode in turns.

    Args:
        name: ``vault``, ``vault/TURNS-DIGITS-MODULUS`` or ``babyai/LEVEL``.

    Raises:
        UserError: If there is no such environment.
        MissingExtra: If BabyAI is asked for and isn't installed.

    Example:
        >>> environment("vault/6-5-10")[1]
        6
    """
    family, _, rest = name.partition("/")
    if family == "vault":
        sizes = _sizes(rest or "5-3-5")
        try:
            return (lambda _: Vault(**sizes)), Vault(**sizes).max_steps
        except ValueError as error:
            raise UserError(f"{name}: {error}") from error
    if family == "babyai" and rest:
        from icml.core.envs.babyai import BabyAI

        longest = BabyAI(rest).max_steps
        return (lambda _: BabyAI(rest)), longest
    raise UserError(
        f"no environment {name!r}: there are vault, vault/TURNS-DIGITS-MODULUS and babyai/LEVEL"
    )


def _sizes(text: str) -> dict[str, int]:
    numbers = text.split("-")
    if len(numbers) != 3 or not all(number.isdecimal() for number in numbers):
        raise UserError(f"vault/{text}: give TURNS-DIGITS-MODULUS, as vault/5-3-5")
    turns, digits, modulus = map(int, numbers)
    return {"turns": turns, "digits": digits, "modulus": modulus}
