"""The decoding loop of all three methods: ME, the conventional ensemble (CE), one member alone.

One step of each (Sec. 2), T being a member's warp::

    CE   P = sum_i lambda_i T(M_i(. | x)),  y ~ P
    ME   z ~ Categorical(lambda),           y ~ T(M_z(. | x))

The law of y is the same. CE makes a forward pass of every member with a weight, ME one of the
member that was drawn; one member alone is either with all weight on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from icml.me.alignment.union import one_hot
from icml.me.alignment.vocabulary import Vocabulary
from icml.me.result import FinishReason
from icml.me.rows import Rows
from icml.me.sampling import Method, Sampling, mix
from icml.me.state import MemberState
from icml.me.weights import draw_members

Selection = Literal["shared", "per_row"]
"""One draw of a member for all rows of a batch; or one a row."""


@dataclass(frozen=True)
class Task:
    """What to generate and how."""

    states: Sequence[MemberState]
    vocabulary: Vocabulary
    method: Method
    weigh: Callable[[Rows], Tensor]
    """``(batch, members)`` or ``(1, members)`` weights for the next token, on the CPU."""
    sampling: Sampling
    selection: Selection
    max_new_tokens: int
    generator: torch.Generator | None
    """None is torch's global one."""
    processors: Any = None
    """Applied to each member's logits before the warp, as transformers' ``LogitsProcessorList``."""
    criteria: Callable[[Tensor], Tensor] | None = None
    """Says of ``(batch, tokens)`` which rows end."""


@torch.no_grad()
def decode(task: Task, rows: Rows) -> None:
    """Generate until every row has ended; after Ctrl-C the rows hold what there was till then."""
    writer = task.vocabulary.writer(task.states, rows.count)
    try:
        for step in range(task.max_new_tokens):
            weights = writer.weights(task.weigh(rows))
            tokens, members, authors = _draw(task, rows, weights.expand(rows.count, -1))
            tokens = torch.where(rows.active, tokens, rows.pad_id)
            writer.write(tokens, rows.active, authors)
            rows.add(tokens, members)
            _finish(task, rows, last=step + 1 == task.max_new_tokens)
            if not bool(rows.active.any()):
                break
    except KeyboardInterrupt:
        rows.end(rows.active.clone(), "interrupted")
    rows.close()


def _draw(task: Task, rows: Rows, weights: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
    """Draw one token a row.

    Returns:
        The tokens ``(batch,)``; who wrote each, None where all did; and ``(batch, members)``
        weights of those who can have written it.
    """
    if task.method == "me":
        law, members = _one_members_law(task, rows, weights)
        tokens = _sample(law, task.generator)
        return tokens, members, one_hot(members, len(task.states))
    laws = {i: _law(task, i) for i in range(len(task.states)) if bool((weights[:, i] > 0).any())}
    kept = weights[:, list(laws)]
    tokens = _sample(_mixture(task, list(laws.values()), kept), task.generator)
    seen = torch.stack([_at(law, tokens) for law in laws.values()], 1)
    authors = torch.zeros_like(weights)
    authors[:, list(laws)] = kept * seen
    return tokens, None, authors / authors.sum(1, keepdim=True)


def _one_members_law(task: Task, rows: Rows, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Draw z and return each row's law of M_z with the rows' members."""
    count = 1 if task.selection == "shared" else rows.count
    device = task.generator.device if task.generator is not None else None
    uniforms = torch.rand(count, generator=task.generator, dtype=torch.float64, device=device)
    members = draw_members(weights, uniforms.cpu())
    drawn = sorted(set(members[rows.active].tolist()))
    laws = [_law(task, member) for member in drawn]
    law = laws[0]
    for member, other in zip(drawn[1:], laws[1:], strict=True):
        law = torch.where((members == member)[:, None].to(law.device), other.to(law), law)
    return law, members


def _law(task: Task, member: int) -> Tensor:
    """Return T(M_i(. | x)) over the ensemble's vocabulary, ``(batch, vocabulary)``."""
    state = task.states[member]
    logits = task.vocabulary.own(member, state.next_logits())
    if task.processors is not None:
        logits = task.processors(state.ids, logits.float())
    if task.sampling.place == "after_mix":
        law = Sampling().probabilities(logits)
    else:
        law = task.sampling.probabilities(logits)
    return task.vocabulary.spread(member, law).to(task.states[0].member.device)


def _mixture(task: Task, laws: list[Tensor], weights: Tensor) -> Tensor:
    mixture = mix(laws, weights)
    if task.sampling.place == "after_mix" and not task.sampling.identity:
        return task.sampling.probabilities(mixture.log())
    return mixture


def _sample(law: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.multinomial(law, 1, generator=generator)[:, 0].cpu()


def _at(law: Tensor, tokens: Tensor) -> Tensor:
    return law.gather(1, tokens.to(law.device)[:, None])[:, 0].cpu()


def _finish(task: Task, rows: Rows, *, last: bool) -> None:
    ended = rows.ended(task.vocabulary.ends)
    if task.criteria is not None:
        ended = ended | task.criteria(rows.sequences()).cpu()
    rows.end(ended, "stop")
    for state in task.states:
        if state.ids.shape[1] >= state.member.window:
            rows.end(state.lengths.cpu() >= state.member.window, "window")
    if last:
        reason: FinishReason = "length"
        rows.end(rows.active.clone(), reason)
