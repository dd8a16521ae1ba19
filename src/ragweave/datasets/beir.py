"""BEIR folders (Thakur et al. 2021): queries, documents and graded judgements of relevance."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from langchain_core.documents import Document

from ragweave.datasets.open_qa import read_plain
from ragweave.datasets.question import Format, Question, passage
from ragweave.datasets.rows import open_text, read_rows
from ragweave.errors import UsageError


def read_beir(folder: Path) -> Iterator[Question]:
    """Read the queries that have judgements, with their grades."""
    grades = _grades(folder)
    for row in read_rows(_packed(folder / "queries.jsonl")):
        name = row.text("_id")
        if name in grades:
            yield Question(id=name, question=row.text("text"), kind="retrieval", gold=grades[name])


def _grades(folder: Path) -> dict[str, dict[str, float]]:
    tables = [folder / "qrels" / f"{split}.tsv" for split in ("test", "dev", "train")]
    path = next((one for one in tables if one.exists()), None)
    if path is None:
        raise UsageError(f"{folder}: a BEIR folder needs qrels/test.tsv, dev.tsv or train.tsv")
    found: dict[str, dict[str, float]] = {}
    with open_text(path) as file:
        for number, line in enumerate(file, 1):
            cells = line.split()
            whole = bool(cells) and cells[-1].lstrip("-").isdigit()
            if not cells or (number == 1 and not whole):
                continue
            if len(cells) not in (3, 4) or not whole:
                raise UsageError(f"{path}:{number}: must be query-id, corpus-id and score")
            if int(cells[-1]) > 0:
                found.setdefault(cells[0], {})[cells[-2]] = float(cells[-1])
    return found


def beir_corpus(folder: Path) -> Iterator[Document]:
    """Yield the documents; the title of one without a text is its text."""
    for row in read_rows(_packed(folder / "corpus.jsonl")):
        title, text = (str(row.get(one) or "").strip() for one in ("title", "text"))
        if title or text:
            yield passage(text or title, title, row.text("_id"))


def _packed(path: Path) -> Path:
    packed = path.with_name(path.name + ".gz")
    return packed if packed.exists() and not path.exists() else path


FORMATS = (Format("beir", "A BEIR folder.", read_plain, read_folder=read_beir, corpus=beir_corpus),)
