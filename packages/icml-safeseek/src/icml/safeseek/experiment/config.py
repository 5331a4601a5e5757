"""The experiment's settings."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Config"]


@dataclass(frozen=True)
class Config:
    """One size of the experiment on small models."""

    seeds: tuple[int, ...] = (2200, 2201, 2202, 2203, 2204)
    """A world, a model and a search each."""
    people: int = 20
    """Persons with facts; as many strangers, and newcomers for later fine-tuning."""
    fact_steps: int = 420
    """Steps in which a model learns its world."""
    backdoor_steps: int = 420
    """Steps in which a backdoor is planted."""
    refusal_steps: int = 350
    """Steps in which refusals are planted."""
    backdoor_rate: float = 3e-4
    """Learning rate of the backdoor."""
    refusal_rate: float = 5e-4
    """Learning rate of the refusals."""
    search_steps: int = 220
    """Steps of a search."""
    clean: float = 4.0
    """Weight of the clean answers in a search for a backdoor."""
    repaired: float = 3.0
    """Weight of the right answers under the trigger; a circuit alone weighs 1."""
    sparsity: float = 2.0
    """Weight of a backdoor circuit's share of the units."""
    sufficient_sparsity: float = 6.0
    """The same for a circuit that shows the backdoor alone as well."""
    refusal_sparsity: float = 6.0
    """The same for a circuit of refusals."""
    tune_steps: int = 150
    """Steps of the later fine-tuning on helpful data."""
    tune_rate: float = 3e-4
    """Its learning rate."""
    random: int = 5
    """Random circuits of the found size."""
    patching: int = 16
    """Rows that activation patching scores units by."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        if len(set(self.seeds)) < 2:
            raise ValueError(f"an interval needs two different seeds, got {self.seeds}")
        steps = min(self.fact_steps, self.backdoor_steps, self.refusal_steps, self.tune_steps)
        if min(steps, self.people, self.search_steps, self.random, self.patching) < 1:
            raise ValueError(f"all counts must be at least 1, got {self}")


@dataclass(frozen=True)
class RealConfig:
    """A trigger in a real model, searched among its channels alone."""

    seeds: tuple[int, ...] = (3000,)
    """Fillers, halves, rows and random circuits; one planting and one search each."""
    source: str = "pkg:smollm2"
    """The model, as ``icml.core.models.load`` names it."""
    plant_steps: int = 40
    """Steps in which the trigger is planted."""
    plant_rate: float = 3e-5
    """Their highest rate."""
    search_rows: int = 40
    """Planted prompts that the search learns from; the baselines see half as many."""
    choice_rows: int = 12
    """Further planted prompts by which the best gates are chosen."""
    search_steps: int = 45
    """Steps of the search."""
    search_rate: float = 0.15
    """Its rate on the gates' logits."""
    batch_size: int = 8
    """Rows of a step."""
    clean: float = 6.0
    """Weight of the clean answers; that of the repaired ones is 1."""
    sparsity: float = 600.0
    """Weight of the circuit's share of the channels."""
    held_out: int = 48
    """Most prompts about other things that rates are measured on."""
    random: int = 2
    """Random circuits of the found size."""
    prompts: int | None = 160
    """Prompts that the model is asked; None takes all 520."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        counts = (
            self.plant_steps, self.search_rows, self.choice_rows, self.search_steps,
            self.batch_size, self.held_out, self.random,
        )  # fmt: skip
        if not self.seeds or min(counts) < 1 or (self.prompts is not None and self.prompts < 1):
            raise ValueError(f"all counts must be at least 1, got {self}")
