"""Expert iteration with the verifier as the judge: the paper's bootstrapping.

Each round draws answers to every statement that has no proof yet, keeps those that the judge
accepts, and trains on all that is kept. With a folder, every chunk of judged answers is journalled
and every round ends in a checkpoint: after a kill at any moment the same call goes on, and ends in
the same weights.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Generic, NamedTuple

from icml.core.differences import first_difference
from icml.core.errors import UserError
from icml.core.journal import Journal, replace_folder, whole_folder
from icml.wzllm.training.learner import Learner, P, seeded
from icml.wzllm.training.normal import Guard, normal_form

__all__ = ["Round", "Rounds", "Trained", "expert_iteration"]

Judge = Callable[[P, str], bool]


@dataclass(frozen=True)
class Rounds:
    """Sizes of expert iteration."""

    rounds: int
    """At most; fewer where one brings next to nothing new."""
    steps: int
    """Gradient steps a round."""
    learning_rate: float
    """Of AdamW."""
    samples: int = 8
    """Answers drawn a statement and round."""
    temperature: float = 1.0
    """Of the draws."""
    keep: int = 2
    """Answers kept a statement: the shortest, of these the ones drawn most often."""
    restart: bool = False
    """Whether each round trains the first model anew, instead of going on with the last one."""
    stop_below: float = 0.0
    """Stop after a round that adds less than this fraction to the training set."""
    chunk: int = 64
    """Statements whose answers are drawn together and journalled as one record."""

    def __post_init__(self) -> None:
        """Refuse sizes that make no run."""
        for name in ("steps", "samples", "keep", "chunk"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.rounds < 0 or not 0 <= self.stop_below < 1:
            raise ValueError(
                "rounds must be 0 or more and stop_below in [0, 1), "
                f"got {self.rounds} and {self.stop_below}"
            )
        if not (self.learning_rate > 0 and self.temperature > 0):
            raise ValueError(
                "learning_rate and temperature must be above 0, "
                f"got {self.learning_rate} and {self.temperature}"
            )


class Round(NamedTuple):
    """What one round did."""

    number: int
    drawn: int
    """Answers drawn."""
    unreadable: int
    """Of these, no answers at all."""
    accepted: int
    """Of these, accepted by the judge, repetitions among them."""
    new: int
    """Pairs that the training set gained."""
    pairs: int
    """Pairs in the training set."""
    loss: float
    """At the end of its training, in nats a token."""


class Trained(NamedTuple, Generic[P]):
    """What expert iteration did; the learner was trained in place."""

    rounds: list[Round]
    pairs: list[tuple[P, str]]
    """The training set of the last round."""
    blocked: int
    """Statements of the pool or with a proof that were left out because they are held out."""


def expert_iteration(
    learner: Learner[P],
    pool: Sequence[P],
    given: Sequence[tuple[P, str]],
    judge: Judge[P] | None,
    config: Rounds,
    *,
    guard: Guard,
    seed: int,
    folder: Path | None = None,
    tell: Callable[[Round], None] = lambda done: None,
) -> Trained[P]:
    """Train a learner on proofs that it finds itself.

    Statements that the guard holds out are left out of all that is trained on, and of two that are
    spellings of one another only the first is used.

    Args:
        learner: Trained in place, from the weights that it has.
        pool: Statements to prove.
        given: Pairs of statement and proof to begin with; believed.
        judge: Says whether an answer proves its statement. None believes every answer that can be
            read: self-training without a verifier, for comparison.
        config: Sizes.
        guard: Statements that must not be trained on.
        seed: Decides all draws.
        folder: Of the journal and the checkpoint; a call with the same arguments goes on there.
        tell: Is called after each round, also with those that were done before.

    Raises:
        UserError: If the folder holds another run, or there is nothing to train on.
    """
    allowed = {}
    for problem in [*(p for p, _ in given), *pool]:
        allowed.setdefault(normal_form(problem.identity), problem)
    blocked = [form for form, problem in allowed.items() if problem.identity in guard]
    for form in blocked:
        del allowed[form]
    kept = {f: text for p, text in given if (f := normal_form(p.identity)) in allowed}
    if not kept and judge is None:
        raise UserError("self-training needs a statement with a proof to begin with")
    store = _Store(folder, {"config": asdict(config), "seed": seed, "statements": _hash(allowed)})
    run = _Run(
        learner, problems=allowed, given=kept, judge=judge, config=config, seed=seed, store=store
    )
    return Trained(list(run.go(tell)), run.pairs(), len(blocked))


class _Run(Generic[P]):
    """The state of a run: how often each answer to each open statement was drawn and believed."""

    def __init__(
        self,
        learner: Learner[P],
        *,
        problems: dict[str, P],
        given: dict[str, str],
        judge: Judge[P] | None,
        config: Rounds,
        seed: int,
        store: _Store,
    ) -> None:
        self.learner, self.judge, self.config = learner, judge, config
        self.problems, self.given = problems, given
        self.seed, self.store = seed, store
        self.believed: dict[str, Counter[str]] = {
            form: Counter() for form in problems if form not in given
        }

    def pairs(self) -> list[tuple[P, str]]:
        """Return the training set: the given proofs, then what is kept of the drawn ones."""
        found = [(self.problems[form], text) for form, text in self.given.items()]
        for form, counts in self.believed.items():
            order = sorted(counts, key=lambda text: (len(text), -counts[text], text))
            found += [(self.problems[form], text) for text in order[: self.config.keep]]
        return found

    def go(self, tell: Callable[[Round], None]) -> Iterator[Round]:
        self.store.keep_start(self.learner)
        finished = self.store.finished_losses()
        for number in range(self.config.rounds):
            before = set(self.pairs())
            drawn = self._answers(number)
            for form, texts in drawn.items():
                self.believed[form].update(texts["accepted"])
            pairs = self.pairs()
            new = len(set(pairs) - before)
            if number >= len(finished):
                finished = [*finished, self._fit(number, pairs)]
                self.store.save(self.learner, finished)
            elif number + 1 == len(finished):
                self.store.load(self.learner, "last")
            loss = finished[number]
            done = Round(
                number=number,
                drawn=len(drawn) * self.config.samples,
                unreadable=sum(record["unreadable"] for record in drawn.values()),
                accepted=sum(len(record["accepted"]) for record in drawn.values()),
                new=new,
                pairs=len(pairs),
                loss=loss,
            )
            tell(done)
            yield done
            if new < self.config.stop_below * len(before):
                return

    def _answers(self, number: int) -> dict[str, dict[str, Any]]:
        """Return for each open statement what was drawn: from the journal, the rest anew."""
        # Without a judge nothing is ever proved, so everything stays open.
        shut = () if self.judge is None else (f for f, c in self.believed.items() if c)
        shut = set(shut)
        forms = [form for form in self.believed if form not in shut]
        found: dict[str, dict[str, Any]] = {}
        for first in range(0, len(forms), self.config.chunk):
            chunk = forms[first : first + self.config.chunk]
            key = f"{number}/{first}"
            record = self.store.chunk(key)
            if record is None:
                record = self._draw(chunk, seeded(self.seed, "draw", key))
                self.store.append(key, record)
            found |= dict(zip(chunk, record, strict=True))
        return found

    def _draw(self, forms: Sequence[str], seed: int) -> list[dict[str, Any]]:
        problems = [self.problems[form] for form in forms]
        config = self.config
        drawn = self.learner.draw(
            problems, config.samples, temperature=config.temperature, seed=seed
        )
        return [
            self._judged(problem, texts) for problem, texts in zip(problems, drawn, strict=True)
        ]

    def _judged(self, problem: P, texts: Sequence[str | None]) -> dict[str, Any]:
        readable = [text for text in texts if text is not None]
        verdicts = {
            text: self.judge is None or self.judge(problem, text)
            for text in dict.fromkeys(readable)
        }
        accepted = [text for text in readable if verdicts[text]]
        return {"unreadable": len(texts) - len(readable), "accepted": accepted}

    def _fit(self, number: int, pairs: list[tuple[P, str]]) -> float:
        if not pairs:
            return float("nan")  # nothing is proved yet: the next round draws again
        if self.config.restart:
            self.store.load(self.learner, "first")
        return self.learner.fit(
            pairs,
            self.config.steps,
            learning_rate=self.config.learning_rate,
            seed=seeded(self.seed, "fit", number),
        )


class _Store:
    """The journal of chunks and the checkpoints, or their likes in memory without a folder."""

    def __init__(self, folder: Path | None, identity: dict[str, Any]) -> None:
        self._folder = folder
        self._journal: Journal | None = None
        self._chunks: dict[str, list[dict[str, Any]]] = {}
        self._memory: dict[str, dict[str, Any]] = {}
        if folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        self._journal = Journal(folder / "rounds.jsonl", needs=("key", "value"))
        records = self._journal.read()
        identity = json.loads(json.dumps(identity))
        if not records:
            self._journal.append({"key": "run", "value": identity})
        elif different := first_difference(records[0]["value"], identity):
            raise UserError(
                f"{folder} holds another run of expert iteration ({different}): "
                "give another folder, or remove it"
            )
        self._chunks = {record["key"]: record["value"] for record in records[1:]}

    def chunk(self, key: str) -> list[dict[str, Any]] | None:
        return self._chunks.get(key)

    def append(self, key: str, value: list[dict[str, Any]]) -> None:
        if self._journal is not None:
            self._journal.append({"key": key, "value": value})

    def finished_losses(self) -> list[float]:
        """Return the loss of each round whose training is in the checkpoint."""
        last = self._folder and whole_folder(self._folder / "last")
        return json.loads((last / "losses.json").read_text()) if last else []

    def keep_start(self, learner: Learner[Any]) -> None:
        """Remember the weights that each round may start from."""
        if self._folder is None:
            state = learner.model.state_dict()
            self._memory["first"] = {name: value.clone() for name, value in state.items()}
        elif whole_folder(self._folder / "first") is None:
            with replace_folder(self._folder / "first") as place:
                learner.save(place)
        else:
            self.load(learner, "first")

    def load(self, learner: Learner[Any], name: str) -> None:
        if self._folder is None:
            learner.model.load_state_dict(self._memory[name])
        else:
            learner.load(self._folder / name)

    def save(self, learner: Learner[Any], losses: list[float]) -> None:
        if self._folder is not None:
            with replace_folder(self._folder / "last") as place:
                learner.save(place)
                (place / "losses.json").write_text(json.dumps(losses))


def _hash(forms: dict[str, Any]) -> str:
    return sha256("\n".join(forms).encode()).hexdigest()
