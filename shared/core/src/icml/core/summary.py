"""What a finished run says, in one schema for all papers (``summary.json``)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, FiniteFloat, JsonValue, ValidationError

from icml.core.errors import UserError

SCHEMA_VERSION = 1

Cell = str | int | float | bool | None


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")


class Claim(_Record):
    """A checkable statement about the run.

    ``required`` claims are what the package stands for (mechanism, exactness); ``reported``
    ones are what this small run says about the paper's performance claim.
    """

    id: str
    statement: str
    value: float
    interval: tuple[float, float] | None
    holds: bool
    kind: Literal["required", "reported"]
    paper: str | None = None
    """What the paper itself reports for this, quoted with its source."""

    @property
    def failed(self) -> bool:
        """Whether it is a required claim that does not hold."""
        return self.kind == "required" and not self.holds

    @property
    def verdict(self) -> str:
        """The outcome in words: "holds" or "FAILED", "supported" or "not supported …"."""
        if self.kind == "required":
            return "FAILED" if self.failed else "holds"
        return "supported" if self.holds else "not supported at this scale"


class Table(_Record):
    """Rows of a table; every row has the keys of ``columns``."""

    name: str
    caption: str
    columns: list[str]
    rows: list[list[Cell]]


class Figure(_Record):
    """A figure and the numbers it was drawn from, as paths relative to the run's folder."""

    name: str
    caption: str
    svg: str
    csv: str


class Timing(_Record):
    """Everything that differs between two runs of the same experiment on one machine."""

    started: str
    """ISO 8601, UTC."""
    finished: str
    """ISO 8601, UTC."""
    wall_seconds: FiniteFloat
    """Time spent running, summed over the sittings of a run that was interrupted."""
    peak_memory_mb: FiniteFloat
    """Largest memory of the process tree that was seen, in MB (10^6 bytes): proportional set sizes
    on Linux, which count a page that n processes share as 1/n in each; resident sizes elsewhere."""


class Summary(_Record):
    """A finished run. Equal seeds on one machine give equal summaries but for ``timing``."""

    schema_version: Literal[1] = SCHEMA_VERSION
    paper: str
    title: str
    command: str
    config: dict[str, JsonValue]
    seeds: list[int]
    versions: dict[str, str]
    hardware: dict[str, str | int | float]
    git: str | None
    claims: list[Claim]
    tables: list[Table]
    figures: list[Figure]
    notes: list[str]
    timing: Timing

    @property
    def failed(self) -> list[Claim]:
        """The required claims that do not hold."""
        return [claim for claim in self.claims if claim.failed]


def read_summary(folder: Path) -> Summary:
    """Read the ``summary.json`` of the finished run in ``folder``.

    Raises:
        UserError: If there is none, or it is not one that this version writes.
    """
    path = folder / "summary.json"
    try:
        return Summary.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise UserError(f"{folder} holds no finished run: there is no summary.json") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise UserError(f"{path} is not a run's summary: {where}: {first['msg']}") from error
