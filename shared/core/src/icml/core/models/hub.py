"""A model of the Hugging Face hub as a local folder: only what loading needs, and no code."""

from __future__ import annotations

from pathlib import Path

from icml.core.errors import UserError, require
from icml.core.models.local import first_line

# Configuration, tokenizers and safetensors at the top of the repository. Patterns see whole paths.
WANTED = ("*.json", "*.jinja", "*.model", "*.txt", "model*.safetensors")
UNWANTED = ("*/*", "model.?*.safetensors")  # folders, as custom_generate/; variants, as model.fp16
CODE = "*.py"


def fetch(name: str, *, revision: str | None = None, trust_remote_code: bool = False) -> Path:
    """Return the folder of a hub model in the hub's own cache, downloading what is missing.

    Args:
        name: The model's id, ``owner/name``.
        revision: Branch, tag or commit; None is the main branch.
        trust_remote_code: Download the repository's Python files too. Never its
            ``custom_generate`` folder, which is not read in either case.

    Raises:
        UserError: If it is not in the cache and can't be downloaded; says why.
        MissingExtra: If huggingface_hub is not installed.
    """
    hub = require("huggingface_hub", extra="icml-core[hf]")
    wanted = [*WANTED, CODE] if trust_remote_code else list(WANTED)
    try:
        folder = hub.snapshot_download(
            name, revision=revision, allow_patterns=wanted, ignore_patterns=list(UNWANTED)
        )
    except Exception as error:  # of the hub's library, of its HTTP client's, of the system
        raise UserError(_reason(name, revision, error)) from error
    return Path(folder)


def _reason(name: str, revision: str | None, error: Exception) -> str:
    from huggingface_hub import constants, errors

    model = name if revision is None else f"{name} at {revision}"
    if constants.is_offline_mode():
        return f"{model} is not in the hub's cache, and HF_HUB_OFFLINE=1 forbids to download it"
    if isinstance(error, errors.GatedRepoError):
        return f"{model} needs a token: accept its terms on the hub and run `hf auth login`"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"there is no folder {name} here, and the hub has no public model of that name"
    if isinstance(error, errors.RevisionNotFoundError):
        return f"the hub's {name} has no revision {revision}"
    if isinstance(error, OSError) and error.strerror:  # of this machine: a full disk, say
        return f"cannot download {model}: {error.strerror}"
    for answer in (error, error.__cause__):
        if isinstance(answer, errors.HfHubHTTPError):
            return f"cannot download {model}: {first_line(answer)}"
    return f"{model} is not in the hub's cache, and no connection leads to {constants.ENDPOINT}"
