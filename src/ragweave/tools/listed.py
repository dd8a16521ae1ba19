"""One thing given for a list: a text alone is a list of texts to Python, which is never meant."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.documents import Document

_ALONE = (str, bytes, os.PathLike, Mapping, Document)


def listed(given: object) -> list[Any]:
    """Return what was given as a list; a text, path, mapping or document alone is the only item.

    Examples:
        >>> listed("12"), listed(["1", "2"])
        (['12'], ['1', '2'])
    """
    if isinstance(given, _ALONE) or not isinstance(given, Iterable):
        return [given]
    return list(given)
