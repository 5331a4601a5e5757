"""What an ensemble gives to a text: the exact mixture, all members being run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from icml.core.errors import UserError
from icml.core.models.steps import next_distributions
from icml.me.alignment.vocabulary import Vocabulary
from icml.me.members import Member
from icml.me.sampling import Sampling, mix
from icml.me.state import MemberState

_CHUNK = 64  # positions whose probabilities exist at a time


def mixture_law(
    states: Sequence[MemberState],
    vocabulary: Vocabulary,
    weights: Tensor,
    sampling: Sampling | None = None,
) -> Tensor:
    """Return the mean of the members' laws of the next token, ``(batch, vocabulary)``.

    Args:
        states: What each member has read; it reads what is pending.
        vocabulary: The ensemble's.
        weights: ``(1, members)``; members of weight 0 are not run.
        sampling: The warp, applied to each member or to the mixture as it says; None for none.
    """
    warp = sampling or Sampling()
    inner = Sampling() if warp.place == "after_mix" else warp
    drawn = [i for i, weight in enumerate(weights[0].tolist()) if weight > 0]
    with torch.no_grad():
        laws = [
            vocabulary.spread(i, inner.probabilities(vocabulary.own(i, states[i].next_logits())))
            for i in drawn
        ]
    mixture = mix([law.to(laws[0].device) for law in laws], weights[:, drawn])
    if warp.place == "after_mix" and not warp.identity:
        return warp.probabilities(mixture.log())
    return mixture


def continuation_log_probabilities(
    members: Sequence[Member],
    vocabulary: Vocabulary,
    weigh: Callable[[Tensor, int], Tensor],
    prompt: Tensor,
    continuation: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return log sum_i lambda_i M_i(y_t | x, y_<t) of each token, and whether it is the favourite.

    Args:
        members: All of one vocabulary.
        vocabulary: The ensemble's.
        weigh: From the whole text and the place of the continuation to weights ``(tokens, n)``.
        prompt: ``(tokens,)`` ids.
        continuation: ``(tokens,)`` ids.

    Returns:
        Two tensors ``(continuation tokens,)``: float32 in nats, and bool.

    Raises:
        UserError: If the continuation is empty or too long, or a member's logits are no numbers.
    """
    if continuation.dim() != 1 or not len(continuation):
        raise UserError(
            f"continuation must be (tokens,), at least one, got {tuple(continuation.shape)}"
        )
    ids = torch.cat([prompt.cpu(), continuation.cpu()])
    for member in members:
        if len(ids) - 1 > member.window:
            raise UserError(
                f"the text has {len(ids)} tokens, {member.name} can read {member.window}"
            )
    weights = weigh(ids, len(prompt))
    readers = [i for i in range(len(members)) if bool((weights[:, i] > 0).any())]
    found, favourites = [], []
    laws = zip(*(_laws(members[i], vocabulary, i, ids, len(prompt)) for i in readers), strict=True)
    place = 0
    for slices in laws:
        here = slice(place, place + len(slices[0]))
        mixture = mix([law.cpu() for law in slices], weights[here][:, readers])
        wanted = continuation.cpu()[here]
        found.append(mixture.gather(1, wanted[:, None])[:, 0].log())
        favourites.append(mixture.argmax(1) == wanted)
        place = here.stop
    return torch.cat(found), torch.cat(favourites)


def _laws(
    member: Member, vocabulary: Vocabulary, number: int, ids: Tensor, start: int
) -> Iterator[Tensor]:
    """Yield the laws of the tokens from ``start`` on, ``(up to _CHUNK, vocabulary)`` each."""

    def law(logits: Tensor) -> Tensor:
        flat = vocabulary.own(number, logits.flatten(0, -2))
        if not bool(torch.isfinite(flat.amax(1)).all()):
            raise UserError(f"{member.name} gives logits that are NaN or infinite")
        return Sampling().probabilities(flat)

    read = ids[None, :-1].to(member.device)
    slices = next_distributions(member.model, read, warp=law, chunk_positions=_CHUNK)
    place = 0
    for each in slices:
        rows = each.reshape(-1, each.shape[-1])
        first = max(0, start - 1 - place)
        place += len(rows)
        if first < len(rows):
            yield rows[first:]
