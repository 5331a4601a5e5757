"""What ``icml brokenmath sft`` learns from: whose answers, and to no problem of the test.

A problem is known by its texts: whoever has seen the true statement, or a false one that was made
from it, has seen the problem.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from icml.brokenmath.answers import Answer
from icml.brokenmath.items import VERIFIED, Item, load_items
from icml.brokenmath.prompts import LINES
from icml.brokenmath.sft import TEMPLATES, build_sft, mixture, reference_answers
from icml.brokenmath.verified import generate
from icml.core.errors import UserError

if TYPE_CHECKING:
    from datasets import Dataset

__all__ = [
    "RULE_TEMPLATES",
    "TrainingData",
    "data_lines",
    "fresh_items",
    "texts_of",
    "training_data",
]

RULE_TEMPLATES: Mapping[str, str] = {
    kind: text if kind == "answer" else f"{text}\n\n{LINES}" for kind, text in TEMPLATES.items()
}
"""What is asked where the rule judge reads the answer: for its two lines as well."""


class TrainingData(NamedTuple):
    """A fine-tuning set, and where it comes from."""

    rows: Dataset
    """Of `build_sft`."""
    source: str
    """In a few words."""
    left_out: int
    """Answers to problems of the test."""
    notes: tuple[str, ...] = ()
    """What else of the logs isn't learnt."""


def texts_of(items: Iterable[Item]) -> frozenset[str]:
    """Return the statements and originals of items, by which their problems are known."""
    return frozenset(
        " ".join(text.split()) for item in items for text in (item.statement, item.original)
    )


def fresh_items(n: int, seed: int, known: frozenset[str]) -> list[Item]:
    """Make verified items whose problems aren't known.

    Args:
        n: How many.
        seed: Of `icml.brokenmath.verified.generate`.
        known: See `texts_of`.

    Raises:
        UserError: If the families have too few statements.
    """
    wanted = n
    while True:
        try:
            made = generate(wanted, seed)
        except UserError as error:
            raise UserError(f"{error}: lower n, or give answers from logs") from error
        found = [item for item in made if not texts_of([item]) & known]
        if len(found) >= n:
            return found[:n]
        wanted += n - len(found)


def training_data(
    *,
    n: int,
    adv_frac: float,
    proof_frac: float,
    seed: int,
    answers: Sequence[str] = (),
    items: str | None = None,
    keep_out: Sequence[str] = (),
) -> TrainingData:
    """Build the fine-tuning set of Sec. 5 without the problems of any test set.

    Args:
        n: Examples in all.
        adv_frac: Share of false statements.
        proof_frac: Share of proofs among the rest.
        seed: Of the choice and the order, and of the items where they are made.
        answers: Logs, or folders of them, whose answers are learnt.
        items: A file of verified items, whose `reference_answers` are learnt; made if there are
            neither logs nor items.
        keep_out: Files of items that are tested on, besides the frozen set.

    Raises:
        UserError: If a file can't be used, an item isn't verified, the rule judge read some of the
            logs and not the others, or a kind has too few answers.
        MissingExtra: If datasets, or for logs inspect-ai, is not installed.
    """
    counts = mixture(n, adv_frac=adv_frac, proof_frac=proof_frac)
    known = frozenset().union(*(texts_of(load_items(name)) for name in (VERIFIED, *keep_out)))
    templates, notes = RULE_TEMPLATES, ()
    if answers:
        found, templates, notes = _from_logs([Path(name) for name in answers])
        source = f"answers in {', '.join(answers)}"
    elif items is not None:
        found = reference_answers(_verified(items))
        source = f"the verified items in {items}"
    else:
        found = reference_answers(fresh_items(max(counts.values()), seed, known))
        source = f"verified items made with the seed {seed}"
    fresh = [answer for answer in found if not texts_of([answer.item]) & known]
    left_out = len(found) - len(fresh)
    try:
        rows = build_sft(
            fresh, n=n, adv_frac=adv_frac, proof_frac=proof_frac, seed=seed, templates=templates
        )
    except UserError as error:
        if not left_out:
            raise
        tested = ", ".join(("the frozen set", *keep_out))
        raise UserError(f"{error} ({left_out} are to problems of {tested}: left out)") from error
    return TrainingData(rows, source, left_out, notes)


def data_lines(rows: Dataset) -> str:
    """Return a fine-tuning set as JSON Lines, without keys that a message doesn't have."""
    said = []
    for row in rows:
        messages = [{k: v for k, v in m.items() if v is not None} for m in row["messages"]]
        said.append(json.dumps({**row, "messages": messages}, ensure_ascii=False) + "\n")
    return "".join(said)


def _from_logs(
    paths: Sequence[Path],
) -> tuple[list[Answer], Mapping[str, str], tuple[str, ...]]:
    """Return the answers in logs, what asks for such answers, and what was left out."""
    from icml.brokenmath.log_files import find_logs

    logs, left_out = find_logs(paths)
    for log in logs:
        log.check_scored()
    by_rule = {log.judge == "rule" for log in logs}
    if len(by_rule) > 1:
        raise UserError(
            "the rule judge read some of the logs and not the others: their answers end "
            "differently; give the ones or the others"
        )
    rows = [answer for log in logs for answer in log.rows]
    # An eval that was retried has the first one's answers in its log too.
    found = {
        (row.item.statement, row.category, row.text, row.reasoning): row for row in reversed(rows)
    }
    again = len(rows) - len(found)
    notes = [f"left out: {reason}" for reason in left_out]
    notes += [f"{again} answers stand there more than once"] if again else []
    templates = RULE_TEMPLATES if by_rule == {True} else TEMPLATES
    return list(found.values())[::-1], templates, tuple(notes)


def _verified(source: str) -> list[Item]:
    from icml.brokenmath.validator import validate

    items = load_items(source)
    bad = [one for one in validate(items) if one.flag]
    if bad:
        raise UserError(
            f"{len(bad)} of {len(items)} items in {source} aren't verified, the first is "
            f"{bad[0].id} ({bad[0].flag}): icml brokenmath validate {source} says why"
        )
    return items
