"""An ensemble as a model of lm-evaluation-harness (``pip install 'icml-me[lm-eval]'``).

::

    from lm_eval import simple_evaluate
    from icml.me.lm_eval import EnsembleLM

    settings = "do_sample=true,temperature=1"
    simple_evaluate(EnsembleLM(ensemble), tasks=["gsm8k"], gen_kwargs=settings)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from icml.core.errors import UserError, require
from icml.me.ensemble import Ensemble
from icml.me.sampling import Method, WarpPlace

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance
    from lm_eval.api.model import TemplateLM
else:
    TemplateLM = require("lm_eval.api.model", extra="icml-me[lm-eval]").TemplateLM


class EnsembleLM(TemplateLM):
    """Generates by ME, and scores by the exact mixture of all members."""

    def __init__(
        self,
        ensemble: Ensemble,
        *,
        method: Method = "me",
        warp: WarpPlace = "per_model",
        max_gen_toks: int = 256,
        seed: int = 0,
    ) -> None:
        """Wrap an ensemble.

        Args:
            ensemble: Members with one vocabulary, for tasks that score; any for others.
            method: How tasks that generate do it.
            warp: Where temperature, top-k and top-p are applied.
            max_gen_toks: New tokens at most, where the task doesn't say.
            seed: Of the first request; each further one takes the next.
        """
        super().__init__()
        self.ensemble = ensemble
        self.method: Method = method
        self.warp: WarpPlace = warp
        self.max_gen_toks = max_gen_toks
        self._seed = seed

    @property
    def tokenizer(self) -> Any:
        """The first member's."""
        return self.ensemble.members[0].tokenizer

    @property
    def eot_token_id(self) -> int:
        """The first member's end token."""
        return self.tokenizer.eos_token_id

    @property
    def prefix_token_id(self) -> int:
        """What an empty context is replaced with."""
        begin = self.tokenizer.bos_token_id
        return self.eot_token_id if begin is None else begin

    @property
    def tokenizer_name(self) -> str:
        """Names the tokenizer in the harness's caches."""
        return self.ensemble.members[0].name

    def tok_encode(
        self, string: str, add_special_tokens: bool | None = None, **kwargs: Any
    ) -> list[int]:
        """Return the ids of a text."""
        special = True if add_special_tokens is None else add_special_tokens
        return self.tokenizer(string, add_special_tokens=special).input_ids

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """Return a conversation as one text, by the first member's template."""
        return self.tokenizer.apply_chat_template(
            chat_history, tokenize=False, add_generation_prompt=add_generation_prompt,
            continue_final_message=not add_generation_prompt,
        )  # fmt: skip

    def _loglikelihood_tokens(
        self,
        requests: Sequence[tuple[tuple[str, str], list[int], list[int]]],
        disable_tqdm: bool = False,
        **kwargs: Any,
    ) -> list[tuple[float, bool]]:
        """Return each continuation's log-probability in nats and whether greedy would write it."""
        found = []
        for pair, context, continuation in requests:
            # What doesn't fit is cut from the left of the context, as the harness does.
            room = self.window + 1 - len(continuation)
            if room < 1:
                raise UserError(
                    f"a continuation has {len(continuation)} tokens, the shortest window is "
                    f"{self.window}"
                )
            logp, greedy = self.ensemble.score(
                torch.tensor(context[-room:]), torch.tensor(continuation)
            )
            answer = (float(logp.sum()), bool(greedy.all()))
            self.cache_hook.add_partial("loglikelihood", pair, answer)
            found.append(answer)
        return found

    @property
    def window(self) -> int:
        """The shortest context window of the members, in tokens."""
        return min(member.window for member in self.ensemble.members)

    def loglikelihood_rolling(
        self, requests: list[Instance], disable_tqdm: bool = False
    ) -> list[float]:
        """Return the log-probability of whole texts in nats, window by window where long."""
        from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

        found = []
        for request in requests:
            (text,) = request.args
            windows = get_rolling_token_windows(
                self.tok_encode(text, add_special_tokens=False),
                prefix_token=self.prefix_token_id,
                max_seq_len=self.window - 1,
                context_len=1,
            )
            parts = [(("", ""), *make_disjoint_window(each)) for each in windows]
            total = sum(score for score, _ in self._loglikelihood_tokens(parts))
            self.cache_hook.add_partial("loglikelihood_rolling", (text,), total)
            found.append(total)
        return found

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Return what the ensemble writes after each context.

        Raises:
            UserError: If the task asks for greedy decoding, which ME has not.
        """
        found = []
        for request in requests:
            context, settings = request.args
            text = self._continue(context, dict(settings))
            self.cache_hook.add_partial("generate_until", (context, settings), text)
            found.append(text)
        return found

    def _continue(self, context: str, settings: dict[str, Any]) -> str:
        until = settings.pop("until", None) or []
        length = int(settings.pop("max_gen_toks", self.max_gen_toks))
        temperature = float(settings.pop("temperature", 1.0))
        if not settings.pop("do_sample", temperature > 0):
            temperature = 0.0
        kept = {name: settings.pop(name) for name in ("top_k", "top_p") if name in settings}
        if settings:
            raise UserError(f"the task sets {sorted(settings)}, which an ensemble doesn't have")
        if temperature == 0 and (self.method == "me" or self.warp == "per_model"):
            raise UserError(
                "the task decodes greedily, which ME can't do: pass "
                "gen_kwargs='do_sample=true,temperature=1', or EnsembleLM(method='ce', "
                "warp='after_mix')"
            )
        self._seed += 1
        result = self.ensemble.generate(
            context, method=self.method, warp=self.warp, temperature=temperature,
            stop=until, max_new_tokens=length, seed=self._seed - 1, **kept,
        )  # fmt: skip
        return result.texts[0]
