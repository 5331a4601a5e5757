import json

import pytest

from icml.core.errors import UserError
from icml.core.rl.recipe import recipe_names
from icml.safeseek.circuit import Circuit
from icml.safeseek.objectives import backdoor_objective
from icml.safeseek.recipe import find, objective_of, read_recipe, search_config
from icml.safeseek.search import SearchConfig, find_circuit
from icml.safeseek.units import Site

SMALL = """
version: 1
model: {model}
data: {data}
objective: {{behaviour: backdoor, weights: {{clean: 3, sparsity: 0.5}}}}
search: {{granularity: [mlp-channel], steps: 40, batch_size: 4, learning_rate: 0.1}}
"""


@pytest.mark.parametrize("name", recipe_names("icml.safeseek"))
def test_every_recipe_of_ours_is_one(name):
    recipe = read_recipe(name)
    assert objective_of(recipe.objective).terms
    if name.startswith("paper"):  # the authors' scripts: rate 1e-2, seed 42
        config = search_config(recipe)
        assert (config.learning_rate, config.seed) == (1e-2, 42)


def test_the_papers_neuron_recipe_has_the_authors_numbers():
    config = search_config(read_recipe("paper_backdoor_neuron"))
    assert (config.epochs, config.batch_size, config.max_len) == (50, 2, 128)
    objective = objective_of(read_recipe("paper_backdoor_neuron").objective)
    assert objective.masks == 2
    assert [penalty.weight for penalty in objective.penalties] == [0.1, 3]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("steps: 40", "step: 40", "search: SearchConfig has no step"),
        ("clean: 3", "cleen: 3", "objective: backdoor has no weight cleen"),
        ("weights:", "preset: official-head, weights:", "has weights of its own: leave them"),
        ("steps: 40", "steps: many", "steps must be a whole number >= 1, got 'many'"),
        ("steps: 40", "steps: 0", "steps must be a whole number >= 1, got 0"),
        ("version: 1", "version: 2", "version"),
    ],
)
def test_a_wrong_recipe_is_refused(tmp_path, old, new, message):
    path = tmp_path / "r.yaml"
    path.write_text(SMALL.format(model="m", data="d").replace(old, new))
    with pytest.raises(UserError, match=message):
        read_recipe(str(path))


def test_missing_rows_are_told_before_a_model_is_loaded(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text(SMALL.format(model=tmp_path / "nowhere", data=tmp_path / "no.jsonl"))
    with pytest.raises(UserError, match=r"there is no file .*no\.jsonl"):
        find(str(path), out=tmp_path / "out")


def test_find_gives_the_circuit_of_the_same_call_in_python(tmp_path, planted):
    model, tokenizer, rows = planted("mlp-channel")
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    path = tmp_path / "r.yaml"
    path.write_text(SMALL.format(model=tmp_path / "model", data=tmp_path / "rows.jsonl"))
    lines = []

    result = find(str(path), out=tmp_path / "out", say=lines.append)

    objective = backdoor_objective(clean=3, sparsity=0.5)
    config = SearchConfig(granularity=("mlp-channel",), steps=40, batch_size=4, learning_rate=0.1)
    direct = find_circuit(model, tokenizer, rows, objective, config)
    # the fixture's one channel
    assert result.circuit.members() == direct.circuit.members() == [(Site(1, "mlp-channel"), 2)]
    loaded = Circuit.load(tmp_path / "out" / "circuit")
    assert loaded.members() == result.circuit.members()
    assert any(line.startswith("mlp-channel: 1 of 24") for line in lines)
    assert any(line.startswith("step    40") for line in lines)
