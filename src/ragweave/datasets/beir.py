"""BEIR folders: corpus.jsonl, queries.jsonl and qrels (Thakur et al. 2021)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

from langchain_core.documents import Document

from ragweave.datasets.question import COLLECTION, STUB, Format, Question, has, passage
from ragweave.datasets.rows import Row, Rows, open_text, pick, rows_of
from ragweave.errors import UsageError

_SPLITS = ("test", "dev", "train")


def corpus(folder: Path) -> Iterator[Document]:
    """Yield the collection's documents under their own ids; a title alone is a text, too.

    Documents with neither text nor title, which published collections hold, are left out.
    """
    for row in rows_of(_file(folder, "corpus.jsonl")):
        doc = _document(row)
        if doc is not None:
            yield doc


def _document(row: Row, *, gold: bool = False) -> Document | None:
    """Return a document of the collection, which says so; None where it is blank."""
    title = str(row.fields.get("title") or "").strip()
    blank = not str(row.fields.get("text") or "").strip()
    if blank and not title:
        return None
    text = title if blank else row.text("text")
    doc = passage(text, title, gold=gold, **{COLLECTION: "beir"})
    return doc.model_copy(update={"id": row.text("_id")})


def _rows(folder: Path) -> Rows:
    """Yield the queries that have relevance judgements, with their relevant documents."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: a BEIR data set is a folder, but this is a file")
    relevant = _judgements(folder)
    texts = _judged(folder, frozenset(chain.from_iterable(relevant.values())))
    for row in rows_of(_file(folder, "queries.jsonl")):
        if row.text("_id") in relevant:
            gold = [texts.get(key) or _unknown(key) for key in relevant[row.text("_id")]]
            yield Row({**row.fields, "relevant": gold}, row.where, row.number)


def _judged(folder: Path, ids: frozenset[str]) -> Mapping[str, Document]:
    """Return the judged documents by id: these alone stay in memory."""
    try:
        path = _file(folder, "corpus.jsonl")
    except UsageError:  # a knowledge base may hold the collection
        return {}
    state = path.stat()
    return _read_judged(path, (state.st_size, state.st_mtime_ns), ids)


@lru_cache(maxsize=2)
def _read_judged(
    path: Path, _state: tuple[int, int], ids: frozenset[str]
) -> Mapping[str, Document]:
    """Read the judged documents of a collection, once: a data set is gone through several times."""
    found = (_document(row, gold=True) for row in rows_of(path) if row.text("_id") in ids)
    return MappingProxyType({str(doc.id): doc for doc in found if doc is not None})


def _unknown(key: str) -> Document:
    """Return what stands for a document whose text the folder does not hold."""
    stub: dict[str, Any] = {STUB: True}
    return passage(f"document {key}", gold=True, **stub).model_copy(update={"id": key})


def _judgements(folder: Path) -> dict[str, list[str]]:
    splits = [folder / "qrels" / f"{split}.tsv" for split in _SPLITS]
    path = next((one for one in splits if one.exists()), None)
    if path is None:
        raise UsageError(
            f"{folder}: a BEIR folder needs qrels/test.tsv (or dev.tsv, train.tsv), and none is there"
        )
    found: dict[str, list[str]] = {}
    with open_text(path) as stream:
        for number, line in enumerate(stream, start=1):
            parts = line.split()
            if number == 1 and parts[:1] == ["query-id"]:
                continue
            if len(parts) not in (3, 4) or not parts[-1].lstrip("-").isdigit():
                raise UsageError(f"{path}:{number}: expected query-id, corpus-id, score")
            if int(parts[-1]) > 0:
                found.setdefault(parts[0], []).append(parts[-2])
    return found


def _file(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.exists():
            return path
    raise UsageError(f"{folder}: a BEIR folder needs {name}, and it is missing")


def _read(row: Row) -> Iterator[Question]:
    yield Question(
        id=row.text("_id"),
        question=row.text("text"),
        answers=(),
        scoring="retrieval",
        passages=tuple(row.fields["relevant"]),
        about=pick(row.fields, "metadata"),
    )


BEIR = Format(
    name="beir",
    summary="BEIR: a folder of corpus, queries and judgements.",
    datasets=("beir",),
    expects="a folder with corpus.jsonl, queries.jsonl and qrels/test.tsv",
    fits=has("_id", "text", "relevant"),
    read=_read,
    corpus=corpus,
    sniffed=False,
    rows=_rows,
)
