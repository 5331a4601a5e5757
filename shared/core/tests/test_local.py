import json

import pytest
import torch

from icml.core.errors import UserError
from icml.core.models.load import load


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A small model saved by transformers."""
    folder = tmp_path_factory.mktemp("saved")
    loaded = load("random:llama?layers=1&hidden=8", device="cpu")
    loaded.model.save_pretrained(folder)
    loaded.tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    """A copy of it, to be damaged."""
    for file in saved.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def change(folder, name, **values):
    """Change entries of a JSON file."""
    content = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps(content | values))


def test_a_saved_model_comes_back_exactly(saved):
    original = load("random:llama?layers=1&hidden=8", device="cpu").model
    loaded = load(str(saved), device="cpu")
    assert loaded.source_kind == "local"
    assert not loaded.model.training
    for name, weight in original.state_dict().items():
        assert torch.equal(loaded.model.state_dict()[name], weight)
    assert loaded.tokenizer.decode(loaded.tokenizer("naïve ☃").input_ids) == "naïve ☃"


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "weights.pth"])
def test_pickled_weights_are_refused_before_anything_is_read(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(UserError, match=f"has its weights in {name}, which can run code"):
        load(tmp_path)


def test_a_pickle_beside_safetensors_is_not_read(folder):
    (folder / "pytorch_model.bin").write_bytes(b"not a pickle")
    assert load(folder, device="cpu").model is not None


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("model.safetensors", r"holds no \*.safetensors file"),
        ("config.json", "holds no config.json"),
    ],
)
def test_a_missing_file_is_named(folder, file, message):
    (folder / file).unlink()
    with pytest.raises(UserError, match=message):
        load(folder)


def test_a_missing_tokenizer_is_named(folder):
    for file in folder.glob("*token*"):
        file.unlink()
    with pytest.raises(UserError, match="holds no tokenizer"):
        load(folder)


def test_an_adapter_is_refused(folder):
    (folder / "adapter_config.json").write_text("{}")
    with pytest.raises(UserError, match="is an adapter"):
        load(folder)


@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_file_that_is_cut_short_is_one_sentence(folder, file):
    content = (folder / file).read_bytes()
    (folder / file).write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match="cannot load") as caught:
        load(folder, device="cpu")
    assert "\n" not in str(caught.value)


def test_a_size_that_is_no_number_is_one_sentence(folder):
    change(folder, "config.json", hidden_size="wide")
    with pytest.raises(UserError, match=r"cannot load .*hidden_size") as caught:
        load(folder, device="cpu")
    assert "\n" not in str(caught.value)


def test_a_size_that_does_not_fit_the_weights_is_one_sentence(folder):
    change(folder, "config.json", vocab_size=300)
    with pytest.raises(UserError, match="cannot load") as caught:
        load(folder, device="cpu")
    assert "\n" not in str(caught.value)


def test_a_weight_that_is_missing_is_not_drawn_at_random(folder):
    change(folder, "config.json", num_hidden_layers=2)
    with pytest.raises(UserError, match=r"lacks the weights model\.layers\.1\."):
        load(folder, device="cpu")


def test_another_task_than_language_modelling_is_refused(folder):
    change(folder, "config.json", architectures=["LlamaForSequenceClassification"])
    with pytest.raises(UserError, match="holds a LlamaForSequenceClassification"):
        load(folder, device="cpu")


def test_code_that_comes_with_a_model_is_not_run_unasked(folder):
    trace = folder / "trace"
    (folder / "own.py").write_text(f"open({str(trace)!r}, 'w')\n")
    change(
        folder, "config.json", model_type="own",
        auto_map={"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"},
    )  # fmt: skip
    with pytest.raises(UserError, match="wants to run code of its own"):
        load(folder, device="cpu")
    assert not trace.exists()


@pytest.fixture
def trace(folder):
    """A file that the folder's own generate would leave."""
    (folder / "custom_generate").mkdir()
    (folder / "custom_generate" / "generate.py").write_text(
        f"open({str(folder / 'trace')!r}, 'w')\ndef generate(model, **kwargs): raise RuntimeError\n"
    )
    return folder / "trace"


def test_a_custom_generate_folder_is_not_run_unasked(folder, trace):
    loaded = load(folder, device="cpu")
    ids = torch.tensor([[4, 5]])
    out = loaded.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=1)
    assert out.shape == (1, 3)
    assert not trace.exists()


def test_a_custom_generate_folder_is_not_run_in_a_trusted_model_either(folder, trace):
    with pytest.raises(UserError, match="move its custom_generate folder away"):
        load(folder, device="cpu", trust_remote_code=True)
    assert not trace.exists()
