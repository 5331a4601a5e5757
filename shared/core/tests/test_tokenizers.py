import pytest

from icml.core.errors import UserError
from icml.core.models.tiny import word_tokenizer
from icml.core.models.tokenizers import load_tokenizer


def test_a_folder_and_a_file_hold_the_tokenizer_that_was_saved_there(tmp_path):
    saved = word_tokenizer(["find", "the", "key"])
    saved.save_pretrained(tmp_path)
    for source in (tmp_path, tmp_path / "tokenizer.json"):
        assert load_tokenizer(str(source)).get_vocab() == saved.get_vocab()


def test_a_models_source_gives_the_models_tokenizer():
    tokenizer = load_tokenizer("random:llama?layers=1&hidden=8&heads=1")
    assert tokenizer.decode(tokenizer("key").input_ids) == "key"


def test_where_there_is_none_the_message_says_so(tmp_path):
    (tmp_path / "bad.json").write_text("{")
    wrong = {
        "": "no tokenizer",
        "./nowhere": "there is no such folder",
        str(tmp_path): "no tokenizer in",
        str(tmp_path / "no.json"): "there is no tokenizer file",
        str(tmp_path / "bad.json"): "is no tokenizer.json",
    }
    for source, message in wrong.items():
        with pytest.raises(UserError, match=message) as caught:
            load_tokenizer(source)
        assert "\n" not in str(caught.value)
