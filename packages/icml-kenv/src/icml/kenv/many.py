"""Several patches at a time, on whatever executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from typing import Literal

from icml.core.errors import UserError
from icml.kenv.executor import Executor, Job, LocalExecutor
from icml.kenv.models import Verdict

ExecutorName = Literal["local", "ray"]


def executor_named(
    name: ExecutorName, *, address: str | None = None, slots: int | None = None
) -> Executor:
    """Return an executor.

    Raises:
        UserError: If the options don't fit each other, or there is no such cluster.
        MissingExtra: If Ray is wanted and not installed.
    """
    if name == "ray":
        from icml.kenv.ray_executor import RayExecutor

        return RayExecutor(address, slots=slots)
    if address is not None:
        raise UserError("--address is of a Ray cluster: give --executor ray as well")
    return LocalExecutor(slots)


def evaluate_all(
    jobs: Sequence[Job],
    executor: Executor,
    *,
    tell: Callable[[int, Verdict | UserError], None] = lambda number, came: None,
) -> list[Verdict | UserError]:
    """Evaluate jobs and return what came of each, in their order; closes the executor.

    One that gives no verdict (a missing source, say) leaves the others alone.

    Args:
        jobs: What to evaluate; equal ones share their runs.
        executor: Where.
        tell: Called with a job's index and what came of it, as it ends.
    """
    found: dict[int, Verdict | UserError] = {}
    try:
        number_of = {executor.submit(job): number for number, job in enumerate(jobs)}
        left = set(number_of)
        while left:
            done, left = wait(left, return_when=FIRST_COMPLETED)
            for handle in sorted(done, key=number_of.__getitem__):
                number = number_of[handle]
                try:
                    found[number] = executor.result(handle)
                except UserError as error:
                    found[number] = error
                tell(number, found[number])
    finally:
        executor.close()
    return [found[number] for number in range(len(jobs))]
