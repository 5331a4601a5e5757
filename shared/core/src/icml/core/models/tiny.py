"""Tiny language models and a word tokenizer, built in code: nothing is downloaded.

`TinyGPT` needs torch alone and starts in the time torch takes to import; CPU experiments use
it. `causal_lm` and `word_tokenizer` give the same thing in transformers' classes, for code that
asks for those (`icml-core[hf]`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from icml.core.errors import require

__all__ = ["SPECIAL_TOKENS", "Cache", "CausalOutput", "TinyGPT", "causal_lm", "word_tokenizer"]

SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>", "<unk>")
"""The first tokens of every vocabulary of ours: ids 0, 1, 2, 3."""

_EMBEDDING_STD = 0.05  # ours: first losses near log(vocabulary) at widths of 16 to 128
_ROTARY_BASE = 10_000.0  # RoFormer's; the slowest pair of a head turns once in some 10^4 tokens


class CausalOutput(NamedTuple):
    """What a causal language model returns; transformers' outputs have the same field."""

    logits: Tensor
    """``(batch, tokens, vocabulary)``: entry t scores the token at t + 1."""


class Cache(NamedTuple):
    """Keys and values of the tokens that a `TinyGPT` has seen; rows may differ in length."""

    lengths: Tensor
    """``(batch,)`` tokens held a row. Set it back to drop a row's last tokens, padding say."""
    blocks: list[tuple[Tensor, ...]]
    """Keys and values a block, each ``(batch, heads, longest length, d / heads)``."""


