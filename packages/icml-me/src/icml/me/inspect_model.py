"""An ensemble as a model of inspect-ai (``pip install 'icml-me[inspect]'``).

::

    inspect eval task.py --model icml-me/pair -M models=pkg:smollm2,pkg:smollm2?layers=28
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import perf_counter
from typing import Any

from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    GenerateConfig,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    StopReason,
)
from inspect_ai.tool import ToolChoice, ToolInfo

from icml.core.errors import UserError
from icml.me.ensemble import Ensemble
from icml.me.result import FinishReason, GenerateResult
from icml.me.sampling import Method, WarpPlace

_MAX_TOKENS = 512  # ours, where the task doesn't say

_STOP_REASONS: dict[FinishReason, StopReason] = {
    "stop": "stop",
    "length": "max_tokens",
    "window": "model_length",
    "interrupted": "unknown",
}


class EnsembleAPI(ModelAPI):
    """Answers with an ensemble, one request at a time."""

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig = GenerateConfig(),  # noqa: B008 - inspect's own default
        *,
        models: str | Sequence[Any] = (),
        weights: str | Sequence[float] | None = None,
        method: Method = "me",
        warp: WarpPlace = "per_model",
        ensemble: Ensemble | None = None,
    ) -> None:
        """Load the members.

        Args:
            model_name: Shown in logs.
            base_url: Not used.
            api_key: Not used.
            config: Of inspect.
            models: Sources, in one text separated by commas, or as `Ensemble` takes them.
            weights: One a member, in one text separated by commas, or numbers.
            method: How tokens are drawn.
            warp: Where temperature, top-k and top-p are applied.
            ensemble: One that is loaded already, in place of models and weights.

        Raises:
            UserError: If there are no members.
        """
        super().__init__(model_name, base_url, api_key, config=config)
        if ensemble is None:
            sources = models.split(",") if isinstance(models, str) else list(models)
            if not sources or not sources[0]:
                raise UserError(
                    "say which models: -M models=pkg:smollm2,pkg:smollm2?layers=28, or "
                    "get_model('icml-me/name', models=[...])"
                )
            ensemble = Ensemble(sources, weights=_numbers(weights))
        self.ensemble = ensemble
        self.method: Method = method
        self.warp: WarpPlace = warp
        self._one_at_a_time = asyncio.Lock()

    def max_connections(self) -> int:
        """Return how many requests run at once."""
        return 1

    async def count_text_tokens(self, text: str) -> int:
        """Count by the first member's tokenizer; inspect's own counting would download a file."""
        return len(self.ensemble.members[0].tokenizer(text).input_ids)

    async def generate(
        self,
        input: list[ChatMessage],
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> ModelOutput:
        """Answer a conversation.

        Raises:
            UserError: If tools are offered, or the settings don't have the ensemble's law.
        """
        if tools:
            raise UserError("an ensemble calls no tools: run the task without them")
        messages = [{"role": each.role, "content": each.text} for each in input]
        async with self._one_at_a_time:
            start = perf_counter()
            result = await asyncio.to_thread(self._answer, messages, config)
        return self._output(result, perf_counter() - start)

    def _answer(self, messages: list[dict[str, str]], config: GenerateConfig) -> GenerateResult:
        top_p, top_k = config.top_p, config.top_k
        return self.ensemble.generate(
            messages,
            method=self.method,
            warp=self.warp,
            temperature=1.0 if config.temperature is None else config.temperature,
            top_k=0 if top_k is None else top_k,
            top_p=1.0 if top_p is None else top_p,
            max_new_tokens=config.max_tokens or _MAX_TOKENS,
            stop=config.stop_seqs or (),
            seed=config.seed,
        )

    def _output(self, result: GenerateResult, seconds: float) -> ModelOutput:
        written = result.stats.steps
        read = result.sequences.shape[1] - written
        choice = ChatCompletionChoice(
            message=ChatMessageAssistant(
                content=result.texts[0], model=self.model_name, source="generate"
            ),
            stop_reason=_STOP_REASONS[result.finish_reasons[0]],
        )
        usage = ModelUsage(input_tokens=read, output_tokens=written, total_tokens=read + written)
        return ModelOutput(
            model=self.model_name,
            choices=[choice],
            usage=usage,
            time=seconds,
            metadata={
                "members": list(result.stats.members),
                "forward_passes": list(result.stats.calls),
            },
        )


def _numbers(weights: str | Sequence[float] | None) -> Sequence[float] | None:
    if isinstance(weights, str):
        try:
            return [float(number) for number in weights.split(",")]
        except ValueError:
            raise UserError(
                f"weights must be numbers separated by commas, got {weights!r}"
            ) from None
    return weights
