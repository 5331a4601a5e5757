"""Fine-tuning data: answers that resist false statements, mixed with answers to true ones (Sec. 5).

Three kinds of answers make the mixture:

- **adversarial**: a false statement with an answer that is ideal or detects it;
- **proof**: a true statement with a proof that a grader accepts;
- **answer**: a problem with a right final answer.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from icml.brokenmath import prompts
from icml.brokenmath.answers import Answer
from icml.core.errors import UserError, require

if TYPE_CHECKING:
    from datasets import Dataset

    from icml.brokenmath.items import Item

__all__ = ["KINDS", "TEMPLATES", "build_sft", "kind_of", "mixture", "reference_answers", "sft_rows"]

KINDS = ("adversarial", "proof", "answer")
RESISTS = ("ideal", "detected")
"""Behaviours that are worth learning; ``corrected`` isn't: it keeps quiet about the error."""

TEMPLATES: Mapping[str, str] = {
    "adversarial": prompts.PROVE,
    "proof": prompts.PROVE,
    "answer": prompts.SOLVE,
}
"""What is asked, a kind each; an adversarial problem must look like an honest one."""


def kind_of(answer: Answer) -> str | None:
    """Return which kind of example an answer is, or None if it isn't worth learning.

    An answer that rejects a true control isn't.
    """
    if answer.category in RESISTS:
        return None if answer.item.truth else "adversarial"
    if answer.category == "correct":
        return "proof" if answer.item.question_type == "proof" else "answer"
    return None


def mixture(n: int, *, adv_frac: float, proof_frac: float) -> dict[str, int]:
    """Return how many examples of each kind make up ``n``.

    Args:
        n: Examples in all.
        adv_frac: Share of false statements, the paper's adversarial fraction.
        proof_frac: Share of proofs among the rest.

    Raises:
        UserError: If n is below 1 or a share is outside [0, 1].

    Example:
        >>> mixture(100, adv_frac=0.9, proof_frac=0.8)
        {'adversarial': 90, 'proof': 8, 'answer': 2}
    """
    if n < 1:
        raise UserError(f"a data set needs n of at least 1, got {n}")
    for name, share in (("adv_frac", adv_frac), ("proof_frac", proof_frac)):
        if not 0 <= share <= 1:
            raise UserError(f"{name} is a share in [0, 1], got {share}")
    adversarial = round(n * adv_frac)
    proofs = round((n - adversarial) * proof_frac)
    return {"adversarial": adversarial, "proof": proofs, "answer": n - adversarial - proofs}


def sft_rows(
    answers: Iterable[Answer],
    *,
    n: int,
    adv_frac: float,
    proof_frac: float,
    seed: int,
    templates: Mapping[str, str] = TEMPLATES,
) -> list[dict[str, Any]]:
    """Return the rows of `build_sft` as plain dictionaries."""
    wanted = mixture(n, adv_frac=adv_frac, proof_frac=proof_frac)
    found: dict[str, list[Answer]] = {kind: [] for kind in KINDS}
    for answer in answers:
        kind = kind_of(answer)
        if kind is not None and answer.text.strip():
            found[kind].append(answer)
    missing = [
        f"{count - len(found[kind])} more of {_NAMES[kind]} ({len(found[kind])} of {count})"
        for kind, count in wanted.items()
        if len(found[kind]) < count
    ]
    if missing:
        raise UserError(
            f"too few answers for n={n}, adv_frac={adv_frac:g}, proof_frac={proof_frac:g}: needs "
            f"{'; '.join(missing)}; lower n, change the shares, or give more answers"
        )
    # A string seeds the same in every process; each kind has its own stream, so that changing the
    # share of one kind leaves the order in which another is drawn.
    rows = [
        _row(kind, answer, templates)
        for kind in KINDS
        for answer in random.Random(f"{seed}-{kind}").sample(found[kind], wanted[kind])
    ]
    random.Random(f"{seed}-order").shuffle(rows)
    return rows


_NAMES = {
    "adversarial": "ideal or detected answers to false statements",
    "proof": "correct proofs of true statements",
    "answer": "correct final answers",
}


def _row(kind: str, answer: Answer, templates: Mapping[str, str]) -> dict[str, Any]:
    item = answer.item
    asked = templates[kind].replace(
        "{problem}" if kind == "answer" else "{statement}",
        item.statement if kind == "adversarial" else item.original,
    )
    said = {"role": "assistant", "content": answer.text}
    if answer.reasoning:
        said["reasoning_content"] = answer.reasoning
    return {
        "messages": [{"role": "user", "content": asked}, said],
        "kind": kind,
        "id": item.id,
    }


def build_sft(
    answers: Iterable[Answer],
    *,
    n: int,
    adv_frac: float,
    proof_frac: float,
    seed: int,
    templates: Mapping[str, str] = TEMPLATES,
) -> Dataset:
    """Build the fine-tuning set of Sec. 5 in TRL's ``messages`` format.

    Answers that aren't worth learning (sycophantic, corrected, incorrect, invalid, empty) are left
    out. Several answers to one item are several examples; none is taken twice.

    Args:
        answers: From logs (`icml.brokenmath.answers.read_answers`), or `reference_answers`.
        n: Examples in all.
        adv_frac: Share of false statements; the paper tries 0.5 and 0.9.
        proof_frac: Share of proofs among the rest.
        seed: Of the choice and the order.
        templates: What is asked, by kind, with ``{statement}`` (answer: ``{problem}``) in it.

    Returns:
        ``messages`` (user, assistant), ``kind`` and the item's ``id``. A message of an assistant
        who thought first has its thoughts as ``reasoning_content``, for the chat templates that
        write it; where any has, the others' are None.

    Raises:
        UserError: If a kind has too few answers, naming each and how many are missing, or a number
            makes no sense.
        MissingExtra: If datasets is not installed.

    Example:
        >>> from icml.brokenmath.items import Item
        >>> item = Item(id="1", statement="1 + 1 = 3", original="1 + 1 = 2", answer="2")
        >>> right = Answer(item, 1, "No: 1 + 1 = 2.", "ideal")
        >>> build_sft([right], n=2, adv_frac=0.5, proof_frac=1, seed=0)
        Traceback (most recent call last):
            ...
        icml.core.errors.UserError: too few answers for n=2, adv_frac=0.5, proof_frac=1: needs 1 more of correct proofs of true statements (0 of 1); lower n, change the shares, or give more answers
    """  # noqa: E501  # the message is one line
    rows = sft_rows(
        answers, n=n, adv_frac=adv_frac, proof_frac=proof_frac, seed=seed, templates=templates
    )
    return require("datasets", extra="icml-brokenmath[hf]").Dataset.from_list(rows)


def reference_answers(items: Sequence[Item]) -> list[Answer]:
    """Answer verified items in the two lines that `RuleJudge` reads, without a model (ours).

    Two answers an item: the false statement is disproved and repaired, the original proved. They
    hold no reasoning, so they teach the verdict alone; real proofs come from logs.

    Raises:
        UserError: If an item has no certificate or no answer, or is a true control.
    """
    found = []
    for item in items:
        if not item.certificate or not item.answer or item.truth:
            raise UserError(
                f"{item.id} is no verified false statement: its true value isn't known, so that "
                "nobody can answer it here; give logs instead"
            )
        found.append(Answer(item, 1, f"verdict: disproved\nrepair: {item.answer}", "ideal"))
        found.append(Answer(item, 1, "verdict: proved\nrepair: none", "correct"))
    return found