class _Kept(NamedTuple):
    """One block's part of a cache, and where the new tokens go."""

    positions: Tensor
    keys: Tensor
    values: Tensor

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Store the new tokens; return all keys, all values, and which of them each may see."""
        index = self.positions[:, None, :, None].expand_as(key)
        self.keys.scatter_(2, index, key)
        self.values.scatter_(2, index, value)
        places = torch.arange(self.keys.shape[2], device=key.device)
        return self.keys, self.values, places <= self.positions[:, None, :, None]


class TinyGPT(nn.Module):
    """A pre-norm transformer decoder with an untied output layer.

    It has no dropout, so equal inputs give equal outputs in train and eval mode alike.

    Example:
        >>> TinyGPT(vocab=10, d=8)(torch.tensor([[1, 4, 5]])).logits.shape
        torch.Size([1, 3, 10])
    """

    def __init__(
        self,
        vocab: int,
        *,
        d: int = 48,
        layers: int = 2,
        heads: int = 4,
        ctx: int = 64,
        positions: Literal["learned", "rotary"] = "learned",
        seed: int = 0,
    ) -> None:
        """Build the model with random weights.

        Args:
            vocab: Size of the vocabulary, in tokens.
            d: Width; a multiple of ``heads``.
            layers: Number of blocks; each has attention and a feed-forward layer of width 2 d.
            heads: Attention heads a block.
            ctx: Longest sequence, in tokens.
            positions: ``learned`` adds a vector for each place to the tokens'; ``rotary`` turns
                queries and keys by their place (RoFormer, arXiv 2104.09864), so that attention
                sees distances alone, and what was learnt at one place holds at another.
            seed: Seed of the weights. The global random state is neither read nor moved.

        Raises:
            ValueError: If a size is not positive, ``d`` is not a multiple of ``heads``,
                ``positions`` has no meaning, or rotary heads have an odd width.
        """
        super().__init__()
        if min(vocab, d, layers, heads, ctx) < 1:
            sizes = f"{vocab=} {d=} {layers=} {heads=} {ctx=}"
            raise ValueError(f"all sizes must be at least 1, got {sizes}")
        if d % heads:
            raise ValueError(f"d must be a multiple of heads, got d={d} and heads={heads}")
        if positions not in ("learned", "rotary"):
            raise ValueError(f"positions must be learned or rotary, got {positions!r}")
        if positions == "rotary" and d // heads % 2:
            raise ValueError(f"rotary heads have an even width, got d={d} over heads={heads}")
        self.ctx, self.heads, self.positions = ctx, heads, positions
        # Layers draw their weights from the global generator unless they are built empty.
        with torch.device("meta"):
            self.token_embedding = nn.Embedding(vocab, d)
            if positions == "learned":
                self.position_embedding = nn.Embedding(ctx, d)
            self.blocks = nn.ModuleList(_Block(d, heads) for _ in range(layers))
            self.norm = nn.LayerNorm(d)
            self.lm_head = nn.Linear(d, vocab, bias=False)
        self.to_empty(device="cpu")
        self._initialise(torch.Generator().manual_seed(seed))

    def forward(self, ids: Tensor, *, cache: Cache | None = None) -> CausalOutput:
        """Score every next token.

        Args:
            ids: ``(batch, tokens)`` token ids. Padding belongs on the right: a position sees
                itself and those before it, so padded tails change nothing before them.
            cache: Made by `new_cache`: ``ids`` then continue what it holds, and it is extended.

        Raises:
            ValueError: If ``ids`` is not 2-D or longer than ``ctx``.
        """
        if ids.dim() != 2:
            raise ValueError(f"ids must be 2-D (batch, tokens), got {tuple(ids.shape)}")
        positions = torch.arange(ids.shape[1], device=ids.device)
        if cache is not None:
            positions = cache.lengths[:, None] + positions
        elif ids.shape[1] > self.ctx:
            raise ValueError(f"a sequence has {ids.shape[1]} tokens, the model's ctx is {self.ctx}")
        hidden, turned = self.token_embedding(ids), None
        if self.positions == "learned":
            hidden = hidden + self.position_embedding(positions)
        else:
            turned = _turns(positions, hidden.shape[-1] // self.heads)
        for number, block in enumerate(self.blocks):
            kept = None if cache is None else _Kept(positions, *cache.blocks[number])
            hidden = block(hidden, kept, turned)
        if cache is not None:
            cache.lengths.add_(ids.shape[1])
        return CausalOutput(self.lm_head(self.norm(hidden)))

    def new_cache(self, batch: int, length: int) -> Cache:
        """Return an empty key-value cache for ``batch`` sequences of up to ``length`` tokens.

        Raises:
            ValueError: If ``length`` is beyond ``ctx``.
        """
        if length > self.ctx:
            raise ValueError(f"a sequence has {length} tokens, the model's ctx is {self.ctx}")
        weight = self.lm_head.weight
        shape = (batch, self.heads, length, weight.shape[1] // self.heads)
        lengths = torch.zeros(batch, dtype=torch.long, device=weight.device)
        return Cache(lengths, [tuple(weight.new_zeros(2, *shape)) for _ in self.blocks])

    @torch.no_grad()
    def _initialise(self, generator: torch.Generator) -> None:
        for module in self.modules():
            if isinstance(module, nn.LayerNorm):
                module.weight.fill_(1.0)
                module.bias.zero_()
            elif isinstance(module, nn.Embedding) or module is self.lm_head:
                module.weight.normal_(std=_EMBEDDING_STD, generator=generator)
            elif isinstance(module, nn.Linear):
                # The standard deviation of torch's own default, U(-1, 1) / sqrt(inputs).
                std = (3 * module.in_features) ** -0.5
                module.weight.normal_(std=std, generator=generator)
                module.bias.zero_()


class _Turns(NamedTuple):
    """By how much each pair of a head's numbers is turned at each place."""

    cos: Tensor
    """``(1 or batch, 1, tokens, d / heads / 2)``."""
    sin: Tensor

    def turn(self, vectors: Tensor) -> Tensor:
        """Turn queries or keys, ``(batch, heads, tokens, d / heads)``."""
        left, right = vectors.chunk(2, dim=-1)
        turned = left * self.cos - right * self.sin, right * self.cos + left * self.sin
        return torch.cat(turned, dim=-1)


