"""ME inside transformers' own ``generate``: ``model.generate(custom_generate=me_generate, …)``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from icml.core.errors import UserError
from icml.me.ensemble import Ensemble


def me_generate(
    model: Any,
    input_ids: Tensor,
    logits_processor: Any,
    stopping_criteria: Any,
    generation_config: Any,
    *,
    ensemble: Ensemble,
    token_streamer: Any = None,
    **model_kwargs: Any,
) -> Any:
    """Sample from an ensemble by ME; for the argument ``custom_generate`` of ``generate``.

    ``generate`` prepares everything as usual. Temperature, top-k, top-p and other processors apply
    to each member's logits, stopping criteria and ``transformers.set_seed`` work.

    Args:
        model: The model whose ``generate`` was called; a member of the ensemble.
        input_ids: ``(batch, tokens)``, padded on the left.
        logits_processor: What ``generate`` made of its settings.
        stopping_criteria: What ``generate`` made of its settings.
        generation_config: Must sample, with one beam.
        ensemble: Members with one vocabulary.
        token_streamer: A ``BaseStreamer``. Under the name ``streamer`` transformers 5.24 keeps it
            to itself and shows it the prompt alone.
        **model_kwargs: Of these the attention mask is used.

    Returns:
        ``(batch, tokens)`` ids, or with ``return_dict_in_generate`` an output that holds them.

    Raises:
        UserError: If the settings don't have the ensemble's law or ask for what ME doesn't have.

    Example:
        >>> pair = Ensemble(["random:llama?seed=1", "random:llama?seed=2"], devices=["cpu", "cpu"])
        >>> prompt = torch.tensor([[5, 6]])
        >>> pair.members[0].model.generate(
        ...     prompt, custom_generate=me_generate, ensemble=pair, do_sample=True,
        ...     max_new_tokens=3, eos_token_id=None, attention_mask=torch.ones_like(prompt),
        ... ).shape[0]
        1
    """
    _check(model, generation_config, ensemble)
    mask = model_kwargs.get("attention_mask")
    if token_streamer is not None:
        token_streamer.put(input_ids.cpu())
    result = ensemble.continue_ids(
        input_ids,
        torch.ones_like(input_ids) if mask is None else mask,
        max_new_tokens=generation_config.max_length - input_ids.shape[1],
        processors=logits_processor,
        criteria=lambda ids: stopping_criteria(ids.to(input_ids.device), None),
        streamer=token_streamer,
    )
    sequences = result.sequences.to(input_ids.device)
    if not generation_config.return_dict_in_generate:
        return sequences
    from transformers.generation import GenerateDecoderOnlyOutput

    ids: Any = sequences  # annotated as LongTensor there
    return GenerateDecoderOnlyOutput(sequences=ids)


def _check(model: Any, config: Any, ensemble: Ensemble) -> None:
    if not any(member.model is model for member in ensemble.members):
        raise UserError("the model whose generate is called is no member of the ensemble")
    if config.num_beams is not None and config.num_beams > 1:
        raise UserError(
            f"num_beams is {config.num_beams}: a beam search looks for likely texts and doesn't "
            "sample from the ensemble's law, so ME has none"
        )
    if not config.do_sample:
        raise UserError(
            "do_sample=False would take the favourite of a random member, not that of the "
            "ensemble: pass do_sample=True, or use Ensemble.generate(method='ce', "
            "temperature=0, warp='after_mix')"
        )
    for name in ("output_scores", "output_logits", "output_attentions", "output_hidden_states"):
        if getattr(config, name, None):
            raise UserError(f"{name} is not kept by ME: leave it out")
