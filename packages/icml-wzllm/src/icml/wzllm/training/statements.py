"""Statements for training, divided into those that are trained on and those that never are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl

from icml.core.errors import UserError
from icml.wzllm.bench import read_items
from icml.wzllm.identities import Item, suite
from icml.wzllm.statement import Identity
from icml.wzllm.training.answers import written
from icml.wzllm.training.normal import normal_form
from icml.wzllm.training.recipe import StatementsPart
from icml.wzllm.training.rows import Row
from icml.wzllm.worker import Stopped, Worker

__all__ = ["Statement", "Statements", "load_statements", "search"]


@dataclass(frozen=True)
class Statement:
    """An identity as a problem for a learner."""

    identity: Identity


@dataclass(frozen=True)
class Statements:
    """All of them, divided."""

    pool: tuple[Statement, ...]
    held_out: tuple[Statement, ...]


def load_statements(part: StatementsPart) -> Statements:
    """Read the statements and hold some out, all spellings of one on the same side.

    Raises:
        UserError: If they can't be read, or are fewer than asked for.
    """
    groups: dict[str, list[Statement]] = {}
    for key, identity in _read(part.source):
        groups.setdefault(key, []).append(Statement(identity))
    keys = sorted(groups)
    random.Random(part.seed).shuffle(keys)
    held_out: list[Statement] = []
    while keys and len(held_out) < part.held_out:
        held_out += groups[keys.pop()]
    pool = [statement for key in keys for statement in groups[key]]
    if not pool:
        raise UserError(
            f"{part.source} has {sum(map(len, groups.values()))} statements: "
            f"nothing is left to train on with {part.held_out} held out"
        )
    return Statements(tuple(pool), tuple(held_out))


def _read(source: str) -> Iterator[tuple[str, Identity]]:
    """Yield statements, each with a key that those share which must not be parted."""
    name, _, query = source.partition("?")
    if name == "rows":
        try:
            ((_, number),) = parse_qsl(query)
            largest = int(number) if query.startswith("largest=") else 0
        except ValueError:
            raise UserError(f"{source}: write rows?largest=9, a number from 1 to 49") from None
        if not 1 <= largest <= 49:
            raise UserError(f"{source}: write rows?largest=9, a number from 1 to 49")
        for a in range(1, largest + 1):
            for b in range(1, largest + 1):
                yield f"{min(a, b):02}+{max(a, b):02}", Row(a, b).identity  # and its mirror image
        return
    items = suite() if source == "suite" else read_items(Path(source))
    for item in items:
        if not isinstance(item, Item):
            raise UserError(f"{source}: {item[0]}: {item[1]}")
        if item.holds is not False:
            yield normal_form(item.identity), item.identity


def search(
    pool: tuple[Statement, ...], wanted: int, worker: Worker, budget_s: float
) -> list[tuple[Statement, str]]:
    """Return answers that the symbolic search finds for the first statements it can prove."""
    found: list[tuple[Statement, str]] = []
    for statement in pool:
        if len(found) == wanted:
            break
        try:
            outcome = worker.certify(statement.identity, max_order=4, budget_s=budget_s)
            if outcome.certificate is None:
                continue
            text = written(outcome.certificate)
            if worker.judge(statement.identity, text, budget_s=budget_s).accepted:
                found.append((statement, text))
        except Stopped:
            continue
    if not found:
        raise UserError("the symbolic search proves none of the statements: nothing to begin with")
    return found