def _turns(positions: Tensor, width: int) -> _Turns:
    """Return the turns of ``positions``, ``(tokens,)`` or ``(batch, tokens)``."""
    pairs = torch.arange(0, width, 2, device=positions.device)
    angles = positions[..., None] * _ROTARY_BASE ** (-pairs / width)
    angles = angles.view(-1, 1, *angles.shape[-2:])
    return _Turns(angles.cos(), angles.sin())


class _Block(nn.Module):
    """Causal self-attention, then a feed-forward layer, each added to its normalised input."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(d)
        self.query_key_value = nn.Linear(d, 3 * d)
        self.attention_out = nn.Linear(d, d)
        self.mlp_norm = nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, hidden: Tensor, kept: _Kept | None, turns: _Turns | None) -> Tensor:
        batch, tokens, d = hidden.shape
        projected = self.query_key_value(self.attention_norm(hidden))
        heads = projected.view(batch, tokens, 3, self.heads, d // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        if turns is not None:
            query, key = turns.turn(query), turns.turn(key)
        if kept is None:
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            key, value, mask = kept.extend(key, value)
            mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        hidden = hidden + self.attention_out(mixed.transpose(1, 2).reshape(batch, tokens, d))
        return hidden + self.mlp(self.mlp_norm(hidden))


def word_tokenizer(words: Sequence[str]) -> Any:
    """Build a tokenizer whose tokens are whole words separated by white space.

    Args:
        words: The vocabulary after `SPECIAL_TOKENS`, in the order of their ids (from 4).

    Returns:
        A ``transformers.PreTrainedTokenizerFast``.

    Raises:
        ValueError: If a word is empty, holds white space, comes twice or is a special token.
        MissingExtra: If transformers is not installed.
    """
    transformers = require("transformers", extra="icml-core[hf]")
    tokenizers = require("tokenizers", extra="icml-core[hf]")
    vocabulary = {token: index for index, token in enumerate((*SPECIAL_TOKENS, *words))}
    if len(vocabulary) != len(SPECIAL_TOKENS) + len(words):
        raise ValueError("words must be distinct and none of " + ", ".join(SPECIAL_TOKENS))
    for word in words:
        if word.split() != [word]:
            raise ValueError(f"a word must be non-empty and free of white space, got {word!r}")
    pad, bos, eos, unk = SPECIAL_TOKENS
    model = tokenizers.models.WordLevel(vocabulary, unk_token=unk)
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=pad, bos_token=bos, eos_token=eos, unk_token=unk
    )


def causal_lm(
    vocab: int, *, d: int = 64, layers: int = 2, heads: int = 4, ctx: int = 256, seed: int = 0
) -> nn.Module:
    """Build a random Llama with tied embeddings in float32 (86 k parameters at vocab 65).

    Args:
        vocab: Size of the vocabulary, in tokens, `SPECIAL_TOKENS` included.
        d: Width; a multiple of ``heads``. The feed-forward layer is ``2 * d`` wide.
        layers: Number of blocks.
        heads: Attention heads a block, all with keys and values of their own.
        ctx: Longest sequence, in tokens.
        seed: Seed of the initial weights. The global random state is left as it was.

    Returns:
        A ``transformers.LlamaForCausalLM``.

    Raises:
        MissingExtra: If transformers is not installed.
    """
    transformers = require("transformers", extra="icml-core[hf]")
    pad, bos, eos, _ = range(len(SPECIAL_TOKENS))
    config = transformers.LlamaConfig(
        vocab_size=vocab,
        hidden_size=d,
        intermediate_size=2 * d,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=ctx,
        tie_word_embeddings=True,
        pad_token_id=pad,
        bos_token_id=bos,
        eos_token_id=eos,
        attn_implementation="sdpa",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return transformers.LlamaForCausalLM(config).eval()
