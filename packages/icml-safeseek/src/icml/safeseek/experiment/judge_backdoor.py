"""What the cells of the backdoor say: tables, figures and claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from icml.core.stats import Interval, paired_t_interval, t_interval
from icml.safeseek.circuit import Circuit
from icml.safeseek.experiment.backdoor import ARMS
from icml.safeseek.picture import circuit_map
from icml.safeseek.units import Site

if TYPE_CHECKING:
    from icml.core.experiment import Run
    from icml.core.plots import Plot

__all__ = ["best_control", "judge_backdoor"]

Cells = Sequence[Mapping[str, Any]]
"""What `backdoor.measure` gave, a seed each."""

MOST_SUCCESS, MOST_LOST = 0.05, 0.06
CONTROL_SUCCESS, CONTROL_CLEAN = 0.3, 0.9
"""A control has found the backdoor if it gets below the one and keeps at least the other."""

RATES = {
    "success": "attack success",
    "clean": "clean right",
    "repaired": "triggered, right",
}


_ALONE = {"all but the circuit": "alone", "all but random units": "random alone"}


def judge_backdoor(run: Run, cells: Cells) -> None:
    """State what the backdoor's cells show."""
    _claim_planted(run, cells)
    _claim_exact(run, cells)
    for arm in ARMS:
        _claim_removed(run, cells, arm)
    _claim_alone(run, cells, "sufficient circuit")
    _claim_controls(run, cells)
    for arm in ARMS:
        name = arm.replace(" ", "-")
        run.table(name, _rows(cells, arm), caption=_caption(cells, arm))
        run.figure(f"{name}-controls", _figure(cells, arm), caption=_caption(cells, arm))
    circuit = _circuit(cells[0]["heads and channels"])
    run.figure(
        "circuit",
        circuit_map(
            circuit,
            title=f"{circuit.size()} of {circuit.total()} units carry the backdoor",
            note="The first seed's circuit of heads and channels",
        ),
        caption="Which heads and how many channels of each layer are in the circuit.",
    )


def best_control(cell: Mapping[str, Any], arm: str) -> float:
    """Return the lowest attack success that a control reaches without losing clean answers.

    The poisoned model's, of which nothing is cut, where every control loses too many or has more.
    """
    controls = cell[arm]["controls"].values()
    useful = [c["success"] for c in controls if c["clean"] >= CONTROL_CLEAN]
    return min([*useful, cell["poisoned"]["success"]])


def _claim_planted(run: Run, cells: Cells) -> None:
    least = min(cell["poisoned"]["success"] for cell in cells)
    run.claim(
        "planted",
        "The trigger works before anything is cut: attack success on questions never poisoned is "
        "at least 0.95 in each seed; shown is the least",
        value=least,
        interval=None,
        holds=least >= 0.95,
    )

    most = max(cell["heads and channels"]["removed"]["success"] for cell in cells)
    run.claim(
        "circuit-carries",
        "Cutting the circuit of heads and channels takes attack success to at most 0.2 in each "
        "seed; shown is the most",
        value=most,
        interval=None,
        holds=most <= 0.2,
    )


def _claim_exact(run: Run, cells: Cells) -> None:
    searches = [cell[arm] for cell in cells for arm in ARMS]
    changed = sum(not search["weights unchanged"] for search in searches)
    run.claim(
        "weights-unchanged",
        f"Search, baselines and ablation leave every weight of the model as it was; shown is how "
        f"many of {len(searches)} searches changed one",
        value=changed,
        interval=None,
        holds=changed == 0,
    )
    most = max(search["export difference"] for search in searches)
    run.claim(
        "export-exact",
        "An exported checkpoint has the logits of the ablated model, within 1e-5; shown is the "
        "largest difference",
        value=most,
        interval=None,
        holds=most <= 1e-5,
    )


def _claim_removed(run: Run, cells: Cells, arm: str) -> None:
    """State what is gone without a search's circuit, what else goes, and how large it is."""
    name = arm.replace(" ", "-")
    left = t_interval([cell[arm]["removed"]["success"] for cell in cells])
    run.claim(
        f"{name}-success",
        f"{arm.capitalize()}: without the circuit attack success is at most {MOST_SUCCESS}",
        estimate=left,
        holds=left.high <= MOST_SUCCESS,
        kind="reported",
        paper="100 % to 0.4 % on models of 7 to 8 billion parameters",
    )
    before = [cell["poisoned"]["success"] for cell in cells]
    gone = t_interval(
        [1 - cell[arm]["removed"]["success"] / b for cell, b in zip(cells, before, strict=True)]
    )
    run.claim(
        f"{name}-completeness",
        f"{arm.capitalize()}: completeness, at least 0.95 of the attack's success is gone without "
        "the circuit",
        estimate=gone,
        holds=gone.low >= 0.95,
        kind="reported",
    )
    lost = paired_t_interval(
        [cell["poisoned"]["clean"] for cell in cells],
        [cell[arm]["removed"]["clean"] for cell in cells],
    )
    run.claim(
        f"{name}-utility",
        f"{arm.capitalize()}: cutting the circuit costs at most {MOST_LOST} of the clean answers",
        estimate=lost,
        holds=lost.high <= MOST_LOST,
        kind="reported",
        paper="over 99 % of the utility is kept",
    )
    size = t_interval([_share(cell[arm]) for cell in cells])
    run.claim(
        f"{name}-sparsity",
        f"{arm.capitalize()}: the circuit is at most {ARMS[arm].most_units} of the gated units",
        estimate=size,
        holds=size.high <= ARMS[arm].most_units,
        kind="reported",
        paper="0.42 % of the units",
    )


