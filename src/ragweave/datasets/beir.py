"""BEIR folders: corpus.jsonl, queries.jsonl and qrels (Thakur et al. 2021)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from langchain_core.documents import Document

from ragweave.datasets.question import Format, Question, has, passage
from ragweave.datasets.rows import Row, Rows, open_text, pick, rows_of
from ragweave.errors import UsageError

_SPLITS = ("test", "dev", "train")


def corpus(folder: Path) -> Iterator[Document]:
    """Yield the collection's documents under their own ids; a title alone is a text, too.

    Documents with neither text nor title, which published collections hold, are left out.
    """
    for row in rows_of(_file(folder, "corpus.jsonl")):
        title = str(row.fields.get("title") or "").strip()
        blank = not str(row.fields.get("text") or "").strip()
        if blank and not title:
            continue
        doc = passage(title if blank else row.text("text"), title)
        yield doc.model_copy(update={"id": row.text("_id")})


def _rows(folder: Path) -> Rows:
    """Yield the queries that have relevance judgements, with the ids of their relevant documents."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: a BEIR data set is a folder, but this is a file")
    relevant = _judgements(folder)
    for row in rows_of(_file(folder, "queries.jsonl")):
        if row.text("_id") in relevant:
            yield Row({**row.fields, "relevant": relevant[row.text("_id")]}, row.where, row.number)


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
        passages=tuple(
            passage(f"document {key}", gold=True).model_copy(update={"id": key})
            for key in row.fields["relevant"]
        ),
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
