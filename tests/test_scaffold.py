import tomllib

import pytest
from tools import scaffold, workspace
from tools.scaffold import Names


@pytest.mark.parametrize("text", ["two-words", "icml-two-words"])
def test_a_prefix_is_optional_and_hyphens_become_underscores_in_the_module(text) -> None:
    assert scaffold.parse_name(text) == Names("two-words", "two_words", "TwoWords")


@pytest.mark.parametrize(
    "text", ["", "icml-", "Two", "two_words", "-two", "two-", "two--words", "2words", "a/b", "a b"]
)
def test_any_other_name_is_refused(text) -> None:
    with pytest.raises(ValueError, match="is named like"):
        scaffold.parse_name(text)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from icml.newpaper.cli import app", "from icml.two_words.cli import app"),
        ("src/icml/newpaper/cli.py", "src/icml/two_words/cli.py"),
        ('name = "icml-newpaper"', 'name = "icml-two-words"'),
        ('newpaper = "icml.newpaper.cli:app"', 'two-words = "icml.two_words.cli:app"'),
        ("icml newpaper reproduce", "icml two-words reproduce"),
        ("shared/newpaper/benchmarks", "packages/icml-two-words/benchmarks"),
        ("NewPaper: one line", "TwoWords: one line"),
    ],
)
def test_each_place_gets_the_form_of_the_name_that_belongs_there(before, after) -> None:
    assert scaffold.rename(before, scaffold.parse_name("two-words")) == after


def test_a_new_package_is_added_to_the_import_contract_in_order(tmp_path) -> None:
    workspace.copy_tree(tmp_path)
    target = scaffold.write_package(scaffold.parse_name("two-worlds"), tmp_path)
    scaffold.update_import_contract(tmp_path)

    linter = tomllib.loads((tmp_path / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert target == tmp_path / "packages" / "icml-two-worlds"
    assert linter["root_packages"] == sorted(linter["root_packages"])
    papers = linter["contracts"][0]["layers"][0].split(" | ")
    assert papers == sorted(papers)
    assert {"icml.two_worlds", "icml.gdpo"} < set(papers)
    assert "Do Not Upload" not in (target / "pyproject.toml").read_text()


def test_an_existing_package_is_left_alone(tmp_path) -> None:
    workspace.copy_tree(tmp_path)
    with pytest.raises(FileExistsError, match="icml-gdpo exists"):
        scaffold.write_package(scaffold.parse_name("gdpo"), tmp_path)
