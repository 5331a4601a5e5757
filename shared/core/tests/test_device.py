"""Device choice, determinism and peak memory on whatever machine runs the tests."""

import os
import random

import numpy as np
import psutil
import pytest
import torch

from icml.core.cuda.device import choose, choose_dtype, deterministic, peak_memory_mb
from icml.core.errors import UserError


def test_without_a_wish_the_best_available_device_is_chosen():
    best = "cpu"
    best = "mps" if torch.backends.mps.is_available() else best
    best = "cuda" if torch.cuda.is_available() else best
    assert choose().type == best


def test_the_cpu_is_always_available():
    assert choose("cpu") == torch.device("cpu")
    assert choose_dtype(torch.device("cpu")) == torch.float32


@pytest.mark.parametrize("device", ["cuda:9999", "xla", "meta", "gpu", "cpu:1"])
def test_a_device_that_is_not_there_is_refused_by_name(device):
    with pytest.raises(UserError, match=device):
        choose(device)


def draws():
    return random.random(), float(np.random.random()), torch.rand(3).tolist()  # noqa: NPY002


def states():
    numpy_state = np.random.get_state(legacy=False)  # noqa: NPY002
    return random.getstate(), repr(numpy_state), torch.get_rng_state().tolist()


def test_the_same_seed_draws_the_same_numbers_and_leaves_the_outer_streams_alone():
    outer = states()
    with deterministic(7):
        first = draws()
    with deterministic(7):
        assert draws() == first
    with deterministic(8):
        assert draws() != first
    assert states() == outer


def test_settings_are_restored_even_after_an_error(monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    before = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    seen = []

    def fail():
        seen.append(torch.are_deterministic_algorithms_enabled())
        seen.append(os.environ["CUBLAS_WORKSPACE_CONFIG"])
        raise KeyError

    with pytest.raises(KeyError), deterministic(0):
        fail()
    assert seen == [True, ":4096:8"]
    after = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    assert after == before
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"


def test_the_workspace_variable_is_removed_again_where_it_was_not_set(monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    with deterministic(0):
        pass
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_that_numpy_cannot_take_is_refused(seed):
    with pytest.raises(ValueError, match="seed"), deterministic(seed):
        pass


def test_peak_memory_lies_between_what_is_resident_and_what_the_machine_has():
    block = torch.ones(2**23)  # 32 MiB
    resident = psutil.Process().memory_info().rss / 1e6
    peak = peak_memory_mb(torch.device("cpu"))
    # the kernel counts pages in batches per thread
    assert resident - 4 <= peak <= psutil.virtual_memory().total / 1e6
    assert peak > block.nbytes / 1e6


@pytest.mark.gpu
def test_peak_memory_of_a_gpu_counts_its_tensors():
    cuda = torch.device("cuda")
    torch.cuda.reset_peak_memory_stats()
    before = peak_memory_mb(cuda)
    torch.ones(2**20, device=cuda)  # 4.2 MB
    assert peak_memory_mb(cuda) >= before + 4


@pytest.mark.gpu
def test_a_gpu_draws_and_sums_the_same_numbers_twice():
    results = []
    for _ in range(2):
        with deterministic(3):
            x = torch.rand(10_000, device="cuda")
            index = torch.randint(10, (10_000,), device="cuda")
            results.append(torch.zeros(10, device="cuda").index_add(0, index, x))
    assert torch.equal(*results)
