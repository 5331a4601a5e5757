"""The state of a training loop on disk: complete or absent, and continued bit for bit.

Each save is a folder of its own, ``iteration-00000010``, written beside and renamed into place;
then the older one goes. A kill at any moment leaves at least one complete save.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_model, save_model
from torch import nn

from icml.core.errors import UserError

__all__ = ["Checkpoint", "held_interrupts"]

_FOREIGN = (pickle.UnpicklingError, SafetensorError)
_PREFIX, _PARTIAL = "iteration-", ".partial-"


@dataclass(frozen=True)
class Checkpoint:
    """Where one training run keeps its state."""

    folder: Path
    identity: Mapping[str, Any]
    """What makes this run this run (JSON values): a save of another identity is refused."""
    model: nn.Module
    optimizer: torch.optim.Optimizer
    generator: torch.Generator

    def save(self, iteration: int, rows: list[dict[str, float]]) -> None:
        """Write the state after ``iteration`` finished iterations, and the rows logged so far."""
        self.folder.mkdir(parents=True, exist_ok=True)
        older = self._saves()
        partial = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=self.folder))
        save_model(self.model, str(partial / "model.safetensors"))
        state = {
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }
        torch.save(state, partial / "optimizer.pt")
        record = {"identity": dict(self.identity), "iteration": iteration, "rows": rows}
        (partial / "state.json").write_text(json.dumps(record))
        for path in (*partial.iterdir(), partial):
            _flush(path)
        target = self.folder / f"{_PREFIX}{iteration:08d}"
        shutil.rmtree(target, ignore_errors=True)
        partial.rename(target)
        _flush(self.folder)
        for path in (*older, *self.folder.glob(f"{_PARTIAL}*")):
            if path != target:
                shutil.rmtree(path)

    def restore(self) -> tuple[int, list[dict[str, float]]]:
        """Load the newest save into model, optimizer and generator.

        Returns:
            The number of finished iterations and the rows logged by them; 0 and no rows where
            there is no save.

        Raises:
            UserError: If the save belongs to a run with another identity, or can't be read.
        """
        saves = self._saves()
        if not saves:
            return 0, []
        newest = saves[-1]
        try:
            record = json.loads((newest / "state.json").read_text())
            self._check_identity(record["identity"])
            load_model(self.model, str(newest / "model.safetensors"))
            state = torch.load(newest / "optimizer.pt", weights_only=True, map_location="cpu")
            self.optimizer.load_state_dict(state["optimizer"])
            self.generator.set_state(state["generator"])
        except UserError:
            raise
        except (OSError, ValueError, LookupError, RuntimeError, EOFError, *_FOREIGN) as error:
            kind = type(error).__name__
            raise UserError(
                f"the checkpoint {newest} can't be read ({kind}): "
                f"delete {self.folder} to start anew"
            ) from error
        return record["iteration"], record["rows"]

    def _check_identity(self, saved: Mapping[str, Any]) -> None:
        # Through JSON, so that a tuple equals the list it was saved as.
        wanted = json.loads(json.dumps(dict(self.identity)))
        for name in wanted.keys() | saved.keys():
            if saved.get(name) != wanted.get(name):
                raise UserError(
                    f"{self.folder} holds a run with {name}={saved.get(name)!r}, this one has "
                    f"{name}={wanted.get(name)!r}: choose another folder or delete it"
                )

    def _saves(self) -> list[Path]:
        return sorted(self.folder.glob(f"{_PREFIX}*"))


def _flush(path: Path) -> None:
    """Force a file's or folder's content to the disk, so that a rename never precedes it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def held_interrupts() -> Generator[Callable[[], bool]]:
    """Hold a first Ctrl-C back until asked; a second one interrupts at once.

    Yields a function that says whether Ctrl-C was pressed. Interrupts are left alone outside the
    main thread, and where they are ignored or handled by somebody else.
    """
    pressed = threading.Event()
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield pressed.is_set
        return

    def hold(signum: int, frame: FrameType | None) -> None:
        if pressed.is_set():
            signal.default_int_handler(signum, frame)
        pressed.set()

    signal.signal(signal.SIGINT, hold)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
