"""The questions and passages over which replies are recorded: one file of JSON lines.

Questions of NQ, HotpotQA, 2WikiMultihopQA and StrategyQA, evenly spaced over each file, with the
passages of the whole file as the corpus that each is searched in; and the questions that `skr_knn`
learns from. The file holds the data sets' own text: it is made where the data are and not kept.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from ragweave.datasets import open_dataset
from ragweave.tools.retrieval import Bm25Retriever
from ragweave.tools.text.normalize import words

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
FILES = {
    "nq": ("nq/nq-open-oracle.jsonl.gz", "nq/dpr-one-passage.jsonl.gz"),
    "hotpotqa": ("hotpotqa/hotpot-dev-200.jsonl.gz",),
    "2wiki": ("2wiki/2wiki-train-500.json.gz",),
    "strategyqa": ("strategyqa/strategyqa-train.json.gz",),
}
"""Each data set's files: questions come from the first, passages from all."""
TRAINING = "slimplm/judge-llama7b-train.jsonl.gz"
MOST_WORDS = 80
"""Longer passages are cut to their first words: a small machine reads some tens a second."""


@dataclass
class Asked:
    """A question as it is put to every method."""

    dataset: str
    id: str
    question: str
    answer_type: str
    answers: list[str]


@dataclass
class Material:
    """All that a recording needs of the data."""

    questions: list[Asked] = field(default_factory=list)
    passages: dict[str, list[Document]] = field(default_factory=dict)
    training: list[dict[str, Any]] = field(default_factory=list)

    @cached_property
    def retrievers(self) -> dict[str, Bm25Retriever]:
        """A BM25 index over each data set's passages."""
        return {name: Bm25Retriever.from_documents(docs) for name, docs in self.passages.items()}

    def taken(self, first: int, count: int) -> list[Asked]:
        """Return `count` questions of every data set from the `first` on, one of each in turn."""
        sets: dict[str, list[Asked]] = {}
        for one in self.questions:
            sets.setdefault(one.dataset, []).append(one)
        wanted = [found[first : first + count] for found in sets.values()]
        return [one for turn in zip_longest(*wanted) for one in turn if one is not None]


def prepare(path: Path, count: int, data: Path = DATA) -> str:
    """Write `count` questions of every data set with their corpora; return what was written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kinds: dict[str, int] = {}
    with gzip.open(path, "wt", encoding="utf-8") as out:
        for row in _rows(count, data):
            kinds[row["kind"]] = kinds.get(row["kind"], 0) + 1
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
    size = path.stat().st_size / 2**20
    return ", ".join(f"{number} {kind}s" for kind, number in kinds.items()) + f", {size:.1f} MiB"


def _rows(count: int, data: Path) -> Iterator[dict[str, Any]]:
    for name, files in FILES.items():
        seen: set[str] = set()
        for number, file in enumerate(files):
            rows = list(open_dataset(str(data / file)))
            for one in rows[:: max(1, len(rows) // count)][:count] if number == 0 else ():
                yield {
                    "kind": "question",
                    "dataset": name,
                    "id": one.id,
                    "question": one.question,
                    "answer_type": one.answer_type,
                    "answers": list(one.answers),
                }
            for doc in (doc for one in rows for doc in one.passages):
                if str(doc.id) not in seen:
                    seen.add(str(doc.id))
                    yield _passage(name, doc)
    with gzip.open(data / TRAINING, "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            asked = row.get("question") or row["input"]
            yield {"kind": "example", "question": asked, "needed": not row["known"]}


def _passage(name: str, doc: Document) -> dict[str, Any]:
    text = " ".join(doc.page_content.split()[:MOST_WORDS])
    title = doc.metadata.get("title") or ""
    return {"kind": "passage", "dataset": name, "title": title, "text": text}


def read(path: Path) -> Material:
    """Read what `prepare` wrote."""
    material = Material()
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            kind, name = row.pop("kind"), row.get("dataset", "")
            if kind == "question":
                material.questions.append(Asked(**row))
            elif kind == "passage":
                found = material.passages.setdefault(name, [])
                number = f"{name}-{len(found)}"
                metadata = {"title": row["title"]}
                found.append(Document(page_content=row["text"], metadata=metadata, id=number))
            else:
                material.training.append(row)
    return material


class WordEmbeddings(Embeddings):
    """Counts of words in hashed buckets: near enough for `skr_knn` to find neighbours by."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a vector a text."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the counts of a text's words."""
        vector = [0.0] * 512
        for word in words(text):
            vector[zlib.crc32(word.encode()) % 512] += 1.0
        return vector
