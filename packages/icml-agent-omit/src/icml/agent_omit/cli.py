"""``icml agent-omit …``: thin sub-commands, each calls one public function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg


@dataclass(frozen=True)
class ReplayOptions:
    """Which logs to count, and how."""

    logs: Annotated[
        Positional[tuple[Path, ...]], arg(metavar="LOG...", help_behavior_hint="(required)")
    ]
    """Logs of agents: OpenAI-style messages as JSON Lines or JSON, or inspect-ai's .eval."""
    keep_last: int = 2
    """Observations that the rule "keep the last" shows."""
    tokenizer: Annotated[
        str | None, arg(metavar="SOURCE", help_behavior_hint="(default: words and marks)")
    ] = None
    """What counts: a tokenizer.json, a model's folder or hub id, or pkg:smollm2."""
    turns: int = 10
    """Rows of the table by turn, at least 2."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        if not self.logs:
            raise ValueError("give at least one LOG")
        if self.keep_last < 1:
            raise ValueError(f"--keep-last must be >= 1, got {self.keep_last}")
        if self.turns < 2:
            raise ValueError(f"--turns must be >= 2, got {self.turns}")


def replay(options: ReplayOptions) -> None:
    """Say what omission would save on logs that you have: tokens by rule and by turn."""
    from icml.agent_omit.replay import replay as run
    from icml.agent_omit.replay import standard_rules, token_counter

    rules = standard_rules(options.keep_last)
    found = run(options.logs, rules=rules, count=token_counter(options.tokenizer))
    for line in found.lines(options.turns):
        print(line)


app: Mapping[str, Callable[[Any], int | None]] = {
    "replay": replay,
}
