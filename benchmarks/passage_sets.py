"""Passages with questions and the passages that answer them, for the benchmarks of retrieval.

Public data are read from ../shared/data, seen from the project's root; `stdlib` and `sklearn` are made from the
documentation of the installed packages.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.documents import Document

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


class Asked(NamedTuple):
    """A question."""

    text: str
    support: frozenset[str]
    """Ids of the passages that answer it."""


class PassageSet(NamedTuple):
    """A corpus and its questions."""

    documents: list[Document]
    questions: list[Asked]


def rows(path: str) -> list[dict[str, Any]]:
    """Return the rows of a gzip file of JSON or JSON lines."""
    with gzip.open(DATA / path, "rt", encoding="utf-8") as file:
        return list(map(json.loads, file)) if ".jsonl" in path else json.load(file)


class _Corpus:
    """Passages by title and text, each once."""

    def __init__(self) -> None:
        self.ids: dict[tuple[str, str], str] = {}

    def add(self, title: str, text: str) -> str:
        return self.ids.setdefault((title, " ".join(text.split())), f"p{len(self.ids)}")

    def documents(self) -> list[Document]:
        return [Document(text, id=name, metadata={"title": title}) for (title, text), name in self.ids.items()]


def _paragraphs(records: list[dict[str, Any]], more: Iterable[dict[str, str]] = ()) -> PassageSet:
    """Read questions in HotpotQA's form."""
    corpus = _Corpus()
    questions = []
    for row in records:
        ids = {title: corpus.add(title, " ".join(sentences)) for title, sentences in row["context"]}
        support = frozenset(ids[title] for title, _ in row["supporting_facts"] if title in ids)
        questions.append(Asked(row["question"], support))
    for passage in more:
        corpus.add(passage["title"], passage["text"])
    return PassageSet(corpus.documents(), questions)


def two_wiki() -> PassageSet:
    """500 questions over 8,748 passages."""
    return _paragraphs(rows("2wiki/2wiki-train-500.json.gz"), rows("2wiki/2wiki-corpus-6119.json.gz"))


def hotpotqa() -> PassageSet:
    """300 questions over 2,960 passages."""
    return _paragraphs(rows("hotpotqa/hotpot-dev-200.jsonl.gz") + rows("hotpotqa/hotpot-train-100.json.gz"))


def musique(limit: int | None = None) -> PassageSet:
    """The first questions of 100 of two to four hops, over their passages (1,890 of all)."""
    corpus = _Corpus()
    questions = []
    for row in rows("musique/musique-train-100.json.gz")[:limit]:
        ids = [corpus.add(passage["title"], passage["paragraph_text"]) for passage in row["paragraphs"]]
        support = frozenset(
            name for name, passage in zip(ids, row["paragraphs"], strict=True) if passage["is_supporting"]
        )
        questions.append(Asked(row["question"], support))
    return PassageSet(corpus.documents(), questions)


def nq() -> PassageSet:
    """The first 300 questions, of one hop, over 3,320 passages."""
    corpus = _Corpus()
    questions = []
    for row in rows("nq/nq-open-oracle.jsonl.gz"):
        ids = [corpus.add(passage["title"], passage["text"]) for passage in row["ctxs"]]
        questions.append(Asked(row["question"], frozenset(ids)))
    for row in rows("nq/dpr-one-passage.jsonl.gz"):
        corpus.add(row["ctx"]["title"].strip('"'), row["ctx"]["text"])
    return PassageSet(corpus.documents(), questions[:300])


def squad() -> PassageSet:
    """Every fourth answerable question, of one hop, over 646 passages that share 16 titles."""
    corpus = _Corpus()
    questions = []
    for article in rows("abstain/squad2-dev-sample.json.gz")["data"]:  # type: ignore[call-overload]
        for passage in article["paragraphs"]:
            name = corpus.add(article["title"].replace("_", " "), passage["context"])
            questions += [Asked(q["question"], frozenset([name])) for q in passage["qas"] if not q["is_impossible"]]
    return PassageSet(corpus.documents(), questions[::4])


def scifact() -> PassageSet:
    """300 claims, of one hop and few names, over 5,183 abstracts."""
    with zipfile.ZipFile(DATA / "retrieval" / "scifact.zip") as packed, packed.open("corpus_train.csv") as raw:
        abstracts = list(csv.DictReader(io.TextIOWrapper(raw, "utf-8")))
    documents = [Document(row["abstract"], id=row["doc_id"], metadata={"title": row["title"]}) for row in abstracts]
    relevant: dict[str, set[str]] = {}
    for line in (DATA / "retrieval" / "scifact-qrels.test.txt").read_text("utf-8").splitlines():
        claim, _, name, grade = line.split()
        if int(grade) > 0:
            relevant.setdefault(claim, set()).add(name)
    with gzip.open(DATA / "retrieval" / "scifact-topics.test.tsv.gz", "rt", encoding="utf-8") as file:
        claims = dict(line.rstrip("\n").split("\t", 1) for line in file)
    return PassageSet(documents, [Asked(claims[claim], frozenset(wanted)) for claim, wanted in relevant.items()])


def clapnq() -> PassageSet:
    """300 questions with long answers over 300 passages and those of NQ."""
    corpus = _Corpus()
    questions = []
    for row in rows("filter/clapnq-answerable.jsonl.gz"):
        ids = [corpus.add(passage["title"], passage["text"]) for passage in row["passages"]]
        questions.append(Asked(row["input"], frozenset(ids)))
    for doc in nq().documents:
        corpus.add(doc.metadata["title"], doc.page_content)
    return PassageSet(corpus.documents(), questions)


SETS: dict[str, Callable[[], PassageSet]] = {
    "2wiki": two_wiki,
    "hotpotqa": hotpotqa,
    "musique": musique,
    "nq": nq,
    "squad": squad,
    "clapnq": clapnq,
    "scifact": scifact,
}


def together() -> tuple[list[Document], dict[str, list[Asked]]]:
    """Return the passages of all sets as one corpus of 23,034, and the questions of each set over it."""
    ids: dict[tuple[str, str], str] = {}
    questions = {}
    for name, load in SETS.items():
        documents, asked = load()
        new = {
            str(doc.id): ids.setdefault((doc.metadata["title"], doc.page_content), f"p{len(ids)}") for doc in documents
        }
        questions[name] = [Asked(each.text, frozenset(new[old] for old in each.support)) for each in asked]
    return [Document(text, id=name, metadata={"title": title}) for (title, text), name in ids.items()], questions
