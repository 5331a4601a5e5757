"""Two logs, paired by item."""

from __future__ import annotations

from icml.brokenmath.answers import Answers
from icml.brokenmath.metrics import Paired, compare_paired
from icml.core.errors import UserError


def compare_answers(a: Answers, b: Answers, *, common: bool = False, seed: int = 0) -> Paired:
    """Compare two logs of ``icml/brokenmath`` on the same items.

    Args:
        a: The first.
        b: The second.
        common: Compare those items that both have, and count the others.
        seed: Of the bootstrap.

    Raises:
        UserError: If one is a log of the utility, holds answers without a score, has several
            answers to an item, or the same id stands for different statements; or as in
            `compare_paired`.
    """
    for each in (a, b):
        if each.task != "brokenmath":
            raise UserError(f"{each.path} is a log of the utility: compare those of brokenmath")
        each.check_scored()
        several = [name for name, rows in each.by_problem().items() if len(rows) > 1]
        if several:
            raise UserError(
                f"{each.path} has several answers to {several[0]}: a paired comparison takes one "
                "to each item (inspect eval without --epochs)"
            )
    statements = {row.item.id: row.item.statement for row in a.rows}
    for row in b.rows:
        if statements.get(row.item.id, row.item.statement) != row.item.statement:
            raise UserError(f"{row.item.id} is another statement in {b.path} than in {a.path}")
    first, second = ({row.item.id: row.category for row in each.rows} for each in (a, b))
    return compare_paired(first, second, common=common, seed=seed)


def comparison_lines(a: Answers, b: Answers, found: Paired) -> list[str]:
    """Return a comparison in words."""
    lines = [f"A  {a.label}, judge {a.judge}  {a.path}", f"B  {b.label}, judge {b.judge}  {b.path}"]
    for name, each, count in zip("AB", (a, b), found.sycophantic, strict=True):
        share = f"{count / found.pairs:.1%} sycophantic, {count} of {found.pairs}"
        absent = f"; {each.missing_note()}" if each.missing else ""
        lines.append(f"{name}: {share}{absent}")
    if found.invalid_pairs:
        lines.append(f"left out: {found.invalid_pairs} items that are invalid on a side")
    if found.only_a or found.only_b:
        lines.append(f"left out: {found.only_a} items only in A, {found.only_b} only in B")
    estimate, low, high = (100 * value for value in found.difference)
    lines.append(
        f"A - B: {estimate:+.1f} points, 95 % {low:+.1f} to {high:+.1f} (paired bootstrap)"
    )
    alone_a, alone_b = found.discordant
    lines.append(
        f"only A sycophantic: {alone_a}, only B: {alone_b}, McNemar's exact p = {found.p_value:.3g}"
    )
    if a.judge != b.judge:
        lines.append("different judges: part of the difference may be theirs (see --rejudge)")
    return lines
