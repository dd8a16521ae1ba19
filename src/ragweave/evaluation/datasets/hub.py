"""Data sets of the Hugging Face hub, by name: `hf:nq_open?split=validation`."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

from ragweave.errors import MissingExtraError, UsageError
from ragweave.evaluation.datasets.rows import Row, Rows


def hub_rows(name: str, settings: dict[str, str]) -> Rows:
    """Yield the rows of a hub data set, streamed.

    Args:
        name: The data set's name, such as `nq_open`.
        settings: `split` (default `validation`) and `config`.

    Raises:
        MissingExtraError: The `datasets` package is not installed.
        UsageError: There is no such data set, or no network to fetch it.
    """
    if importlib.util.find_spec("datasets") is None:
        raise MissingExtraError("A data set of the Hugging Face hub", "hub")
    datasets = importlib.import_module("datasets")
    split = settings.get("split", "validation")
    try:
        found: Any = datasets.load_dataset(
            name, settings.get("config"), split=split, streaming=True
        )
        for number, fields in enumerate(found, start=1):
            yield Row(fields, f"hf:{name} {split}, row {number}", number)
    except (OSError, ValueError) as fault:
        reason = " ".join(str(fault).split())[:200]
        raise UsageError(f"hf:{name}: cannot be had (is there a network?): {reason}") from fault


def hub_path(name: str) -> Path:
    """Return the pseudo path under which a hub data set is listed."""
    return Path(f"hf:{name}")
