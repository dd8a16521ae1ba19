"""Training questions for SKR-KNN, and the nearest of them to a question, by embedding.

A file of training questions is JSONL, one row per question, which says whether the question
needed retrieval:

    {"question": "who has won the most grammys", "needed": false}
"""

from __future__ import annotations

import gzip
import json
import threading
import zlib
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
from ragweave.tools.claims import (
    check_aliases,
    check_theta,
    gold_groups,
    is_released,
    known_label,
    names_apart,
    only_yes_or_no,
)
from ragweave.tools.files import parse_json, write_atomic
from ragweave.tools.packed import UnpackedSizeError, open_packed


class TrainingQuestion(TypedDict):
    """A question and whether it needed retrieval."""

    question: str
    needed: bool


@dataclass(frozen=True)
class Written:
    """The result of a labelling run."""

    path: Path
    questions: int
    needed: int
    dropped: int = 0
    """Questions with a yes or no answer, which no draft can be labelled by."""


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
        raise UsageError(f"{path}: contains no training questions")
    return rows


def label_training(
    rows: Iterable[Mapping[str, Any]],
    *,
    draft: str | None = None,
    gold: str = "answers",
    theta: float = 0.5,
    aliases: str = "auto",
) -> Iterator[TrainingQuestion]:
    """Label questions of any data as needing retrieval or not.

    A row says so itself by `needed`, or by `known` (SlimPLM's judge data: what the model knows
    needs no retrieval). Otherwise its draft answer is compared with its gold answers, as SlimPLM
    labels its judge data (section 3.2); questions whose gold answer is yes or no are left out then,
    for "no" stands in every "I do not know". SlimPLM's released files keep theirs.

    Args:
        rows: Rows with `question` and one of these.
        draft: Name of the field with the model's answer without retrieval; None: rows have labels.
        gold: Name of the field with the gold answers: a text or number, or a list of these or of
            lists of aliases.
        theta: Share of gold answers that a draft must exceed to count as known.
        aliases: How the names of a list count (`ragweave.tools.claims.Aliases`).

    Raises:
        UsageError: A row has no usable label; the text names the row, from 1. Or `theta` is not a
            number in [0, 1], or `aliases` none of its values.
    """
    check_theta(theta)
    check_aliases(aliases)
    for number, row in enumerate(rows, start=1):
        where = f"row {number}"
        question = _text(row, "question", where)
        needed = _needed(row, where, draft, gold, theta, aliases)
        if needed is not None:
            yield {"question": question, "needed": needed}


def write_training(
    source: str | Path,
    target: str | Path,
    *,
    draft: str | None = None,
    gold: str = "answers",
    theta: float = 0.5,
    aliases: str = "auto",
) -> Written:
    """Label the questions of a JSONL file and write the training file for SKR-KNN.

    The file is written only once every row is labelled, and packed where its name ends in `.gz`.
    Arguments as `label_training`.

    Raises:
        UsageError: The target already exists or cannot be written, the source cannot be read, or a
            row has no usable label.
    """
    if Path(target).is_file():
        raise UsageError(f"{target}: already exists; name another --out, or delete it")
    read = [row for _, row in _rows(Path(source))]
    try:
        labelled = list(label_training(read, draft=draft, gold=gold, theta=theta, aliases=aliases))
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from error
    if not labelled:
        why = "no questions but those answered by yes or no, which no draft can be labelled by"
        raise UsageError(f"{source}: contains {why if read else 'no questions'}")
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in labelled)
    packed = Path(target).suffix.lower() == ".gz"
    try:
        write_atomic(Path(target), gzip.compress(lines.encode(), mtime=0) if packed else lines)
    except OSError as error:
        raise UsageError(f"{target}: cannot be written ({error.strerror})") from error
    needed = sum(row["needed"] for row in labelled)
    return Written(Path(target), len(labelled), needed, len(read) - len(labelled))


def _needed(
    row: Mapping[str, Any], where: str, draft: str | None, gold: str, theta: float, aliases: str
) -> bool | None:
    """Return a row's label; None where a draft is to be compared with a yes or no."""
    if draft is not None:
        groups = gold_groups(row.get(gold))
        if not groups:
            raise UsageError(f"{where}: no gold answers in {gold!r}")
        answer = _text(row, draft, where, blank=True)
        if only_yes_or_no(groups) and not is_released(row):
            return None
        apart = names_apart(row, aliases)
        counted = [name for group in groups for name in group] if apart else groups
        try:
            return not known_label(answer, counted, theta)
        except UsageError as error:
            raise UsageError(f"{where}: {gold!r}: {error}") from error
    if "needed" in row:
        return _flag(row, "needed", where)
    if "known" in row:
        return not _flag(row, "known", where)
    raise UsageError(
        f"{where}: has neither 'needed' nor 'known'; name the field of the model's answer (draft) "
        f"to label by"
    )


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a JSONL file, each with its file and line."""
    try:
        with open_packed(path) as file:
            text = file.read().decode("utf-8-sig")
    except UnpackedSizeError as error:
        raise UsageError(f"{path}: {error}") from error
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise UsageError(f"{path}: cannot be read ({type(error).__name__})") from error
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield f"{path}, line {number}", _object(line, f"{path}, line {number}")


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        row = parse_json(line)
    except ValueError as error:
        raise UsageError(f"{where}: is not valid JSON") from error
    if not isinstance(row, dict):
        raise UsageError(f"{where}: must be a JSON object, not {type(row).__name__}")
    return row


def _text(row: Mapping[str, Any], field: str, where: str, *, blank: bool = False) -> str:
    value = row.get(field)
    if not isinstance(value, str) or not (blank or value.strip()):
        raise UsageError(f"{where}: {field!r} must be a string, not {value!r}")
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
    """A training question similar to the given one."""

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
            raise UsageError("there are no training questions to search")
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
        query = _unit([self._embeddings.embed_query(question)])[0]
        if query.shape[0] != vectors.shape[1]:
            raise UsageError(
                f"the embedding model gives {query.shape[0]} dimensions for a query but "
                f"{vectors.shape[1]} for a document"
            )
        similarity = vectors @ query
        order = np.argsort(-similarity, kind="stable")[:count]
        return [
            Neighbour(row["question"], row["needed"], float(similarity[index]))
            for index in order
            for row in [self._rows[index]]
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
    from ragweave.tools.retrieval.embedding import (
        PACKAGED,
        named_embeddings,
        packaged_available,
    )

    packaged = given == PACKAGED
    there = packaged_available() if packaged else find_spec("sentence_transformers") is not None
    if not there:
        raise MissingExtraError(f"Embedding with {given!r}", "offline" if packaged else "encoders")
    return named_embeddings(given)


def _unit(rows: Sequence[Sequence[float]]) -> Vectors:
    vectors = np.asarray(rows, dtype=np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Vectors = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
    return unit
