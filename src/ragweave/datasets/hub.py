"""Data sets of the Hugging Face hub: `hf:nq_open?split=validation`, streamed row by row.

Behind the `?` stand the split and the config, the fields of a data set in no known format
(`question=q&answers=gold`, as for plain rows), and which questions are asked (`random=500&seed=7`,
as for files).
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ragweave.datasets.plain import FIELDS, plain
from ragweave.datasets.question import Format
from ragweave.datasets.rows import Row, Rows
from ragweave.errors import MissingExtraError, UsageError
from ragweave.registry import closest

SPLIT = "validation"
"""The split that is read where none is named."""

_PLACE = ("split", "config")

PAPERS_NAMES = {"nq_open": "nq", "google-research-datasets/nq_open": "nq"}
"""What the papers' subsets call data sets of the hub that are the published files, row by row."""


def hub_rows(name: str, settings: Mapping[str, str]) -> Rows:
    """Yield the rows of a hub data set, streamed.

    Args:
        name: The data set's name, such as `nq_open`.
        settings: `split` (default `validation`) and `config`; others play no part.

    Raises:
        MissingExtraError: The `datasets` package is not installed.
        UsageError: There is no such data set, config or split, it is made by a script, which the
            library no longer runs, or there is no network to download it.
    """
    if importlib.util.find_spec("datasets") is None:
        raise MissingExtraError("A data set of the Hugging Face hub", "hub")
    datasets = importlib.import_module("datasets")
    split = settings.get("split", SPLIT)
    try:
        found: Any = datasets.load_dataset(
            name, settings.get("config"), split=split, streaming=True
        )
        for number, fields in enumerate(found, start=1):
            yield Row(fields, f"hf:{name} {split}, row {number}", number)
    except (OSError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UsageError(f"hf:{name}: {_why(error)}: {reason}") from error


def _why(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "cannot be downloaded (is that its name on the hub?)"
    if isinstance(error, OSError):
        return "cannot be downloaded (is there a network connection?)"
    return "cannot be read"


def hub_path(name: str) -> Path:
    """Return the pseudo-path by which a hub data set is known."""
    return Path(f"hf:{name}")


def hub_form(name: str, settings: Mapping[str, str], more: Collection[str] = ()) -> Format | None:
    """Return the format that the settings of a hub data set name; None where they name no field.

    Args:
        name: The data set's name.
        settings: What stood behind the `?` of its spec.
        more: Further settings that it may have.

    Raises:
        UsageError: A setting is unknown, or the separator is empty.
    """
    known = (*_PLACE, *FIELDS, *more)
    for key in settings:
        if key not in known:
            raise UsageError(
                f"hf:{name}: unknown setting {key!r}{closest(key, known)}; choose one of: "
                f"{', '.join(known)}"
            )
    fields = {key: value for key, value in settings.items() if key in FIELDS}
    return plain("jsonl", fields) if fields else None
