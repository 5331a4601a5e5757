"""Hidden states by hooks against those that transformers collects."""

import pytest
import torch
from torch.testing import assert_close

from icml.core.models.blocks import FAMILIES, decoder_layers
from icml.core.models.hidden import capture

IDS = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 4, 6, 5]])


def hooks(model):
    return sum(len(block._forward_hooks) for block in decoder_layers(model))


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_layer_i_is_the_librarys_state_i_plus_1_until_the_final_norm(build_family, family):
    model = build_family(family, layers=3)
    with torch.no_grad(), capture(model, [0, 1, 2, -1]) as states:
        output = model(IDS, output_hidden_states=True)
    assert_close(states[0], output.hidden_states[1])
    assert_close(states[1], output.hidden_states[2])
    assert torch.equal(states[2], states[-1])
    norm = model.base_model.ln_f if family == "gpt2" else model.base_model.norm
    assert_close(norm(states[-1]), output.hidden_states[3])


def test_chosen_positions_alone_are_kept(build_family):
    model = build_family("llama")
    with torch.no_grad():
        full, last, marked = ({} for _ in range(3))
        mask = torch.tensor([[0, 1, 1, 0, 0], [0, 0, 0, 0, 1]], dtype=torch.bool)
        for states, positions in ((full, None), (last, [0, -1]), (marked, mask)):
            with capture(model, [1], positions) as found:
                model(IDS)
            states.update(found)
    assert torch.equal(last[1], full[1][:, [0, -1]])
    assert torch.equal(marked[1], full[1][mask])
    # 2 rows of 2 positions of 16 float64 numbers, not a view of all positions
    assert last[1].untyped_storage().nbytes() == 2 * 2 * 16 * 8


def test_gradients_flow_through_what_is_recorded(build_family):
    model = build_family("llama")
    with capture(model, [1], [2]) as states:
        model(IDS)
    states[1].square().sum().backward()
    recorded = [p.grad for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    hidden = model(IDS, output_hidden_states=True).hidden_states[2][:, 2]
    hidden.square().sum().backward()
    expected = [p.grad for p in model.parameters() if p.grad is not None]
    assert_close(recorded, expected)


def test_gradient_checkpointing_changes_nothing(build_family):
    model, results = build_family("llama"), []
    for checkpointing in (False, True):
        model.zero_grad()
        model.train()
        if checkpointing:
            model.activation_checkpointing_enable()
        with capture(model, [1]) as states:
            loss = model(IDS, use_cache=False).logits.square().mean() + states[1].square().sum()
            loss.backward()
        results.append([p.grad.clone() for p in model.parameters()])
    assert_close(*results)


def test_hooks_are_gone_afterwards_also_after_an_error(build_family):
    model = build_family("llama")
    with capture(model, [0, 1]):
        assert hooks(model) == 2
    assert hooks(model) == 0
    with pytest.raises(IndexError), capture(model, [0], [99]):
        model(IDS)
    assert hooks(model) == 0


def test_the_latest_pass_is_kept_and_nothing_before_the_first(build_family):
    model = build_family("llama")
    with torch.no_grad(), capture(model, [0]) as states:
        assert states == {}
        model(IDS)
        model(IDS[:, :2])
    assert states[0].shape == (2, 2, 16)


@pytest.mark.parametrize("layer", [3, -4])
def test_a_block_that_is_not_there_is_refused(build_family, layer):
    model = build_family("llama", layers=3)
    with (
        pytest.raises(IndexError, match=r"layer must be in \[-3, 3\), got"),
        capture(model, [0, layer]),
    ):
        pass
    assert hooks(model) == 0
