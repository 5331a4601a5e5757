import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress

import gguf
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

from icml.core.errors import UserError
from icml.core.models.gguf import convert_gguf
from icml.core.models.gguf_header import read_header
from icml.core.models.load import load

WIDTH, HEADS, FEED_FORWARD = 16, 2, 32
WORDS = [*"abcdefghijklmnopqrstuvwxyzĠ", "ab", "<s>", "</s>"]
SHAPES = {
    "token_embd": (len(WORDS), WIDTH),
    "output_norm": (WIDTH,),
    "output": (len(WORDS), WIDTH),
    "blk.0.attn_norm": (WIDTH,),
    "blk.0.attn_q": (WIDTH, WIDTH),
    "blk.0.attn_k": (WIDTH, WIDTH),
    "blk.0.attn_v": (WIDTH, WIDTH),
    "blk.0.attn_output": (WIDTH, WIDTH),
    "blk.0.ffn_norm": (WIDTH,),
    "blk.0.ffn_gate": (FEED_FORWARD, WIDTH),
    "blk.0.ffn_up": (FEED_FORWARD, WIDTH),
    "blk.0.ffn_down": (WIDTH, FEED_FORWARD),
}


def weights():
    random = np.random.default_rng(0)
    return {name: random.normal(size=shape).astype("f") for name, shape in SHAPES.items()}


