"""Choose a device and its number type, run reproducibly, and ask for the peak memory."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Generator
from contextlib import contextmanager

import numpy as np
import psutil
import torch

from icml.core.errors import UserError


def choose(device: str | None = None) -> torch.device:
    """Return the wanted device, or the best one there is: cuda, then mps, then cpu.

    Args:
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``; None picks.

    Raises:
        UserError: If torch can't use that device on this machine.

    Example:
        >>> choose("cpu")
        device(type='cpu')
    """
    if device is None:
        return torch.device(_available()[0])
    try:
        wanted = torch.device(device)
    except RuntimeError as error:
        raise UserError(f"device must be one of {_available()}, got {device!r}") from error
    if wanted.type not in _available():
        raise UserError(f"device {device!r} is not available here, only {_available()}")
    count = torch.cuda.device_count() if wanted.type == "cuda" else 1
    if (wanted.index or 0) >= count:
        raise UserError(f"device {device!r} is not available: there are {count} of its type")
    return wanted


def _available() -> list[str]:
    found = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    return [name for name, usable in found.items() if usable] + ["cpu"]


def choose_dtype(device: torch.device) -> torch.dtype:
    """Return the number type to run a model in: bfloat16 where the GPU computes in it.

    Args:
        device: Where the model runs.

    Returns:
        bfloat16 on CUDA devices that have it in hardware, else float32 (on a CPU bfloat16 is
        slower, not faster).
    """
    if device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False):
        return torch.bfloat16
    return torch.float32


@contextmanager
def deterministic(seed: int) -> Generator[None]:
    """Run a block with seeded generators and deterministic algorithms only.

    Sets and, on leaving, restores: the global generators of ``random``, numpy and torch (CPU and
    every CUDA device); ``torch.set_deterministic_debug_mode``; cuDNN's benchmark flag; and
    ``CUBLAS_WORKSPACE_CONFIG``, which cuBLAS reads at its first use only, so enter before that.
    An operation without a deterministic version raises RuntimeError. The state of an MPS
    generator is set but not restored; the number of CPU threads, which may change sums, is left
    alone.

    Args:
        seed: Seed of all generators, in [0, 2**32).

    Raises:
        ValueError: If the seed is out of range.
    """
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed must be in [0, 2**32), got {seed}")
    states = random.getstate(), np.random.get_state()  # noqa: NPY002 - the global one is the point
    mode = torch.get_deterministic_debug_mode()
    benchmark = torch.backends.cudnn.benchmark
    workspace = os.environ.get("CUBLAS_WORKSPACE_CONFIG")
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        try:
            os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # NVIDIA's value for determinism
            torch.backends.cudnn.benchmark = False
            # Same switch as use_deterministic_algorithms, which also imports torch's compiler:
            # 8 s of CPU time.
            torch.set_deterministic_debug_mode("error")
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            torch.manual_seed(seed)
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002
            torch.set_deterministic_debug_mode(mode)
            torch.backends.cudnn.benchmark = benchmark
            del os.environ["CUBLAS_WORKSPACE_CONFIG"]
            if workspace is not None:
                os.environ["CUBLAS_WORKSPACE_CONFIG"] = workspace


def peak_memory_mb(device: torch.device) -> float:
    """Return the most memory used so far, in MB.

    Args:
        device: For CUDA, what torch's tensors took there since the start (or since
            ``torch.cuda.reset_peak_memory_stats``); else the resident memory of this process.

    Returns:
        MB (10^6 bytes), as in a run's summary.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    if sys.platform == "win32":
        return psutil.Process().memory_info().peak_wset / 1e6
    import resource  # does not exist on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return (peak if sys.platform == "darwin" else peak * 1024) / 1e6  # macOS counts bytes