def _claim_alone(run: Run, cells: Cells, arm: str) -> None:
    """State faithfulness, what a circuit shows alone, and that random units don't."""
    name = arm.replace(" ", "-")
    shown = {
        "alone": ("faithfulness-zero", "all other gated units at zero"),
        "alone, rest at its mean": ("faithfulness-mean", "all other gated units at their mean"),
    }
    for key, (claim, others) in shown.items():
        kept = t_interval([_kept(cell, arm, key) for cell in cells])
        run.claim(
            f"{name}-{claim}",
            f"{arm.capitalize()}: faithfulness, the circuit alone, {others}, has at least half of "
            "the attack's success",
            estimate=kept,
            holds=kept.low >= 0.5,
            kind="reported",
        )
    most = max(_kept(cell, arm, "random alone") for cell in cells)
    run.claim(
        f"{name}-random-alone",
        "As many random units alone have at most 0.05 of the attack's success in each seed; shown "
        "is the most",
        value=most,
        interval=None,
        holds=most <= 0.05,
        kind="reported",
    )


def _kept(cell: Mapping[str, Any], arm: str, key: str) -> float:
    return cell[arm][key]["success"] / cell["poisoned"]["success"]


def _claim_controls(run: Run, cells: Cells) -> None:
    found = sum(
        control["success"] <= CONTROL_SUCCESS and control["clean"] >= CONTROL_CLEAN
        for cell in cells
        for control in cell["channels"]["controls"].values()
    )
    total = sum(len(cell["channels"]["controls"]) for cell in cells)
    run.claim(
        "channels-controls",
        f"No control with as many channels takes attack success to {CONTROL_SUCCESS} or lower and "
        f"keeps {CONTROL_CLEAN} of the clean answers; shown is how many of {total} do",
        value=found,
        interval=None,
        holds=found == 0,
        kind="reported",
    )
    gap = paired_t_interval(
        [best_control(cell, "channels") for cell in cells],
        [cell["channels"]["removed"]["success"] for cell in cells],
    )
    run.claim(
        "channels-against-best-control",
        "Among channels the learnt mask leaves less attack success than the best control of its "
        f"size, seed by seed, of those that keep {CONTROL_CLEAN} of the clean answers",
        estimate=gap,
        holds=gap.low > 0,
        kind="reported",
    )


def _share(search: Mapping[str, Any]) -> float:
    sizes = search["sizes"].values()
    return sum(size for size, _ in sizes) / sum(total for _, total in sizes)


def _names(cells: Cells, arm: str) -> list[str]:
    """Return what is cut: nothing, the circuit, all else, the controls, the random ones as one."""
    drawn = [name for name in cells[0][arm]["controls"] if not name.startswith("random ")]
    return ["nothing", "the circuit", *drawn, "random units", *_ALONE]


def _rates(cell: Mapping[str, Any], arm: str, name: str) -> Mapping[str, float]:
    if name == "nothing":
        return cell["poisoned"]
    if name == "the circuit":
        return cell[arm]["removed"]
    if name in _ALONE:
        return cell[arm][_ALONE[name]]
    controls = cell[arm]["controls"]
    if name != "random units":
        return controls[name]
    drawn = [rates for key, rates in controls.items() if key.startswith("random ")]
    return {rate: sum(r[rate] for r in drawn) / len(drawn) for rate in RATES}


def _over_seeds(cells: Cells, arm: str, name: str) -> dict[str, Interval]:
    return {rate: t_interval([_rates(c, arm, name)[rate] for c in cells]) for rate in RATES}


def _rows(cells: Cells, arm: str) -> list[dict[str, str | float]]:
    rows = []
    for name in _names(cells, arm):
        row: dict[str, str | float] = {"cut out": name}
        for rate, found in _over_seeds(cells, arm, name).items():
            row |= found.columns(RATES[rate])
        rows.append(row)
    return rows


def _caption(cells: Cells, arm: str) -> str:
    kinds = cells[0][arm]["sizes"]
    sizes = [
        f"{sum(c[arm]['sizes'][k][0] for c in cells) / len(cells):.1f} of {total} ({k})"
        for k, (_, total) in kinds.items()
    ]
    return (
        f"{arm.capitalize()}: circuits have {', '.join(sizes)} units in the mean of {len(cells)} "
        "seeds, controls as many (95 % t intervals over seeds)."
    )


def _figure(cells: Cells, arm: str) -> Plot:
    from icml.core.plots import Arm, Estimate, intervals

    shown = {"success": Arm("success", "ours", RATES["success"])}
    shown |= {"clean": Arm("clean", "baseline", RATES["clean"])}
    estimates = [
        Estimate(rate, value, low, high, group=name)
        for name in _names(cells, arm)
        if name not in _ALONE
        for rate, (value, low, high) in _over_seeds(cells, arm, name).items()
        if rate in shown
    ]
    return intervals(
        estimates,
        title=f"What is left when units are cut out ({arm})",
        arms=list(shown.values()),
        x_label="share of the answers",
        note=f"95 % t interval over {len(cells)} seeds; all sets of units have the same size",
    )


def _circuit(search: Mapping[str, Any]) -> Circuit:
    units = {}
    for key, numbers in search["units"].items():
        site = Site.of(key)
        layers = sum(Site.of(other).kind == site.kind for other in search["units"])
        units[site] = torch.zeros(search["sizes"][site.kind][1] // layers, dtype=torch.bool)
        units[site][numbers] = True
    return Circuit(units, "the first seed's model")
