"""A causal model that writes answers: drawn, taken greedily, and learnt from pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

import torch
from safetensors.torch import load_model, save_model
from torch import nn

from icml.core.errors import UserError
from icml.core.rl.sampling import sample
from icml.core.rl.sft import supervised
from icml.wzllm.statement import Identity

__all__ = ["Learner", "Problem", "Writing", "seeded"]

GREEDY = 1e-3  # temperature, ours: the likeliest token but for ties


class Problem(Protocol):
    """A statement to prove."""

    @property
    def identity(self) -> Identity:
        """The statement for the judge."""
        ...


P = TypeVar("P", bound=Problem)


class Writing(NamedTuple, Generic[P]):
    """How problems and answers become tokens."""

    prompt_ids: Callable[[P], Sequence[int]]
    answer_ids: Callable[[str], Sequence[int]]
    """With the end token."""
    answer_text: Callable[[Sequence[int]], str | None]
    """None where the tokens are no answer."""
    longest: int
    """Longest answer, in tokens."""
    eos_id: int


class Learner(Generic[P]):
    """A model and how it reads and writes."""

    def __init__(self, model: nn.Module, writing: Writing[P], *, batch: int = 48) -> None:
        """Remember both.

        Args:
            model: Causal model; ``model(ids).logits`` is ``(batch, tokens, vocabulary)``.
            writing: Its tokens.
            batch: Pairs a gradient step.
        """
        self.model = model
        self.writing = writing
        self.batch = batch

    def draw(
        self, problems: Sequence[P], samples: int, *, temperature: float, seed: int
    ) -> list[list[str | None]]:
        """Draw ``samples`` answers to each problem; None for one that can't be read."""
        if not problems:
            return []
        rows = [self.writing.prompt_ids(p) for p in problems for _ in range(samples)]
        rollouts = sample(
            self.model, rows, max_new_tokens=self.writing.longest, eos_id=self.writing.eos_id,
            generator=torch.Generator().manual_seed(seed), temperature=temperature,
        )  # fmt: skip
        texts = [self.writing.answer_text(ids) for ids in rollouts.completions()]
        return [texts[i : i + samples] for i in range(0, len(texts), samples)]

    def best(self, problems: Sequence[P]) -> list[str | None]:
        """Return the greedy answer to each problem."""
        return [text for (text,) in self.draw(problems, 1, temperature=GREEDY, seed=0)]

    def fit(
        self, pairs: Sequence[tuple[P, str]], steps: int, *, learning_rate: float, seed: int
    ) -> float:
        """Learn from pairs of problem and answer, drawn with replacement.

        Returns:
            The mean loss of the last tenth of the steps, in nats a token; NaN without steps.

        Raises:
            UserError: If training diverged.
        """
        generator = torch.Generator().manual_seed(seed)
        coded = [(self.writing.prompt_ids(p), self.writing.answer_ids(text)) for p, text in pairs]
        picks = torch.randint(len(coded), (steps, self.batch), generator=generator).tolist()
        batches = ([coded[i] for i in pick] for pick in picks)
        losses = supervised(self.model, batches, learning_rate=learning_rate)
        weights = self.model.parameters()
        if not all(map(isfinite, losses)) or not all(bool(w.isfinite().all()) for w in weights):
            raise UserError(
                f"training diverged at learning rate {learning_rate:g}: its loss or weights are "
                "not finite; give a smaller rate"
            )
        last = losses[-max(1, steps // 10) :]
        return sum(last) / len(last) if last else float("nan")

    def save(self, folder: Path) -> None:
        """Write the weights into a folder."""
        save_model(self.model, str(folder / "model.safetensors"))

    def load(self, folder: Path) -> None:
        """Read the weights back."""
        load_model(self.model, str(folder / "model.safetensors"))


def seeded(*parts: object) -> int:
    """Return a seed for each combination of parts, such as a run's seed and a round."""
    digest = sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:7], "big")
