import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml.core.errors import UserError
from icml.core.models.source import RandomModel, Source, parse_random, parse_source


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("owner/name-1.5_b", Source("hub", "owner/name-1.5_b")),
        ("gpt2", Source("hub", "gpt2")),
        ("pkg:smollm2", Source("package", "smollm2")),
        ("random:llama?seed=1", Source("random", "llama?seed=1")),
    ],
)
def test_each_form_is_told_apart(text, wanted):
    assert parse_source(text) == wanted


def test_a_folder_that_exists_is_not_taken_for_a_hub_id(tmp_path, monkeypatch):
    (tmp_path / "owner" / "name").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert parse_source("owner/name") == Source("local", str(Path("owner/name")))


def test_a_path_object_is_never_a_hub_id():
    with pytest.raises(UserError, match="no model at 'owner/name'"):
        parse_source(Path("owner/name"))


def test_a_gguf_file_must_exist(tmp_path):
    (tmp_path / "a.gguf").write_bytes(b"")
    assert parse_source(tmp_path / "a.gguf") == Source("gguf", str(tmp_path / "a.gguf"))
    with pytest.raises(UserError, match="there is no file"):
        parse_source(str(tmp_path / "b.gguf"))


@pytest.mark.parametrize("text", ["", "./missing", "a/b/c", "ftp:thing", "../x", "a b", "-rf"])
def test_anything_else_is_refused_with_the_list_of_forms(text):
    with pytest.raises(UserError, match=r"a source is a hub id .*pkg:smollm2"):
        parse_source(text)


def test_sizes_left_out_have_their_defaults():
    assert parse_random("llama") == RandomModel()
    wanted = RandomModel(layers=3, hidden=32, heads=2, vocab=100, ctx=16, seed=7)
    assert parse_random("llama?layers=3&hidden=32&heads=2&vocab=100&ctx=16&seed=7") == wanted


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpt9", "knows the architecture llama, got 'gpt9'"),
        ("llama?depth=2&width=3", "has no depth, width; it has layers, hidden, heads, vocab"),
        ("llama?layers=two", "layers must be a whole number, got 'two'"),
        ("llama?layers=-1", "layers must be a whole number"),
        ("llama?layers=", "layers must be a whole number, got ''"),
        ("llama?layers=\N{SUPERSCRIPT TWO}", "layers must be a whole number"),
        ("llama?layers=0", "layers must be at least 1, got 0"),
        ("llama?vocab=4", "vocab must be at least 5, got 4"),
        ("llama?hidden=10&heads=4", "hidden must be an even multiple of heads"),
        ("llama?seed=18446744073709551616", "seed must be below"),
        ("llama?seed=1&seed=2", "has a key twice"),
        ("llama?seed", "wants key=value"),
    ],
)
def test_a_wrong_size_is_named(name, message):
    with pytest.raises(UserError, match=re.escape(message)):
        parse_random(name)


@given(st.text())
def test_any_text_is_parsed_or_refused_in_one_sentence(text):
    for parse in (parse_random, lambda x: parse_random("llama?" + x), parse_source):
        with suppress(UserError):
            parse(text)


@pytest.mark.parametrize("text", ["x" * 5000, "~nobody-of-that-name/x", "a\0b"])
def test_a_name_that_no_file_can_have_is_refused(text):
    with pytest.raises(UserError, match="no model at"):
        parse_source(text)