def write(path, tensors, *, architecture="llama"):
    """Write a Llama of one block and a byte-pair vocabulary of letters with gguf's own writer."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(WORDS))
    writer.add_license("apache-2.0")
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(WORDS)
    writer.add_token_types([1] * (len(WORDS) - 2) + [3, 3])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(len(WORDS) - 2)
    writer.add_eos_token_id(len(WORDS) - 1)
    for name, tensor in tensors.items():
        writer.add_tensor(f"{name}.weight", tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return write(tmp_path_factory.mktemp("gguf") / "tiny.gguf", weights())


def test_the_header_holds_the_metadata_and_counts_the_weights(tiny):
    header = read_header(tiny)
    assert header.metadata["general.architecture"] == "llama"
    assert header.metadata["llama.embedding_length"] == WIDTH
    assert header.metadata["tokenizer.ggml.tokens"] == len(WORDS)
    assert header.parameters == sum(tensor.size for tensor in weights().values())


def test_a_file_that_is_cut_short_anywhere_is_refused(tiny, tmp_path):
    content = tiny.read_bytes()
    cut = tmp_path / "cut.gguf"
    for length in [0, 3, 4, 23, 24, 100, 1000, len(content) // 2, len(content) - 1]:
        cut.write_bytes(content[:length])
        with pytest.raises(UserError, match=r"cannot be read as GGUF: it (is|does|ends|has)"):
            read_header(cut)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\3\4" + bytes(100), "does not begin like one"),
        (b"GGUF" + bytes([1, 0, 0, 0]) + bytes(100), "has version 1"),
        (b"GGUF" + bytes([3, 0, 0, 0]) + bytes(100), "does not name its architecture"),
        (b"GGUF" + bytes([3, 0, 0, 0]) + b"\xff" * 100, "ends inside its header"),
    ],
)
def test_what_is_no_gguf_file_is_refused_with_the_reason(tmp_path, content, message):
    path = tmp_path / "x.gguf"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        load(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_header_is_read_or_refused(tiny, tmp_path, data):
    content = bytearray(tiny.read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(0, 2000))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.gguf"
    path.write_bytes(content)
    with suppress(UserError):
        read_header(path)


def test_the_folder_holds_the_weights_that_were_written(tiny):
    state = load(tiny, device="cpu").model.state_dict()
    written = weights()
    assert np.array_equal(state["model.embed_tokens.weight"], written["token_embd"])
    assert np.array_equal(state["lm_head.weight"], written["output"])
    assert np.array_equal(state["model.layers.0.mlp.down_proj.weight"], written["blk.0.ffn_down"])


def test_the_cached_folder_gives_the_logits_and_ids_of_the_file(tiny):
    direct = AutoModelForCausalLM.from_pretrained(
        tiny.parent, gguf_file=tiny.name, dtype=torch.float32
    )
    tokenizer = AutoTokenizer.from_pretrained(tiny.parent, gguf_file=tiny.name)
    cached = load(tiny, device="cpu")
    assert cached.source_kind == "gguf"
    assert cached.tokenizer("abc cab").input_ids == tokenizer("abc cab").input_ids
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    assert torch.equal(cached.model(ids).logits, direct(ids).logits)


def test_a_file_that_is_not_there_is_named(tmp_path):
    for path in (tmp_path / "none.gguf", tmp_path):
        with pytest.raises(UserError, match=f"there is no file {path}"):
            convert_gguf(path)


def test_bfloat16_takes_half_the_room_and_rounds_the_weights(tiny):
    exact, short = (load(tiny, device="cpu", dtype="float32", cache_dtype=d)
                    for d in ("float32", "bfloat16"))  # fmt: skip
    sizes = [
        (convert_gguf(tiny, dtype=d) / "model.safetensors").stat().st_size
        for d in ("float32", "bfloat16")
    ]
    # the file's own header is a few kB
    assert sizes[1] < 0.75 * sizes[0]
    assert short.spec.cache_dtype == "bfloat16"
    for name, weight in exact.model.state_dict().items():
        assert torch.equal(short.model.state_dict()[name], weight.bfloat16().float())


def test_another_number_type_for_the_cache_is_refused(tiny):
    with pytest.raises(UserError, match="kept in float32 or bfloat16, got float64"):
        load(tiny, cache_dtype="float64")


def test_a_second_call_gives_the_same_folder_untouched(tiny):
    folder = convert_gguf(tiny)
    before = {file: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert convert_gguf(str(tiny)) == folder
    assert {file: file.stat().st_mtime_ns for file in folder.iterdir()} == before


def test_the_folder_says_what_it_was_made_from(tiny):
    meta = json.loads((convert_gguf(tiny) / "meta.json").read_text())
    assert (meta["source"], meta["licence"]) == ("tiny.gguf", "apache-2.0")
    assert meta["versions"]["transformers"]


def test_a_changed_file_is_converted_anew(tmp_path):
    path = write(tmp_path / "a.gguf", weights())
    first = load(path, device="cpu").fingerprint
    changed = weights()
    changed["output"][0, 0] += 1
    write(path, changed)
    assert load(path, device="cpu").fingerprint != first


def test_neighbours_of_the_file_are_not_read(tmp_path):
    path = write(tmp_path / "a.gguf", weights())
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json", "adapter_config.json"):
        (tmp_path / name).write_text("not JSON")
    assert load(path, device="cpu").tokenizer("ab").input_ids == [WORDS.index("ab")]


def test_an_architecture_that_is_unknown_is_one_sentence_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("ICML_CACHE", str(tmp_path / "cache"))
    path = write(tmp_path / "a.gguf", weights(), architecture="abacus")
    with pytest.raises(UserError, match=r"cannot convert .*a\.gguf: .*abacus") as caught:
        load(path)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob("cache/**/*.safetensors"))


def test_a_weight_that_is_missing_is_not_drawn_at_random(tmp_path):
    tensors = weights()
    del tensors["blk.0.ffn_up"]
    with pytest.raises(UserError, match=r"lacks the weights model\.layers\.0\.mlp\.up_proj"):
        load(write(tmp_path / "a.gguf", tensors))


def test_a_cache_folder_that_cannot_be_made_is_named(tiny, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ICML_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match="cannot write"):
        convert_gguf(tiny)


def test_too_little_room_is_said_before_converting(tiny, monkeypatch):
    full = shutil.disk_usage("/")._replace(free=10**6)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    with pytest.raises(UserError, match=r"needs 50 MB in .*, 1 MB are free: set ICML_CACHE"):
        convert_gguf(tiny)


def start(path, cache):
    """Convert in a process of its own."""
    program = (
        "import sys; from icml.core.models.gguf import convert_gguf as c; print(c(sys.argv[1]))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        env={**os.environ, "ICML_CACHE": str(cache), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


@pytest.mark.slow
def test_two_processes_at_once_make_one_whole_folder(tiny, tmp_path, monkeypatch):
    processes = [start(tiny, tmp_path) for _ in range(2)]
    folders = {process.communicate()[0].strip() for process in processes}
    assert [process.returncode for process in processes] == [0, 0]
    assert len(folders) == 1
    monkeypatch.setenv("ICML_CACHE", str(tmp_path))
    assert str(convert_gguf(tiny)) == folders.pop()
    assert load(tiny, device="cpu").model is not None
    assert not list(tmp_path.rglob(".*.tmp"))


@pytest.mark.slow
def test_a_kill_during_the_conversion_leaves_no_half_folder(tiny, tmp_path, monkeypatch):
    process = start(tiny, tmp_path)
    while not (drafts := list(tmp_path.rglob(".float32.*.tmp"))):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert drafts[0].is_dir()
    assert not list(tmp_path.rglob("float32"))
    monkeypatch.setenv("ICML_CACHE", str(tmp_path))
    assert load(tiny, device="cpu").model is not None
    assert not list(tmp_path.rglob(".*.tmp"))
