"""The public class: several language models that write as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Literal

import torch
from torch import Tensor

from icml.core.errors import UserError
from icml.me.alignment.levels import Level, choose_level
from icml.me.alignment.union import UnionVocabulary
from icml.me.alignment.vocabulary import SharedVocabulary, Vocabulary
from icml.me.decode import Selection, Task, decode
from icml.me.likelihood import continuation_log_probabilities, mixture_law
from icml.me.members import load_members
from icml.me.prompts import Padded, Prompts, check_window, encode
from icml.me.result import EnsembleStats, GenerateResult
from icml.me.rows import Rows
from icml.me.sampling import Method, Sampling, WarpPlace, check_equivalent
from icml.me.state import MemberState
from icml.me.weights import Weights, normalise, split_weights


class Ensemble:
    """Language models that write one text together, each with its weight.

    Example:
        >>> pair = Ensemble(["random:llama?seed=1", "random:llama?seed=2"], devices=["cpu", "cpu"])
        >>> result = pair.generate("Once upon", max_new_tokens=8, seed=0)
        >>> result.stats.steps == sum(result.stats.calls)  # one forward pass a token
        True
    """

    def __init__(
        self,
        models: Sequence[Any],
        *,
        tokenizers: Any = None,
        weights: Weights = None,
        align: Literal["auto", "identical", "shared_prefix", "text"] = "auto",
        devices: Sequence[Any] | None = None,
    ) -> None:
        """Load and check the members.

        Args:
            models: Sources as `icml.core.models.load.load` takes them (``?layers=24`` behind one
                leaves out its middle blocks, so that 24 stay), ``LoadedModel`` objects, or decoders
                of transformers.
            tokenizers: One for all or one a member; None takes those that come with the models.
            weights: One a member, >= 0, scaled to the sum 1; or a `Router` that gives them for each
                token. None weighs all equally.
            align: How the tokenizers are matched (see `Level`); ``auto`` takes the most exact.
            devices: Where each member goes, as torch names it.

        Raises:
            UserError: If there is no member, one can't be a member, the weights are none, or the
                tokenizers can't be matched as asked.
        """
        self.members = tuple(load_members(models, tokenizers=tokenizers, devices=devices))
        self.router, self.weights = split_weights(weights, len(self.members))
        """``(members,)``; what a router says takes their place."""
        self.level: Level = choose_level(self.members, align)
        self._vocabulary: Vocabulary | None = None

    @property
    def vocabulary(self) -> Vocabulary:
        """What tokens are drawn from: the common vocabulary, or the union of different ones."""
        if self._vocabulary is None:
            kind = UnionVocabulary if self.level == "text" else SharedVocabulary
            self._vocabulary = kind(self.members)
        return self._vocabulary

    def generate(
        self,
        prompts: Prompts,
        *,
        method: Method = "me",
        member: int = 0,
        max_new_tokens: int = 128,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        warp: WarpPlace = "per_model",
        logits_processor: Any = None,
        stop: str | Sequence[str] = (),
        selection: Selection = "shared",
        seed: int | None = None,
        streamer: Any = None,
    ) -> GenerateResult:
        """Continue each prompt with tokens from the ensemble's law.

        Args:
            prompts: A text or several, a conversation or several (lists of messages with ``role``
                and ``content``), or ids ``(tokens,)`` or ``(batch, tokens)``.
            method: ``me`` draws one member a token and runs only that one; ``ce`` runs all and
                averages their laws; ``single`` runs one member.
            member: Which one, for ``single``.
            max_new_tokens: Tokens a row at most.
            temperature: Divides logits; 0 takes the most probable token (not in ME).
            top_k: Tokens to keep, 0 for all.
            top_p: Probability to keep, in (0, 1].
            warp: Apply temperature, top-k and top-p to each member's law or to the mixture.
            logits_processor: A ``LogitsProcessor`` or a list of them, applied to each member's
                logits before the warp.
            stop: Texts that end a row.
            selection: Draw one member for all rows of a batch, which keeps one forward pass a token
                but ties the rows together, or one for each row.
            seed: Of members and tokens; None takes another one each time.
            streamer: A ``BaseStreamer`` of transformers; for one prompt.

        Returns:
            The rows, who wrote what, and the cost. After Ctrl-C: what there was till then, with
            the finish reason ``interrupted``.

        Raises:
            UserError: If the settings don't have the ensemble's law, or an argument makes no sense.
        """
        sampling = Sampling(temperature, top_k, top_p, warp)
        check_equivalent(method, sampling)
        _check_counts(max_new_tokens, selection)
        stops = (stop,) if isinstance(stop, str) else tuple(stop)
        _check_stops(stops, self.members[0].tokenizer)
        padded = encode(prompts, self.members, by_text=self.level == "text")
        if streamer is not None:
            if len(padded[0].ids) > 1:
                raise UserError(f"a streamer takes one prompt, got {len(padded[0].ids)}")
            streamer.put(padded[0].ids)
        task = self._task(
            padded,
            method=method,
            member=member,
            sampling=sampling,
            selection=selection,
            max_new_tokens=max_new_tokens,
            generator=self._generator(seed),
            processors=self._processors(logits_processor),
        )
        return self._run(task, padded[0], stops, streamer)

    def continue_ids(
        self,
        ids: Tensor,
        mask: Tensor,
        *,
        max_new_tokens: int,
        processors: Any,
        criteria: Callable[[Tensor], Tensor],
        streamer: Any = None,
    ) -> GenerateResult:
        """Continue padded ids by ME with the processors and criteria of transformers' ``generate``.

        The random numbers are torch's global ones, as in ``generate``.

        Args:
            ids: ``(batch, tokens)``, padded on the left.
            mask: ``(batch, tokens)``, 0 for padding.
            max_new_tokens: Tokens a row at most.
            processors: A ``LogitsProcessorList``, which holds the warps too.
            criteria: Says of ``(batch, tokens)`` which rows end.
            streamer: A ``BaseStreamer``, which has been given the prompt.

        Raises:
            UserError: If the members have different tokenizers or a prompt is too long.
        """
        if self.level == "text":
            raise UserError("generate of transformers hands over ids: it needs members with one "
                            "vocabulary, use Ensemble.generate")  # fmt: skip
        padded = Padded(ids, mask.bool())
        for each in self.members:
            check_window(int(padded.mask.sum(1).max()), each)
        task = self._task(
            [padded] * len(self.members),
            method="me",
            member=0,
            sampling=Sampling(),
            selection="shared",
            max_new_tokens=max_new_tokens,
            generator=None,
            processors=processors,
            criteria=criteria,
        )
        return self._run(task, padded, (), streamer)

    def _task(
        self, padded: Sequence[Padded], *, method: Method, member: int, **settings: Any
    ) -> Task:
        states = self._states(padded)
        weigh = self._weigher(method, member, states)
        return Task(
            states=states, vocabulary=self.vocabulary, method=method, weigh=weigh, **settings
        )

    def _run(
        self, task: Task, prompts: Padded, stops: Sequence[str], streamer: Any
    ) -> GenerateResult:
        followed = bool(stops) or self.level == "text" or self.router is not None
        rows = Rows(
            prompts.ids,
            pad_id=self.members[0].pad_id,
            streams=self._streams(len(prompts.ids)) if followed else None,
            stop=stops,
            listen=_listener(streamer, task.states[0], prompts),
        )
        start = perf_counter()
        decode(task, rows)
        seconds = perf_counter() - start
        if streamer is not None:
            streamer.end()
        return GenerateResult(
            sequences=self._sequences(task, rows),
            texts=self._texts(rows, followed=followed),
            chosen_member=rows.authors(),
            finish_reasons=tuple(rows.reasons),
            stats=_stats(task.states, rows.steps, seconds),
        )

    def _states(self, padded: Sequence[Padded]) -> list[MemberState]:
        return [
            MemberState(member, rows.ids, rows.mask)
            for member, rows in zip(self.members, padded, strict=True)
        ]

    def _weigher(
        self, method: Method, member: int, states: Sequence[MemberState]
    ) -> Callable[[Rows], Tensor]:
        if method == "single":
            if not 0 <= member < len(self.members):
                raise UserError(f"member must be in [0, {len(self.members)}), got {member}")
            alone = torch.zeros(1, len(self.members), dtype=torch.float64)
            alone[0, member] = 1
            return lambda rows: alone
        if self.router is None:
            return lambda rows: self.weights[None]
        return lambda rows: torch.stack(
            [self._route(states[0].ids[r][states[0].mask[r]], rows.text(r), rows.steps)
             for r in range(rows.count)]
        )  # fmt: skip

    def _route(self, ids: Tensor, text: str, step: int) -> Tensor:
        assert self.router is not None
        return normalise(self.router(ids, text, step), len(self.members))

    def _generator(self, seed: int | None) -> torch.Generator:
        generator = torch.Generator(self.members[0].device)
        if seed is None:
            generator.seed()
        elif not isinstance(seed, int) or not -(2**63) <= seed < 2**63:
            raise UserError(f"seed must be a whole number of at most 63 bits, got {seed!r}")
        else:
            generator.manual_seed(seed)
        return generator

    def _processors(self, given: Any) -> Any:
        if given is None:
            return None
        if self.level == "text":
            raise UserError(
                "logits_processor needs members with one vocabulary: ids mean different texts to "
                "members with different tokenizers"
            )
        from transformers import LogitsProcessorList

        return LogitsProcessorList(given if isinstance(given, list) else [given])

    def _streams(self, count: int) -> list[Any] | None:
        streams = [self.vocabulary.stream() for _ in range(count)]
        return None if streams[0] is None else streams

    def _sequences(self, task: Task, rows: Rows) -> Tensor:
        if self.level != "text":
            return rows.sequences()
        first = task.states[0]
        written = [first.ids[r][first.mask[r]].cpu() for r in range(rows.count)]
        return torch.nn.utils.rnn.pad_sequence(written, True, first.member.pad_id)

    def _texts(self, rows: Rows, *, followed: bool) -> list[str]:
        if self.members[0].tokenizer is None:
            return []
        if followed:
            return [rows.text(row) for row in range(rows.count)]
        return self.members[0].tokenizer.batch_decode(
            rows.new_tokens(), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )

    def next_distribution(self, prompt: Prompts) -> Tensor:
        """Return the ensemble's law of the next token, every member being run.

        Args:
            prompt: One prompt, as `generate` takes it.

        Returns:
            ``(vocabulary,)`` probabilities over the ensemble's vocabulary.
        """
        padded = encode(prompt, self.members, by_text=self.level == "text")
        ids = padded[0].ids[0]
        weights = self.weights if self.router is None else self._route(ids, "", 0)
        return mixture_law(self._states(padded), self.vocabulary, weights[None])[0]

    def logprobs(self, prompt: str | Tensor, continuation: str | Tensor) -> Tensor:
        """Return the exact log-probability of each token of a text under the ensemble, in nats.

        log sum_i lambda_i M_i(y_t | prompt, y_<t), every member being run.

        Args:
            prompt: A text, or ids ``(tokens,)``.
            continuation: A text (its tokens are taken on their own), or ids ``(tokens,)``.

        Returns:
            ``(continuation tokens,)``, float32.

        Raises:
            UserError: If the members have different tokenizers, in which one text can be written
                in many ways, or the text is empty or too long.
        """
        return self.score(prompt, continuation)[0]

    def score(self, prompt: str | Tensor, continuation: str | Tensor) -> tuple[Tensor, Tensor]:
        """Return `logprobs`, and whether each token is the ensemble's most probable one."""
        if self.level == "text":
            raise UserError(
                "logprobs needs members with one vocabulary: with different tokenizers one text "
                "is written in many ways, whose probabilities would have to be added up"
            )
        before = encode(prompt, self.members, by_text=False)[0].ids[0]
        if isinstance(continuation, str):
            tokenizer = self.members[0].tokenizer
            continuation = torch.tensor(
                tokenizer(continuation, add_special_tokens=False).input_ids, dtype=torch.long
            )
        return continuation_log_probabilities(
            self.members, self.vocabulary, self._weights_along, before, continuation
        )

    def _weights_along(self, ids: Tensor, start: int) -> Tensor:
        """Return the weights at each position of a text from ``start`` on, ``(positions, n)``."""
        if self.router is None:
            return self.weights.expand(len(ids) - start, -1)
        stream, text, weights = self.vocabulary.stream(), "", []
        for step, end in enumerate(range(start, len(ids))):
            if step and stream is not None:
                text += stream.push(int(ids[end - 1]))
            weights.append(self._route(ids[:end], text, step))
        return torch.stack(weights)

    def with_weights(self, weights: Weights) -> Ensemble:
        """Return an ensemble of the same members with other weights; nothing is loaded anew."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.router, other.weights = split_weights(weights, len(self.members))
        return other


def _check_counts(max_new_tokens: int, selection: str) -> None:
    if max_new_tokens < 1:
        raise UserError(f"max_new_tokens must be at least 1, got {max_new_tokens}")
    if selection not in ("shared", "per_row"):
        raise UserError(f"selection must be 'shared' or 'per_row', got {selection!r}")


def _check_stops(stops: Sequence[str], tokenizer: Any) -> None:
    if not all(isinstance(stop, str) and stop for stop in stops):
        raise UserError(f"stop must be texts that are not empty, got {list(stops)}")
    if stops and tokenizer is None:
        raise UserError("stop needs tokenizers: the members have none")


def _listener(streamer: Any, first: MemberState, prompts: Padded) -> Callable[[Tensor], Any] | None:
    """Return what tells a streamer the first member's new tokens."""
    if streamer is None:
        return None
    told = prompts.ids.shape[1]

    def listen(tokens: Tensor) -> None:
        nonlocal told
        new = first.ids[0, told:][first.mask[0, told:]]
        told = first.ids.shape[1]
        if len(new):
            streamer.put(new.cpu())

    return listen


def _stats(states: Sequence[MemberState], steps: int, seconds: float) -> EnsembleStats:
    return EnsembleStats(
        members=tuple(state.member.name for state in states),
        calls=tuple(state.calls for state in states),
        tokens=tuple(state.tokens for state in states),
        seconds=tuple(state.seconds for state in states),
        steps=steps,
        total_seconds=seconds,
    )
