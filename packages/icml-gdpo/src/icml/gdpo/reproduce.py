from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    rates: tuple[float, ...] = (3e-4, 1e-3, 3e-3)
    report_seeds: tuple[int, ...] = tuple(range(1000, 1008))
    select_seeds: tuple[int, ...] = (2000, 2001, 2002)
    iterations: int = 50
    prompts: int = 16
    group_size: int = 8
    eval_every: int = 10
    width: int = 64
    sft_steps: int = 250
    sft_batch: int = 64
    sft_learning_rate: float = 3e-3
