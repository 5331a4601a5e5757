"""A small experiment for the tests: they copy it, run it as a script, and kill it.

python toy.py FOLDER [--cells N] [--pause SECONDS] [--pad CHARACTERS]
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from icml.core.errors import UserError
from icml.core.journal import replace_folder


@dataclass(frozen=True)
class Config:
    cells: int = 6
    pause: float = 0.01
    pad: int = 10


class Curve:
    """A figure: any object with such a method."""

    def __init__(self, points):
        self.points = points

    def save(self, folder, name):
        (folder / f"{name}.csv").write_text("\n".join(map(str, self.points)))
        (folder / f"{name}.svg").write_text("<svg/>")


def train(seed, *, config, log):
    for step in range(3):
        time.sleep(config.pause)
        log(step, arm="toy", seed=seed, loss=1 / (seed + step + 1))
    return {"score": seed / 7, "pair": (seed, float("inf")), "pad": "x" * config.pad}


def experiment(config, run):
    seeds = range(config.cells)
    scores = run.cells({f"seed={seed}": (seed,) for seed in seeds}, partial(train, config=config))
    mean = run.cell("mean", lambda: sum(score["score"] for score in scores.values()) / len(scores))
    with replace_folder(run.checkpoint("last")) as folder:
        (folder / "state").write_text(str(mean))
    run.seeds(seeds)
    run.table("scores", [{"cell": key, **_row(value)} for key, value in scores.items()], caption="")
    run.figure("loss", Curve([row["loss"] for row in run.metrics()]), caption="Loss.")
    run.claim("mean", "The mean is positive.", value=mean, interval=(0, 1), holds=mean > 0)
    run.note("It shows nothing.")


def _row(value):
    return {"score": value["score"], "end": value["pair"][1]}


def threads(*, log):
    return {name: os.environ.get(name) for name in os.environ if name.endswith("_NUM_THREADS")}


def torch_threads(*, log):
    import torch

    return torch.get_num_threads()


def imported(*names, log):
    return [name for name in names if name in sys.modules]


def process_and_length(items, *, log):
    items.append(0)
    return [os.getpid(), len(items)]


def give(value, *, log):
    return value


def give_late(value, seconds, *, log):
    time.sleep(seconds)
    return value


def give_object(*, log):
    return {"inner": [object()]}


def fail(*, log):
    log(0, arm="a", seed=0, loss=1.0)
    raise ZeroDivisionError("no loss left")


def refuse(*, log):
    raise UserError("the tasks file is missing")


def leave(code, *, log):
    os._exit(code)


def die(*, log):
    os.kill(os.getpid(), signal.SIGKILL)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cells", type=int, default=Config.cells)
    parser.add_argument("--pause", type=float, default=Config.pause)
    parser.add_argument("--pad", type=int, default=Config.pad)
    options = parser.parse_args()
    from icml.core.experiment import Run  # not at the top: the worker processes don't need it

    config = Config(cells=options.cells, pause=options.pause, pad=options.pad)
    try:
        with Run.open("toy", config, out=options.folder, command="toy") as run:
            if not run.finished:
                experiment(config, run)
            run.finish()
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
