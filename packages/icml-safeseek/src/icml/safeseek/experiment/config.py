"""The experiment's settings."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Config"]


@dataclass(frozen=True)
class Config:
    """One size of the experiment on small models."""

    seeds: tuple[int, ...] = (2000, 2001, 2002, 2003, 2004)
    """A world, a model and a search each."""
    people: int = 20
    """Persons with facts; as many strangers, and newcomers for later fine-tuning."""
    fact_steps: int = 420
    """Steps in which a model learns its world."""
    plant_steps: int = 350
    """Steps in which a backdoor or refusals are planted."""
    backdoor_rate: float = 3e-4
    """Learning rate of the backdoor."""
    refusal_rate: float = 5e-4
    """Learning rate of the refusals."""
    search_steps: int = 220
    """Steps of a search."""
    sparsity: float = 2.0
    """Weight of a backdoor circuit's share of the units."""
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
        small = min(self.people, self.fact_steps, self.plant_steps, self.search_steps, self.random)
        if min(small, self.tune_steps, self.patching) < 1:
            raise ValueError(f"all counts must be at least 1, got {self}")
