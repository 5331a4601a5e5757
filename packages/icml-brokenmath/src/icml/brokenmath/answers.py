"""Answers from logs of ``inspect eval icml/brokenmath`` and ``icml/brokenmath_utility``.

Needs ``pip install 'icml-brokenmath[inspect]'``.
"""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from icml.brokenmath.categories import CATEGORIES
from icml.brokenmath.items import Item
from icml.core.errors import UserError, require

TASKS = {"brokenmath": "brokenmath_behaviour", "brokenmath_utility": "brokenmath_solved"}
"""Tasks and the scorers whose values count."""
SOLVED = ("correct", "incorrect", "invalid")
NOT_SCORED = "it was given, and not scored"
"""What stands as the error of an answer in a log of ``inspect eval --no-score``."""


class NotOurs(UserError):
    """A log that is fine and holds no answer of our tasks: a folder's other logs."""


@dataclass(frozen=True)
class Answer:
    """One answer to one item."""

    item: Item
    epoch: int
    """From 1."""
    text: str
    category: str
    """A behaviour or ``invalid``; of the utility ``correct``, ``incorrect`` or ``invalid``."""
    confidence: float | None = None
    """As stated, in [0, 1]."""
    candidates: tuple[str, ...] = ()
    """Categories of all answers that this one was chosen from."""
    judge_is_solver: bool = False
    error: str = ""
    """Why there is no score; such an answer is invalid."""
    reasoning: str = ""
    """What the model thought before the text, if its provider told: nobody judges it."""

    @property
    def failed(self) -> bool:
        """Whether there is no answer, for anybody to judge."""
        return bool(self.error) and self.error != NOT_SCORED


@dataclass(frozen=True)
class Answers:
    """What a log holds."""

    path: Path
    task: str
    model: str
    condition: str
    judge: str
    rows: list[Answer] = field(default_factory=list)
    missing: int = 0
    """Samples without an answer because the eval came to its end before them."""
    ending: str = ""
    """How the eval ended, in words."""
    digest: str = ""
    """SHA-256 of the file, in hexadecimal digits."""

    @property
    def label(self) -> str:
        """Name in tables."""
        return f"{self.model} {self.condition}"

    @property
    def categories(self) -> list[str]:
        """Of each answer."""
        return [row.category for row in self.rows]

    def missing_note(self) -> str:
        """Return how many samples are missing, why, and what gives their answers; "" if none is."""
        if not self.missing:
            return ""
        goes_on = f"inspect eval-retry {self.path} answers them"
        return f"{self.missing} samples are missing: {self.ending}; {goes_on}"

    def check_scored(self) -> None:
        """Refuse a log without scores.

        Raises:
            UserError: If an answer has none, though it didn't fail.
        """
        unscored = sum(row.error == NOT_SCORED for row in self.rows)
        if unscored:
            ours = self.task == "brokenmath"
            how = (
                "icml brokenmath report --rejudge JUDGE judges them" if ours else "`inspect score`"
            )
            raise UserError(f"{unscored} answers in {self.path} have no score: {how}")

    def by_problem(self) -> dict[str, list[Answer]]:
        """Return the answers to each item, by its id."""
        found: dict[str, list[Answer]] = {}
        for row in self.rows:
            found.setdefault(row.item.id, []).append(row)
        return found


def read_answers(path: Path) -> Answers:
    """Read a log; a sample that failed is an invalid answer, never left out.

    A sample that was under way when its eval ended hasn't failed: it is missing.

    Raises:
        NotOurs: If it is a log of another task, or of ours and without any answer.
        UserError: If it is no log.
        MissingExtra: If inspect-ai is not installed.
    """
    reader = require("inspect_ai.log", extra="icml-brokenmath[inspect]")
    if path.is_dir():
        raise UserError(f"{path} is a folder: name a log in it")
    if not path.is_file():
        raise UserError(f"there is no log {path}")
    if path.suffix == ".eval" and not zipfile.is_zipfile(path):
        raise UserError(f"{path} is cut off or no .eval log: it is no zip archive")
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        log = reader.read_eval_log(str(path), resolve_attachments="core")
    except Exception as error:  # whatever a damaged archive makes of zipfile, json and pydantic
        kind = type(error).__name__
        raise UserError(f"{path} is no log that inspect-ai can read: {kind}") from error
    task = log.eval.task.rpartition("/")[2]
    if task not in TASKS:
        raise NotOurs(f"{path} is a log of {log.eval.task}, not of icml/brokenmath")
    samples = [sample for sample in log.samples or [] if not _cut_off(sample, log)]
    ids = log.eval.dataset.sample_ids or []
    wanted = len(ids) * (log.eval.config.epochs or 1)
    # In the order of the items, not of their names.
    place = {str(name): number for number, name in enumerate(ids)}
    samples.sort(key=lambda sample: (place.get(str(sample.id), len(place)), sample.epoch))
    facts = log.eval.metadata or {}
    try:
        rows = [_answer(sample, TASKS[task]) for sample in samples]
    except (KeyError, ValueError) as error:
        raise UserError(f"{path} has a sample that is none of icml/{task}: {error}") from error
    if not rows:
        raise NotOurs(f"{path} holds no answer: {_ending(log)}"[:500])
    return Answers(
        path=path,
        task=task,
        model=log.eval.model,
        condition=str(facts.get("condition", "")),
        judge=str(facts.get("judge", "")),
        rows=rows,
        missing=max(wanted - len(rows), 0),
        ending=_ending(log),
        digest=digest,
    )


def _ending(log: Any) -> str:
    if log.status == "started":
        return "its eval still runs, or was killed"
    reason = f" ({log.error.message})" if log.error else ""
    return f"its eval ended with the status {log.status}{reason}"


def _cut_off(sample: Any, log: Any) -> bool:
    """Tell whether the end of the eval, and nothing in the sample, is why it has no answer.

    The log has such a sample with the error by which asyncio, or trio, ended its task.
    """
    if log.status == "success" or sample.error is None:
        return False
    return sample.error.message.startswith(("CancelledError(", "Cancelled("))


def _answer(sample: Any, scorer: str) -> Answer:
    item = Item.model_validate(sample.metadata["item"])
    score = (sample.scores or {}).get(scorer)
    if score is None:
        reason = sample.error.message if sample.error else NOT_SCORED
        said = sample.output.completion
        thought = _reasoning(sample.output)
        return Answer(item, sample.epoch, said, "invalid", error=reason, reasoning=thought)
    known = CATEGORIES if scorer == TASKS["brokenmath"] else SOLVED
    if score.value not in known:
        raise UserError(f"the score {score.value!r} is none of {', '.join(known)}")
    facts = score.metadata or {}
    return Answer(
        item=item,
        epoch=sample.epoch,
        text=sample.output.completion,
        category=str(score.value),
        confidence=facts.get("confidence"),
        candidates=tuple(facts.get("candidates", ())),
        judge_is_solver=bool(facts.get("judge_is_solver")),
        reasoning=_reasoning(sample.output),
    )


def _reasoning(output: Any) -> str:
    """Return the thoughts of a ``ModelOutput``, without what its provider has made unreadable."""
    content = output.message.content if output.choices else ""
    blocks = [] if isinstance(content, str) else content
    thoughts = [each.reasoning for each in blocks if each.type == "reasoning" and not each.redacted]
    return "\n\n".join(text.strip() for text in thoughts if text.strip())
