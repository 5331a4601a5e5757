"""A causal language model as a prover: transformers' own ``generate``, several answers a goal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icml.core.errors import UserError, require
from icml.wzllm.provers.protocol import Candidate, Proposed
from icml.wzllm.statement import Identity

if TYPE_CHECKING:
    from icml.wzllm.lean.sketch import SubGoal

__all__ = ["GOAL_PROMPT", "STATEMENT_PROMPT", "TransformersProver"]

STATEMENT_PROMPT = "{statement}\n"
"""How `icml wzllm train`'s recipes ask for a certificate, unless they say otherwise."""

GOAL_PROMPT = """Give a Lean 4 term that proves the goal. Answer with the term alone.

Definitions:
{context}

Goal:
{statement}
"""
"""How a sub-goal is asked for."""


class TransformersProver:
    """Draws answers from a model of transformers, whose tokenizer may have a chat template.

    The first answer to each goal is the likeliest one token by token, the others are drawn. Equal
    seeds give equal answers on one machine.

    Example::

        prover = TransformersProver.load("runs/wzllm/train/tiny")  # of `icml wzllm train tiny`
        proof = prove("sum(k,0,n,binomial(n,k)*3^k) = 4^n", prover=prover)
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        prompt: str = STATEMENT_PROMPT,
        goal_prompt: str = GOAL_PROMPT,
        longest: int = 256,
        temperature: float = 1.0,
        batch: int = 32,
        name: str = "model",
    ) -> None:
        """Remember a model and how it is asked.

        Args:
            model: A causal model with ``generate``.
            tokenizer: Its tokenizer, with an end token.
            prompt: Holds ``{statement}``.
            goal_prompt: Holds ``{context}`` and ``{statement}``.
            longest: Longest answer, in tokens.
            temperature: Of the draws, above 0.
            batch: Answers that are generated at a time.
            name: For records.

        Raises:
            UserError: If the tokenizer has no end token, or a number or prompt makes no sense.
        """
        if tokenizer.eos_token_id is None:
            raise UserError("the tokenizer has no end token, so no answer would ever end")
        if "{statement}" not in prompt or "{statement}" not in goal_prompt:
            raise UserError("a prompt needs {statement}, where the statement goes")
        if longest < 1 or batch < 1 or not 0 < temperature < float("inf"):
            raise UserError(
                "longest and batch must be 1 or more and temperature above 0, "
                f"got {longest}, {batch} and {temperature}"
            )
        room = getattr(model.config, "max_position_embeddings", None)
        if room is not None and longest >= room:
            raise UserError(
                f"an answer of {longest} tokens leaves no room for a prompt in {name}'s {room}; "
                "give a model with a longer context, or a smaller longest"
            )
        self.model = model
        self.tokenizer = tokenizer
        self.prompt = prompt
        self.goal_prompt = goal_prompt
        self.longest = longest
        self.temperature = temperature
        self.batch = batch
        self.name = name

    @classmethod
    def load(
        cls, source: str | Path, *, device: str | None = None, **options: Any
    ) -> TransformersProver:
        """Load a model, or the last one that a training run left behind.

        Args:
            source: The folder of an `icml wzllm train` run, whose recipe gives prompt and longest
                answer; or anything that :func:`icml.core.models.load` knows.
            device: Where to; the accelerator if there is one when None.
            options: For the constructor, instead of the recipe's.

        Raises:
            MissingExtra: If torch or transformers is missing.
            UserError: If there is no such model.
        """
        require("transformers", extra="icml-wzllm[train]")
        from icml.core.models.load import load

        folder, found = _training_run(Path(source)), {}
        if folder is not None:
            found = _recipe_options(Path(source) / "recipe.json")
        loaded = load(source if folder is None else folder, device=device)
        chosen: dict[str, Any] = {"name": f"model:{source}", **found, **options}
        return cls(loaded.model, loaded.tokenizer, **chosen)

    def propose(self, goals: Sequence[Identity | SubGoal], n: int, seed: int) -> Sequence[Proposed]:
        """Generate ``n`` answers to each goal; see :class:`icml.wzllm.provers.Prover`."""
        return [self._one(goal, n, seed) for goal in goals]

    def _one(self, goal: Identity | SubGoal, n: int, seed: int) -> Proposed:
        is_statement = isinstance(goal, Identity)
        ids = self._prompt_ids(self._question(goal))
        room = getattr(self.model.config, "max_position_embeddings", None)
        if room is not None and ids.shape[1] + self.longest > room:
            return Proposed(
                (),
                f"{self.name}: a prompt of {ids.shape[1]} tokens and an answer of {self.longest} "
                f"don't fit into the model's {room}",
            )
        texts = self._answers(ids, n, seed)
        kind = "answer" if is_statement else "term"
        return Proposed(tuple(Candidate(kind, text) for text in texts))

    def _question(self, goal: Identity | SubGoal) -> str:
        if isinstance(goal, Identity):
            return self.prompt.replace("{statement}", str(goal))
        parts = self.goal_prompt.split("{statement}")
        return goal.statement.join(part.replace("{context}", goal.context) for part in parts)

    def _prompt_ids(self, text: str) -> Any:
        """Return the prompt's tokens ``(1, tokens)``, as training writes them."""
        if self.tokenizer.chat_template is None:
            return self.tokenizer(text, return_tensors="pt")["input_ids"]
        asked = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
        )
        return self.tokenizer(asked, add_special_tokens=False, return_tensors="pt")["input_ids"]

    def _answers(self, ids: Any, n: int, seed: int) -> list[str]:
        """Generate answers to one prompt, in batches; equal prompts need no padding."""
        import torch

        device = next(self.model.parameters()).device
        ids = ids.to(device)
        eos = self.tokenizer.eos_token_id
        common = {
            "attention_mask": torch.ones_like(ids),
            "max_new_tokens": self.longest,
            "eos_token_id": eos,
            "pad_token_id": eos,
        }
        sampled = {"do_sample": True, "temperature": self.temperature, "top_k": 0, "top_p": 1.0}
        devices = [device] if device.type == "cuda" else []
        rows: list[Any] = []
        with torch.no_grad(), torch.random.fork_rng(devices):
            torch.manual_seed(seed)
            if n > 0:
                rows += self.model.generate(ids, do_sample=False, **common)
            while len(rows) < n:
                count = min(self.batch, n - len(rows))
                rows += self.model.generate(ids, num_return_sequences=count, **sampled, **common)
        start = ids.shape[1]
        return [self.tokenizer.decode(row[start:], skip_special_tokens=True) for row in rows]


def _training_run(folder: Path) -> Path | None:
    """Return the model of a training run: after DAPO if that has ended, else before it."""
    if not (folder / "recipe.json").is_file():
        return None
    early = folder / "bootstrap" / "model"
    if (folder / "result.json").is_file():
        return folder
    if not (early / "config.json").is_file():
        raise UserError(f"the training run in {folder} has no model yet: let it end first")
    return early


def _recipe_options(file: Path) -> dict[str, Any]:
    try:
        recipe = json.loads(file.read_text(encoding="utf-8"))
        return {
            "prompt": str(recipe["statements"]["prompt"]),
            "longest": int(recipe["bootstrap"]["longest"]),
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file} isn't a recipe of `icml wzllm train`: {error}") from error
