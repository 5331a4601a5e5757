"""The state of a search, and its file: a search that was interrupted goes on bit for bit."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import safetensors
import torch
from safetensors import SafetensorError
from safetensors.torch import save
from torch import Tensor

from icml.core.errors import UserError
from icml.core.journal import cannot_write, lock_folder, remove_drafts, write_atomic
from icml.core.models.answers import AnswerBatch
from icml.safeseek.batches import digest
from icml.safeseek.masks import GateSet
from icml.safeseek.objectives import Objective, Pair

if TYPE_CHECKING:
    from icml.safeseek.search import SearchConfig

__all__ = ["Checkpoint", "SearchState", "search_identity"]

FILE = "search.safetensors"
MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # of Adam


@dataclass
class SearchState:
    """Everything that a step needs and changes."""

    gates: GateSet
    optimizer: torch.optim.Adam
    best: Tensor
    """Logits of the best gates so far."""
    step: int = 0
    """Steps taken."""
    best_step: int = 0
    best_loss: float = math.inf
    best_size: int = 0
    history: list[dict[str, float]] = field(default_factory=list)

    @classmethod
    def fresh(cls, gates: GateSet, learning_rate: float) -> SearchState:
        """Return the state before the first step."""
        optimizer = torch.optim.Adam([gates.logits], lr=learning_rate)
        return cls(gates, optimizer, gates.logits.detach().clone())

    def keep_best(self, row: Mapping[str, float]) -> None:
        """Keep the gates if their validation loss is the least, or equal with fewer left out."""
        size = sum(int((~on).sum()) for on in self.gates.hard("main").values())
        if (row["validation"], size) < (self.best_loss, self.best_size):
            self.best = self.gates.logits.detach().clone()
            self.best_step, self.best_loss, self.best_size = self.step, row["validation"], size

    def best_gates(self) -> GateSet:
        """Return gates with the best logits."""
        gates = copy.deepcopy(self.gates)
        with torch.no_grad():
            gates.logits.copy_(self.best)
        return gates.eval()


def search_identity(
    cfg: SearchConfig,
    objective: Objective,
    owner: str,
    train: Mapping[Pair, AnswerBatch],
    held_out: Mapping[Pair, AnswerBatch],
) -> str:
    """Return the SHA-256 of all that a search's outcome depends on."""
    settings = asdict(cfg)
    del settings["checkpoint_every"]  # how often the state is written changes nothing
    parts = (settings, asdict(objective), owner, digest(train), digest(held_out))
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class Checkpoint:
    """A search's file in its folder; without a folder nothing is kept."""

    def __init__(self, path: Path | None, identity: str) -> None:
        """Name the file and the search; `open` locks the folder as well."""
        self._path, self._identity = path, identity

    @classmethod
    @contextmanager
    def open(cls, out: Path | str | None, identity: str) -> Generator[Checkpoint]:
        """Lock a folder for one search.

        Raises:
            UserError: If another process has the folder or the system refuses it.
        """
        if out is None:
            yield cls(None, identity)
            return
        folder = Path(out)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(folder, error) from error
        with lock_folder(folder):
            remove_drafts(folder)
            yield cls(folder / FILE, identity)

    def save(self, state: SearchState) -> None:
        """Write the state; a kill at any moment leaves the old file or the new one."""
        if self._path is None:
            return
        moments = state.optimizer.state[state.gates.logits]
        tensors = {
            "logits": state.gates.logits.detach(),
            "best": state.best,
            **{name: moments[name] for name in MOMENTS},
        }
        about = {
            "identity": self._identity, "step": state.step,
            "best_step": state.best_step, "best_size": state.best_size,
            "best_loss": None if math.isinf(state.best_loss) else state.best_loss,
            "history": state.history,
        }  # fmt: skip
        metadata = {"state": json.dumps(about)}  # of one entry: the order of more is by chance
        held = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
        write_atomic(self._path, save(held, metadata))

    def load(self, state: SearchState) -> None:
        """Bring a fresh state to where the file was written; without a file leave it.

        Raises:
            UserError: If the file is damaged or another search's.
        """
        if self._path is None or not self._path.exists():
            return
        try:
            with safetensors.safe_open(str(self._path), "pt") as file:
                names, metadata = file.keys(), file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in names}
            about = json.loads(metadata["state"])
            identity = about["identity"]
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            raise UserError(
                f"{self._path} is damaged: {error}; delete it to search anew"
            ) from error
        if identity != self._identity:
            raise UserError(
                f"{self._path.parent} holds a search with another model, data, objective or "
                "settings: use another folder, or delete it"
            )
        logits = state.gates.logits
        with torch.no_grad():
            logits.copy_(tensors["logits"])
        moments = {name: tensors[name] for name in MOMENTS}
        state.optimizer.load_state_dict({**state.optimizer.state_dict(), "state": {0: moments}})
        state.best = tensors["best"].to(logits.device)
        state.step, state.best_step = about["step"], about["best_step"]
        state.best_size, state.history = about["best_size"], about["history"]
        state.best_loss = math.inf if about["best_loss"] is None else about["best_loss"]
