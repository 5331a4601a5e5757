"""The identity of a model: a hash of its configuration and of every weight."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import torch

# Settings that change with the library, the machine or the way of training, but not the function.
_INCIDENTAL = frozenset(
    {"architectures", "dtype", "name_or_path", "transformers_version", "use_cache"}
)


def fingerprint(model: Any) -> str:
    """Return the SHA-256 of a model's configuration and weights as they are now.

    Equal for equal weights wherever they were loaded from and whatever device they are on. The
    number type counts: a model in bfloat16 has other weights than the same one in float32, and
    another fingerprint. Of the configuration only what differs from the library's defaults
    counts, without token ids and other settings that leave the logits alone, so that a later
    release with new settings gives the same. Takes about a second for 500 MB.

    Args:
        model: A model of transformers.

    Returns:
        64 hexadecimal digits.
    """
    digest = hashlib.sha256(_settings(model.config).encode())
    seen: set[tuple[int, tuple[int, ...], tuple[int, ...]]] = set()
    for name, tensor in sorted(model.state_dict().items()):
        place = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride())
        if tensor.numel() and place in seen:  # tied to a weight that was counted
            continue
        seen.add(place)
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(memoryview(flat.view(torch.uint8).numpy()))
    return digest.hexdigest()


def _settings(config: Any) -> str:
    kept = {
        key: value
        for key, value in config.to_diff_dict().items()
        if key not in _INCIDENTAL and not key.startswith("_") and not key.endswith("token_id")
    }
    return json.dumps(kept, sort_keys=True, default=str)
