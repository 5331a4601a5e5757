"""The provider ``scripted/<name>`` of inspect-ai: answers by rules, offline, with exact usage."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    GenerateConfig,
    Model,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    StopReason,
    get_model,
)
from inspect_ai.tool import ToolCall, ToolChoice, ToolInfo

from icml.core.chat.rules import (
    Call,
    Reply,
    Rule,
    chosen,
    content,
    count_tokens,
    cut,
    read_script,
    reply_to,
)
from icml.core.errors import UserError

CONNECTIONS = 1000
"""At once (inspect's default of 10 a model would hold back many episodes side by side)."""


class RateLimited(Exception):
    """An injected failure: the provider would ask to wait."""


class ScriptedTimeout(TimeoutError):
    """An injected failure: no answer in time."""


class ScriptedAPI(ModelAPI):
    """Answers by rules; the same conversation gets the same answer whatever the order of calls."""

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig = GenerateConfig(),  # noqa: B008 - inspect's own default
        *,
        rules: Sequence[Rule] = (),
        script: str | None = None,
        seed: int = 0,
    ) -> None:
        """Take the rules.

        Args:
            model_name: Shown in logs.
            base_url: Not used.
            api_key: Not used.
            config: Of inspect.
            rules: Tried in order.
            script: A JSON file with rules, in place of ``rules``.
            seed: Of rules that draw.

        Raises:
            UserError: If there are no rules, or both kinds are given.
        """
        super().__init__(model_name, base_url, api_key, config=config)
        if bool(rules) == bool(script):
            raise UserError(
                "say what the scripted model answers: scripted([Rule(...)]) in Python, or "
                "-M script=rules.json on inspect's command line"
            )
        self.rules = list(rules) if rules else read_script(Path(str(script)))
        self.seed = int(seed)
        self._attempts: Counter[str] = Counter()

    def max_connections(self) -> int:
        """Return how many requests run at once."""
        return CONNECTIONS

    def should_retry(self, ex: Exception) -> bool:
        """Retry what was injected, as a real provider's failures are."""
        return isinstance(ex, RateLimited | ScriptedTimeout)

    def retry_wait(self) -> Any:
        """Return how long to wait before a retry: not at all."""
        return lambda state: 0.0

    async def count_text_tokens(self, text: str) -> int:
        """Count by the regular expression; inspect's own counting would download a file."""
        return count_tokens(text)

    async def generate(
        self,
        input: list[ChatMessage],
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> ModelOutput:
        """Answer a conversation.

        Raises:
            UserError: If no rule applies, or a rule calls a tool that is not offered.
            RateLimited: Where a rule says so.
            ScriptedTimeout: Where a rule says so.
        """
        rule = chosen(self.rules, input)
        self._fail(rule, json.dumps([config.seed]) + content(input))
        reply = reply_to(self.rules, rule, input, seeds=(self.seed, config.seed))
        return self._output(reply, input, [tool.name for tool in tools], config)

    def _fail(self, rule: Rule, request: str) -> None:
        """Raise the next of a rule's failures until this very request has had all of them."""
        if not rule.fails:
            return
        key = hashlib.sha256(request.encode(errors="surrogatepass")).hexdigest()
        self._attempts[key] += 1
        if self._attempts[key] <= len(rule.fails):
            kind = rule.fails[self._attempts[key] - 1]
            raise RateLimited("injected") if kind == "rate_limit" else ScriptedTimeout("injected")

    def _output(
        self, reply: Reply, input: list[ChatMessage], tools: list[str], config: GenerateConfig
    ) -> ModelOutput:
        calls: list[ToolCall] | None = None
        stop: StopReason = "stop"
        text = reply.text if isinstance(reply, Call) else reply
        if isinstance(reply, Call):
            if reply.tool not in tools:
                offered = ", ".join(tools) or "none"
                raise UserError(
                    f"the script calls the tool {reply.tool}, but those offered are: {offered}"
                )
            # Numbered by its place in the conversation: the same call has the same id.
            name = f"call-{len(input)}"
            calls = [ToolCall(id=name, function=reply.tool, arguments=dict(reply.arguments))]
            stop = "tool_calls"
        elif config.max_tokens is not None and count_tokens(text) > config.max_tokens:
            text, stop = cut(text, config.max_tokens), "max_tokens"
        message = ChatMessageAssistant(
            content=text, tool_calls=calls, model=self.model_name, source="generate"
        )
        read, written = message_tokens(input), message_tokens([message])
        return ModelOutput(
            model=self.model_name,
            choices=[ChatCompletionChoice(message=message, stop_reason=stop)],
            usage=ModelUsage(input_tokens=read, output_tokens=written, total_tokens=read + written),
        )


def message_tokens(messages: Sequence[ChatMessage]) -> int:
    """Count the tokens of messages: those of their texts, names of tools and arguments as JSON."""
    total = 0
    for message in messages:
        total += count_tokens(message.text)
        for call in getattr(message, "tool_calls", None) or []:
            total += count_tokens(call.function) + count_tokens(json.dumps(call.arguments))
    return total


def scripted(rules: Sequence[Rule], *, name: str = "model", seed: int = 0) -> Model:
    r"""Return an inspect-ai model that answers by rules.

    Args:
        rules: Tried in order.
        name: Shown in logs as ``scripted/<name>``.
        seed: Of rules that draw.

    Raises:
        UserError: If there are no rules.

    Example:
        >>> import asyncio
        >>> from icml.core.chat import Rule, scripted
        >>> model = scripted([Rule("4", when=r"2 \+ 2"), Rule("I don't know")])
        >>> asyncio.run(model.generate("What is 2 + 2?")).completion
        '4'
    """
    # Functions look alike to inspect's memory of models: two scripts would be taken for one.
    # Said outright, or inspect begins with 20 connections and adapts.
    config = GenerateConfig(max_connections=CONNECTIONS)
    return get_model(f"scripted/{name}", config=config, rules=list(rules), seed=seed, memoize=False)
