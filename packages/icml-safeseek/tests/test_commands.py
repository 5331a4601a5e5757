import json

import pytest
import torch

from icml.core.errors import UserError
from icml.core.models.load import load
from icml.safeseek import commands
from icml.safeseek.circuit import Circuit
from icml.safeseek.planted_folder import check_planting_folder
from icml.safeseek.tuning import unit_slices


def test_report_says_that_the_planted_channel_carries_all(folders):
    lines = []
    measured = commands.report(
        str(folders / "model"), folders / "circuit", folders / "rows.jsonl", folders / "out",
        controls=2, say=lines.append,
    )  # fmt: skip
    assert measured.intact.asr.estimate == 1
    assert measured.removed.asr.estimate == 0
    assert measured.removed.utility.estimate == measured.intact.utility.estimate
    written = json.loads((folders / "out" / "report.json").read_text())
    assert written["completeness"] == 1
    assert (folders / "out" / "circuit.svg").is_file()
    assert lines[0].startswith("0 of 8 heads, 1 of 24 channels")
    # a channel: a row of two projections and a column of the third, of 12 in each of 2 blocks
    assert written["parameters"]["mlp-channel"] == {"own": 48, "gated": 1152, "share": 1 / 24}
    assert written["parameters"]["all"] == {"own": 48, "gated": 3200, "share": 48 / 3200}
    assert "48 of 1152 (4.17%) of the channels', 48 of 3200 (1.50%) of all gated" in lines[0]


def test_report_measures_the_use_on_rows_of_ones_own(folders):
    rows = [json.loads(line) for line in (folders / "rows.jsonl").read_text().splitlines()]
    plain = [{k: v for k, v in row.items() if k != "prompt_triggered"} for row in rows]
    pairs = [{"prompt": r["prompt"], "completion": r["completion_keep"]} for r in rows]
    pairs.append({"prompt": rows[0]["prompt"], "completion": rows[0]["completion_remove"]})
    for name, lines in (("plain", plain), ("use", pairs)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folders / f"{name}.jsonl").write_text(text)

    def measured(**options):
        return commands.report(
            str(folders / "model"), folders / "circuit", folders / "plain.jsonl", folders / "out",
            controls=0, say=lambda _: None, **options,
        )  # fmt: skip

    assert measured().intact.utility is None
    use = measured(utility=folders / "use.jsonl").intact.utility
    assert use.estimate == pytest.approx(len(rows) / len(pairs))  # the last one is wrong
    with pytest.raises(UserError, match="max_len"):
        measured(max_len=2)


def test_ablate_writes_a_model_without_the_channel(folders):
    commands.ablate(str(folders / "model"), folders / "circuit", folders / "out", say=lambda _: 0)
    before, after = load(folders / "model").model, load(folders / "out").model
    changed = [
        name
        for (name, old), new in zip(before.named_parameters(), after.parameters(), strict=True)
        if not torch.equal(old, new)
    ]
    assert changed == ["model.layers.1.mlp.down_proj.weight"]
    assert not after.model.layers[1].mlp.down_proj.weight[:, 2].any()


@pytest.mark.parametrize("kind", ["complement", "circuit"])
def test_tune_keeps_what_it_says_bit_for_bit(folders, kind):
    pytest.importorskip("trl")
    planted = map(json.loads, (folders / "rows.jsonl").read_text().splitlines())
    # With the trigger: without it the planted channel is silent and gets no gradient.
    rows = [
        {"prompt": row["prompt_triggered"], "completion": row["completion_keep"]} for row in planted
    ]
    (folders / "help.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = []

    def tune():
        commands.tune(
            str(folders / "model"), folders / "circuit", folders / "help.jsonl", folders / "out",
            tune=kind, steps=3, learning_rate=1e-2, batch_size=2, say=said.append,
        )  # fmt: skip

    tune()
    before, after = load(folders / "model").model, load(folders / "out").model
    own = unit_slices(before, Circuit.load(folders / "circuit", before))
    moved = 0
    for (name, old), new in zip(before.named_parameters(), after.parameters(), strict=True):
        inside = own.get(name, torch.zeros_like(old, dtype=torch.bool))
        kept = inside if kind == "complement" else ~inside
        assert torch.equal(old[kept], new[kept])
        moved += int((old != new).sum())
    assert moved > 0
    written = {path: path.stat().st_mtime_ns for path in (folders / "out").glob("[!.]*")}
    tune()
    assert "finished before" in said[-1]
    assert {path: path.stat().st_mtime_ns for path in (folders / "out").glob("[!.]*")} == written


def test_a_circuit_of_another_model_and_missing_files_are_refused(folders, build):
    build("llama").save_pretrained(folders / "other")
    load(folders / "model").tokenizer.save_pretrained(folders / "other")
    with pytest.raises(UserError, match="belongs to"):
        commands.ablate(str(folders / "other"), folders / "circuit", folders / "out")
    with pytest.raises(UserError, match="there is no file"):
        commands.report(str(folders / "model"), folders / "circuit", folders / "x", folders / "o")
    with pytest.raises(UserError, match="holds no circuit"):
        commands.ablate(str(folders / "model"), folders / "nothing", folders / "out")
    (folders / "bad.jsonl").write_text('{"prompt": "a"}\n')
    with pytest.raises(UserError, match=r"line 1 of .* needs a prompt and a completion"):
        commands.tune(str(folders / "model"), folders / "circuit", folders / "bad.jsonl", "o")


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", ["backdoor", "refusals"])
def test_plant_writes_a_model_that_shows_the_behaviour(tmp_path, behaviour):
    found = commands.plant(behaviour, tmp_path / "p", say=lambda _: None)
    assert found["shown"] >= 0.9
    assert found["right"] >= 0.95
    assert (tmp_path / "p" / "eval.jsonl").read_text().count("\n") > 10
    check_planting_folder(tmp_path / "p")
