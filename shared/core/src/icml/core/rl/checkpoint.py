"""The state of a training loop on disk: complete or absent, and continued bit for bit."""

from __future__ import annotations

import json
import pickle
import signal
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
from icml.core.journal import replace_folder, whole_folder

__all__ = ["Checkpoint", "held_interrupts"]

_MODEL, _OPTIMIZER, _STATE = "model.safetensors", "optimizer.pt", "state.json"
_UNREADABLE = (
    OSError,
    ValueError,
    LookupError,
    RuntimeError,
    EOFError,
    pickle.UnpicklingError,
    SafetensorError,
)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Where one training run keeps its state, replaced as a whole at each save."""

    folder: Path
    identity: Mapping[str, Any]
    """What makes this run this run (JSON values): a save of another identity is refused."""
    model: nn.Module
    optimizer: torch.optim.Optimizer
    generator: torch.Generator

    def save(self, iteration: int, rows: list[dict[str, float]]) -> None:
        """Write the state after ``iteration`` finished iterations, and the rows logged so far."""
        state = {
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }
        record = {"identity": dict(self.identity), "iteration": iteration, "rows": rows}
        with replace_folder(self.folder) as draft:
            save_model(self.model, str(draft / _MODEL))
            torch.save(state, draft / _OPTIMIZER)
            (draft / _STATE).write_text(json.dumps(record))

    def restore(self) -> tuple[int, list[dict[str, float]]]:
        """Load the last save into model, optimizer and generator.

        Returns:
            The number of finished iterations and the rows logged by them; 0 and no rows where
            there is no save.

        Raises:
            UserError: If the folder holds something else, the save of a run with another
                identity, or one that can't be read.
        """
        folder = whole_folder(self.folder)
        if folder is None or not any(folder.iterdir()):
            return 0, []
        try:
            record = json.loads((folder / _STATE).read_text())
            self._check_identity(record["identity"])
            load_model(self.model, str(folder / _MODEL))
            state = torch.load(folder / _OPTIMIZER, weights_only=True, map_location="cpu")
            self.optimizer.load_state_dict(state["optimizer"])
            self.generator.set_state(state["generator"])
        except UserError:
            raise
        except _UNREADABLE as error:
            raise UserError(
                f"{folder} holds no checkpoint that can be read ({type(error).__name__}): "
                "choose another folder, or delete it to start anew"
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
