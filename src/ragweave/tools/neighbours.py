"""Training questions for SKR-KNN, and the nearest of them to a question, by embedding.

A file of training questions is JSONL, a row per question, which says whether the question needed retrieval:

    {"question": "who has won the most grammys", "needed": false}
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray
from pydantic import StrictBool, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from ragweave.errors import UsageError


class TrainingQuestion(TypedDict):
    """A question and whether it needed retrieval."""

    question: str
    needed: StrictBool


_ROW = TypeAdapter(TrainingQuestion)


def read_training(path: str | Path) -> list[TrainingQuestion]:
    """Read training questions (`.jsonl`, or gzipped `.jsonl.gz`); other fields are ignored.

    Raises:
        UsageError: The file is missing, unreadable or empty, or a row lacks a field; the text names the line.
    """
    opened: Any = gzip.open if Path(path).suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig") as file:
            lines = file.read().split("\n")
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise UsageError(f"{path}: cannot be read ({type(error).__name__})") from error
    rows = [_row(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise UsageError(f"{path}: contains no training questions")
    return rows


def _row(line: str, where: str) -> TrainingQuestion:
    try:
        return _ROW.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        name = f"{first['loc'][0]}: " if first["loc"] else ""
        raise UsageError(f"{where}: {name}{first['msg']}") from error


@dataclass(frozen=True)
class Neighbour:
    """A training question similar to the given one."""

    question: str
    needed: bool
    similarity: float
    """Cosine, from -1 to 1."""


class TrainingIndex:
    """Training questions by embedding; they are embedded at the first search, once. Safe under threads."""

    def __init__(self, rows: Sequence[TrainingQuestion], embeddings: Embeddings) -> None:
        """Take the questions, one at least."""
        self._rows, self._embeddings = list(rows), embeddings
        self._vectors: NDArray[np.float32] | None = None
        self._lock = Lock()

    @property
    def share_needed(self) -> float:
        """The share of the training questions that needed retrieval."""
        return sum(row["needed"] for row in self._rows) / len(self._rows)

    def nearest(self, question: str, count: int) -> list[Neighbour]:
        """Return the `count` nearest training questions, nearest first; ties in file order."""
        with self._lock:
            if self._vectors is None:
                self._vectors = _unit(self._embeddings.embed_documents([row["question"] for row in self._rows]))
        similarity = self._vectors @ _unit([self._embeddings.embed_query(question)])[0]
        best = np.argsort(-similarity, kind="stable")[:count]
        return [Neighbour(**self._rows[at], similarity=float(similarity[at])) for at in best]


def _unit(rows: Sequence[Sequence[float]]) -> NDArray[np.float32]:
    vectors = np.asarray(rows, dtype=np.float32)
    unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-30)
    return unit
