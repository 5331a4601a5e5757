"""Recipes: the words and numbers of YAML 1.2, and what is refused."""

import importlib
import sys

import pytest
from pydantic import Field

from icml.core.errors import UserError
from icml.core.rl.recipe import Part, parse_recipe, recipe_names, recipe_text


class Place(Part):
    level: str
    turns: int = Field(default=12, ge=1)


class Recipe(Part):
    model: str
    place: Place
    training: dict = Field(default_factory=dict)


LEAST = "model: random:llama\nplace: {level: easy}\n"


def test_words_and_numbers_are_those_of_yaml_1_2():
    text = LEAST + "training: {learning_rate: 1e-6, report_to: no, bf16: false, seed: 7}"
    assert parse_recipe(Recipe, text, "here").training == {
        "learning_rate": 1e-6, "report_to": "no", "bf16": False, "seed": 7,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: [", "here is not YAML: "),
        ("[" * 5000, "here is not YAML: "),
        ("model: 2026-99-99", "here is not YAML: month must be"),
        ("model: !!timestamp x", "here is not YAML: "),
        ("model: " + "9" * 5000, "here is not YAML: "),
        ("- model", "here: a recipe maps model, place and more to values"),
        ("", "here: a recipe maps"),
        ("model: a", "here: place: field required"),
        (LEAST + "modle: a\nlr: 1", "unknown key modle; unknown key lr"),
        (LEAST.replace("}", ", turn: 3}"), "unknown key place.turn"),
        (LEAST.replace("}", ", turns: 0}"), "place.turns: input should be greater"),
    ],
)
def test_what_is_no_recipe_is_refused_in_one_line(text, message):
    with pytest.raises(UserError, match=message) as caught:
        parse_recipe(Recipe, text, "here")
    assert "\n" not in str(caught.value)


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "package_of_a_test"
    (folder / "recipes").mkdir(parents=True)
    (folder / "__init__.py").touch()
    for name in ("small.yaml", "big_7b.yaml", "notes.txt"):
        (folder / "recipes" / name).write_text(f"# {name}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, folder.name, raising=False)
    importlib.invalidate_caches()
    return folder.name


def test_a_recipe_is_found_by_its_name_or_its_path(package, tmp_path):
    (tmp_path / "mine.yaml").write_text("# mine")
    assert recipe_names(package) == ["big_7b", "small"]
    assert recipe_text("small", package) == "# small.yaml"
    assert recipe_text(str(tmp_path / "mine.yaml"), package) == "# mine"


def test_an_unknown_name_lists_those_there_are(package):
    with pytest.raises(UserError, match=r"no recipe 'nope': .*, and ours are big_7b, small"):
        recipe_text("nope", package)


def test_a_folder_or_foreign_bytes_are_no_recipe(package, tmp_path):
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    for source in (tmp_path, tmp_path / "bytes.yaml"):
        with pytest.raises(UserError, match="can't read the recipe "):
            recipe_text(str(source), package)
