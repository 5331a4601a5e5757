"""``icml me generate``: the answer on stdout while it is written, its cost on stderr."""

from __future__ import annotations

import sys
from typing import Any

from icml.me.ensemble import Ensemble
from icml.me.options import GenerateOptions
from icml.me.prompts import Prompts

_INTERRUPTED = 130  # 128 + SIGINT


def write(options: GenerateOptions) -> int:
    """Load the members and stream their answer.

    Returns:
        0, or 130 after Ctrl-C.
    """
    from transformers import TextStreamer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    ensemble = Ensemble(options.models, weights=options.weight_values)
    first = ensemble.members[0].tokenizer
    streamer = TextStreamer(first, skip_prompt=True, skip_special_tokens=True)
    result = ensemble.generate(
        _prompt(options, first),
        method=options.method,
        max_new_tokens=options.max_new_tokens,
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        stop=options.stop,
        seed=options.seed,
        streamer=streamer,
    )
    print(result.stats, file=sys.stderr)
    return _INTERRUPTED if result.finish_reasons[0] == "interrupted" else 0


def _prompt(options: GenerateOptions, tokenizer: Any) -> Prompts:
    if options.raw or not getattr(tokenizer, "chat_template", None):
        return options.prompt
    return [{"role": "user", "content": options.prompt}]
