"""A budget and a ledger around any model of inspect-ai."""

from __future__ import annotations

import copy
from typing import Any

from inspect_ai.model import ChatMessage, GenerateConfig, Model, ModelOutput
from inspect_ai.tool import ToolChoice, ToolInfo

from icml.core.chat.budget import Budget
from icml.core.chat.ledger import Ledger
from icml.core.chat.provider import message_tokens
from icml.core.errors import UserError


def metered(model: Model, *, budget: Budget | None = None, ledger: Ledger | None = None) -> Model:
    """Return a model whose every request is reserved and booked, also those inspect's agents make.

    A request holds its input, counted by `count_tokens`, and ``max_tokens`` of output; the answer
    settles it with the provider's own numbers (counted likewise where it gives none). An attempt
    that fails counts as a call. Answers from inspect's cache cost nothing.

    Args:
        model: It stays as it is.
        budget: Checked before each request.
        ledger: Booked after each answer.

    Returns:
        The same model, metered; `generate` raises `BudgetExceeded` before a request that could
        exceed the budget, and `UserError` for a budget of tokens where ``max_tokens`` isn't set.
    """
    api = copy.copy(model.api)
    inner = model.api.generate

    async def generate(
        input: list[ChatMessage],
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> Any:
        if budget is None:
            answer = await inner(input, tools, tool_choice, config)
            _book(answer, input, ledger)
            return answer
        with budget.reserve(_most(input, config, budget)) as held:
            answer = await inner(input, tools, tool_choice, config)
            read, written = _book(answer, input, ledger)
            held.settle(read + written)
        return answer

    vars(api)["generate"] = generate
    same = copy.copy(model)
    same.api = api
    return same


def _most(input: list[ChatMessage], config: GenerateConfig, budget: Budget) -> int:
    if budget.max_tokens is None:
        return 0
    if config.max_tokens is None:
        raise UserError(
            "a budget of tokens needs to know how long an answer may be: set max_tokens in the "
            "model's GenerateConfig"
        )
    return message_tokens(input) + config.max_tokens


def _book(answer: Any, input: list[ChatMessage], ledger: Ledger | None) -> tuple[int, int]:
    output = answer[0] if isinstance(answer, tuple) else answer
    if not isinstance(output, ModelOutput):  # a failure that the provider returns
        return 0, 0
    if output.usage is None:
        read = message_tokens(input)
        written = message_tokens([choice.message for choice in output.choices])
    else:
        written = output.usage.output_tokens
        # What comes from a provider's cache of prompts may be in the total alone.
        read = max(output.usage.input_tokens, output.usage.total_tokens - written)
    if ledger is not None:
        ledger.add(input_tokens=read, output_tokens=written)
    return read, written
